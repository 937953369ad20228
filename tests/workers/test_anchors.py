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
from memoryhub.workers.anchors import AnchorsDifferError, anchor_heads, move
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
    assert anchor_heads(NOW) == 2
    for row in Thread.objects.all():
        assert row.anchored_seq == row.head_seq > 0
        assert bytes(row.anchored_hash) == bytes(row.head_hash)
    (line,) = anchors.iter_anchors()
    assert (line.n, line.at, line.heads.threads) == (1, NOW, 2)
    assert standings.check_anchors().wrong == ""


def test_anchor_moves_only_for_threads_with_new_events(
    agent: Agent, thread: Thread
) -> None:
    make_thread(agent, "t-2")
    anchor_heads(NOW)
    append(agent, "t-2", "more")
    assert anchor_heads(NOW) == 1
    assert anchor_heads(NOW) == 0
    assert [line.n for line in anchors.iter_anchors()] == [1, 2, 3]
    assert standings.check_anchors().threads == 2


def test_anchor_line_is_written_even_without_heads() -> None:
    assert standings.check_anchors() == standings.AnchorState()
    assert anchor_heads(NOW) == 0
    assert standings.check_anchors().n == 1


def test_thread_that_is_being_imported_is_not_anchored(thread: Thread) -> None:
    Thread.objects.update(status=Thread.Status.IMPORTING)
    assert anchor_heads(NOW) == 0
    Thread.objects.update(status=Thread.Status.OPEN)
    assert anchor_heads(NOW) == 1


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
def test_thread_that_a_writer_holds_is_passed_over(agent: Agent) -> None:
    """Neither waits for the other; the thread gets its anchor an hour later."""
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
    assert standings.check_anchors().wrong == ""
    assert move(at=NOW) == 1


@pytest.mark.no_replay
def test_cut_head_is_not_anchored(agent: Agent, thread: Thread) -> None:
    """The head was moved back behind its anchor, and written on beyond it."""
    anchor_heads(NOW)
    Thread.objects.update(anchored_hash=b"x" * 32)
    with pytest.raises(AnchorsDifferError) as differing:
        move(at=NOW)
    assert differing.value.standing.wrong == "anchors"
    assert anchor_heads(NOW) == 0
    assert len(list(anchors.iter_anchors())) == 1


@pytest.mark.no_replay
def test_thread_that_left_its_anchor_is_not_moved(agent: Agent, thread: Thread) -> None:
    anchor_heads(NOW)
    Thread.objects.update(head_seq=thread.head_seq - 1)
    assert move(at=NOW) == 0
    Thread.objects.update(head_seq=thread.head_seq)
    append(agent, "t-1", "more")
    assert move(at=NOW) == 1


@pytest.mark.no_replay
def test_anchors_begin_anew_after_a_restore(agent: Agent, thread: Thread) -> None:
    anchor_heads(NOW)
    seq, digest = thread.head_seq, bytes(thread.head_hash)
    append(agent, "t-1", "more")
    anchor_heads(NOW)
    Thread.objects.update(anchored_seq=seq, anchored_hash=digest)
    standing = standings.check_anchors()
    assert (standing.wrong, standing.n, standing.as_of) == ("anchors", 2, 1)
    assert move(at=NOW, anew=True) == 1
    assert standings.check_anchors().wrong == ""
    Thread.objects.update(anchored_seq=seq, anchored_hash=b"y" * 32)
    assert move(at=NOW, anew=True) == 1
    assert standings.check_anchors().wrong == ""


def test_full_disk_moves_no_anchor(
    thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    anchor_heads(NOW)
    Thread.objects.update(anchored_seq=0, anchored_hash=b"")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(LedgerUnwritableError):
            move(at=NOW, anew=True)
    assert Thread.objects.get().anchored_seq == 0
    assert len(list(anchors.iter_anchors())) == 1


@contextmanager
def forgetting_note() -> Iterator[None]:
    """Take back a line's note, as when a process dies before the database has it."""
    rows = NewestLine.objects.using("keys").filter(file=anchors.path().name)
    known = list(rows.all())
    yield
    rows.all().delete()
    rows.bulk_create(known)


def count_lines() -> int:
    return len(list(anchors.iter_anchors()))


@pytest.mark.parametrize("first", [True, False])
def test_line_whose_columns_were_never_committed_is_replaced(
    agent: Agent, thread: Thread, first: bool
) -> None:
    """The worker was killed between file and commit: the line before holds."""
    if not first:
        anchor_heads(NOW)
    append(agent, "t-1", "more")
    before = count_lines()
    with forgetting_note(), undone():
        anchor_heads(NOW)
    assert count_lines() == before + 1
    standing = standings.check_anchors()
    assert (standing.wrong, standing.n) == ("", before)
    assert anchor_heads(NOW) == 1
    assert count_lines() == before + 1
    standing = standings.check_anchors()
    assert (standing.wrong, standing.n) == ("", before + 1)


def test_line_whose_columns_were_committed_stays(agent: Agent, thread: Thread) -> None:
    """The worker was killed between the commit and the keys database."""
    anchor_heads(NOW)
    append(agent, "t-1", "more")
    with forgetting_note():
        anchor_heads(NOW)
    standing = standings.check_anchors()
    assert (standing.wrong, standing.n) == ("", 2)
    append(agent, "t-1", "and more")
    assert anchor_heads(NOW) == 1
    assert count_lines() == 3
    assert standings.check_anchors().wrong == ""


def test_restored_keys_database_is_named_until_it_begins_anew(
    agent: Agent, thread: Thread
) -> None:
    anchor_heads(NOW)
    with forgetting_note():
        anchor_heads(NOW)
        anchor_heads(NOW)
    assert standings.check_anchors().wrong == "anchors_ahead"
    assert anchor_heads(NOW) == 0
    assert count_lines() == 3
    move(at=NOW, anew=True)
    assert standings.check_anchors().wrong == ""


@pytest.mark.parametrize("left", [0, 1, None])
def test_file_that_was_cut_begins_anew_by_hand_alone(
    thread: Thread, left: int | None
) -> None:
    for _ in range(3):
        anchor_heads(NOW)
    path = anchors.path()
    lines = path.read_bytes().splitlines(keepends=True)
    path.unlink()
    if left is not None:
        path.write_bytes(b"".join(lines[:left]))
    assert standings.check_anchors().wrong == "anchors_behind"
    assert anchor_heads(NOW) == 0
    assert count_lines() == (left or 0)
    move(at=NOW, anew=True)
    assert standings.check_anchors().wrong == ""
    assert anchor_heads(NOW) == 0
    assert count_lines() == (left or 0) + 2


def test_ledger_mirror_has_the_anchors(
    thread: Thread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "LEDGER_MIRROR", tmp_path / "mirror")
    anchor_heads(NOW)
    anchor_heads(NOW)
    path, mirrored = anchors.path(), tmp_path / "mirror" / anchors.path().name
    whole = path.read_bytes()
    assert mirrored.read_bytes() == whole
    # A drafted line is not in the mirror, whoever copies meanwhile.
    newest = list(chained.iter_links(path))[-1]
    anchors.draft(standings.get_heads(), at=NOW)
    anchors.note(newest)
    assert mirrored.read_bytes() == whole
    path.unlink()
    assert standings.check_anchors().wrong == "anchors_behind"
    assert anchors.recover()
    assert path.read_bytes() == whole
    assert standings.check_anchors().wrong == ""


def note() -> None:
    with transaction.atomic():
        audit.append(actor="command", action="verified", project=None)


@pytest.mark.no_replay
def test_cut_audit_log_is_found_by_its_anchor(thread: Thread) -> None:
    note()
    note()
    anchor_heads(NOW)
    note()
    assert standings.check_anchors().wrong == ""
    drop_trigger()
    AuditEntry.objects.filter(seq__gte=2).delete()
    first = AuditEntry.objects.get()
    Instance.objects.update(audit_seq=1, audit_hash=bytes(first.hash))
    assert standings.check_anchors().wrong == "audit_anchor"
    assert anchor_heads(NOW) == 0


def drop_trigger() -> None:
    on = " ON memoryhub_auditentry" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER memoryhub_auditentry_delete{on}")
