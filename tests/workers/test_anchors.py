"""Anchoring: heads are vouched for outside, and nobody can have a cut one blessed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from memoryhub.errors import LedgerUnwritableError
from memoryhub.journal import audit
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.keys import NewestLine
from memoryhub.models.projects import Instance
from memoryhub.models.threads import Thread
from memoryhub.queries.verify import anchors as standings
from memoryhub.services.access.api_keys import Agent
from memoryhub.vault.proof import anchors, chained
from memoryhub.workers.anchors import AnchorsDifferError, anchor, move
from tests.cast.factories import append, get_thread, make_thread
from tests.promises.tampering.test_tamper import undone

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture
def thread(agent: Agent) -> Thread:
    make_thread(agent)
    append(agent, "t-1", *range(4))
    return get_thread(agent)


def test_all_heads_are_anchored(agent: Agent, thread: Thread) -> None:
    make_thread(agent, "t-2")
    assert anchor(NOW) == 2
    for row in Thread.objects.all():
        assert row.anchored_seq == row.head_seq > 0
        assert bytes(row.anchored_hash) == bytes(row.head_hash)
    (line,) = anchors.anchors()
    assert (line.n, line.at, line.heads.threads) == (1, NOW, 2)
    assert standings.get_standing().wrong == ""


def test_only_what_moved_is_moved(agent: Agent, thread: Thread) -> None:
    make_thread(agent, "t-2")
    anchor(NOW)
    append(agent, "t-2", "more")
    assert anchor(NOW) == 1
    assert anchor(NOW) == 0
    assert [line.n for line in anchors.anchors()] == [1, 2, 3]
    assert standings.get_standing().threads == 2


def test_nothing_to_anchor_is_a_line_too() -> None:
    assert standings.get_standing() == standings.Standing()
    assert anchor(NOW) == 0
    assert standings.get_standing().n == 1


def test_what_is_being_imported_has_no_head_yet(thread: Thread) -> None:
    Thread.objects.update(status=Thread.Status.IMPORTING)
    assert anchor(NOW) == 0
    Thread.objects.update(status=Thread.Status.OPEN)
    assert anchor(NOW) == 1


@pytest.mark.parametrize("size", [1, 12])
def test_moving_takes_one_statement_whatever_moved(agent: Agent, size: int) -> None:
    for number in range(size):
        make_thread(agent, f"t-{number}")
    with CaptureQueriesContext(connection) as queries:
        assert move(at=NOW) == size
    texts = [query["sql"] for query in queries.captured_queries]
    moves = [text for text in texts if text.startswith('UPDATE "memoryhub_thread"')]
    assert len(moves) == 1


@pytest.mark.grown
@pytest.mark.django_db(transaction=True)
def test_a_thread_that_a_writer_holds_is_passed_over(agent: Agent) -> None:
    """Neither waits for the other; it has its anchor an hour later."""
    make_thread(agent, "held")
    make_thread(agent, "free")
    held, let_go = Event(), Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                Thread.objects.select_for_update().get(name="held")
                held.set()
                assert let_go.wait(30)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(hold)
        assert held.wait(30)
        assert move(at=NOW) == 1
        let_go.set()
        writing.result(30)
    assert Thread.objects.get(name="held").anchored_seq == 0
    assert standings.get_standing().wrong == ""
    assert move(at=NOW) == 1


@pytest.mark.no_replay
def test_a_cut_head_is_not_blessed(agent: Agent, thread: Thread) -> None:
    """Moved back behind its anchor, and written on beyond it."""
    anchor(NOW)
    Thread.objects.update(anchored_hash=b"x" * 32)
    with pytest.raises(AnchorsDifferError) as differing:
        move(at=NOW)
    assert differing.value.standing.wrong == "anchors"
    assert anchor(NOW) == 0
    assert len(list(anchors.anchors())) == 1


@pytest.mark.no_replay
def test_a_thread_that_left_its_anchor_is_not_moved(
    agent: Agent, thread: Thread
) -> None:
    anchor(NOW)
    Thread.objects.update(head_seq=thread.head_seq - 1)
    assert move(at=NOW) == 0
    Thread.objects.update(head_seq=thread.head_seq)
    append(agent, "t-1", "more")
    assert move(at=NOW) == 1


@pytest.mark.no_replay
def test_after_a_restore_it_begins_anew(agent: Agent, thread: Thread) -> None:
    anchor(NOW)
    seq, digest = thread.head_seq, bytes(thread.head_hash)
    append(agent, "t-1", "more")
    anchor(NOW)
    Thread.objects.update(anchored_seq=seq, anchored_hash=digest)
    standing = standings.get_standing()
    assert (standing.wrong, standing.n, standing.as_of) == ("anchors", 2, 1)
    assert move(at=NOW, anew=True) == 1
    assert standings.get_standing().wrong == ""
    Thread.objects.update(anchored_seq=seq, anchored_hash=b"y" * 32)
    assert move(at=NOW, anew=True) == 1
    assert standings.get_standing().wrong == ""


def test_a_full_disk_moves_nothing(
    thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    anchor(NOW)
    Thread.objects.update(anchored_seq=0, anchored_hash=b"")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(LedgerUnwritableError):
            move(at=NOW, anew=True)
    assert Thread.objects.get().anchored_seq == 0
    assert len(list(anchors.anchors())) == 1


@contextmanager
def unnoted() -> Iterator[None]:
    """As when a process dies before the keys database knows of a line."""
    rows = NewestLine.objects.using("keys").filter(file=anchors.path().name)
    known = list(rows.all())
    yield
    rows.all().delete()
    rows.bulk_create(known)


def count_lines() -> int:
    return len(list(anchors.anchors()))


@pytest.mark.parametrize("first", [True, False])
def test_a_line_whose_columns_were_never_committed_is_replaced(
    agent: Agent, thread: Thread, first: bool
) -> None:
    """Killed between the file and the commit: what the line before it says holds."""
    if not first:
        anchor(NOW)
    append(agent, "t-1", "more")
    before = count_lines()
    with unnoted(), undone():
        anchor(NOW)
    assert count_lines() == before + 1
    standing = standings.get_standing()
    assert (standing.wrong, standing.n) == ("", before)
    assert anchor(NOW) == 1
    assert count_lines() == before + 1
    standing = standings.get_standing()
    assert (standing.wrong, standing.n) == ("", before + 1)


def test_a_line_whose_columns_were_committed_stays(
    agent: Agent, thread: Thread
) -> None:
    """Killed between the commit and the keys database."""
    anchor(NOW)
    append(agent, "t-1", "more")
    with unnoted():
        anchor(NOW)
    standing = standings.get_standing()
    assert (standing.wrong, standing.n) == ("", 2)
    append(agent, "t-1", "and more")
    assert anchor(NOW) == 1
    assert count_lines() == 3
    assert standings.get_standing().wrong == ""


def test_a_restored_keys_database_is_named_until_it_begins_anew(
    agent: Agent, thread: Thread
) -> None:
    anchor(NOW)
    with unnoted():
        anchor(NOW)
        anchor(NOW)
    assert standings.get_standing().wrong == "anchors_ahead"
    assert anchor(NOW) == 0
    assert count_lines() == 3
    move(at=NOW, anew=True)
    assert standings.get_standing().wrong == ""


@pytest.mark.parametrize("left", [0, 1, None])
def test_a_file_that_was_cut_begins_anew_by_hand_alone(
    thread: Thread, left: int | None
) -> None:
    for _ in range(3):
        anchor(NOW)
    path = anchors.path()
    lines = path.read_bytes().splitlines(keepends=True)
    path.unlink()
    if left is not None:
        path.write_bytes(b"".join(lines[:left]))
    assert standings.get_standing().wrong == "anchors_behind"
    assert anchor(NOW) == 0
    assert count_lines() == (left or 0)
    move(at=NOW, anew=True)
    assert standings.get_standing().wrong == ""
    assert anchor(NOW) == 0
    assert count_lines() == (left or 0) + 2


def test_the_mirror_of_the_ledger_has_them_too(
    thread: Thread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "LEDGER_MIRROR", tmp_path / "mirror")
    anchor(NOW)
    anchor(NOW)
    path, mirrored = anchors.path(), tmp_path / "mirror" / anchors.path().name
    whole = path.read_bytes()
    assert mirrored.read_bytes() == whole
    # What does not count yet is not in it, whoever brings it up meanwhile.
    newest = list(chained.iter_links(path))[-1]
    anchors.draft(standings.get_heads(), at=NOW)
    anchors.note(newest)
    assert mirrored.read_bytes() == whole
    path.unlink()
    assert standings.get_standing().wrong == "anchors_behind"
    assert anchors.recover()
    assert path.read_bytes() == whole
    assert standings.get_standing().wrong == ""


def note() -> None:
    with transaction.atomic():
        audit.append(actor="command", action="verified", project=None)


@pytest.mark.no_replay
def test_a_cut_audit_log_shows_too(thread: Thread) -> None:
    note()
    note()
    anchor(NOW)
    note()
    assert standings.get_standing().wrong == ""
    drop_trigger()
    AuditEntry.objects.filter(seq__gte=2).delete()
    first = AuditEntry.objects.get()
    Instance.objects.update(audit_seq=1, audit_hash=bytes(first.hash))
    assert standings.get_standing().wrong == "audit_anchor"
    assert anchor(NOW) == 0


def drop_trigger() -> None:
    on = " ON memoryhub_auditentry" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER memoryhub_auditentry_delete{on}")
