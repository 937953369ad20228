from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection

from memoryhub.journal.texts import texts
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.verify import context_verification
from memoryhub.queries.verify.context_verification import ContextCheck, iter_checks
from tests.cast.recordings import array, bookings, find, run, take

pytestmark = pytest.mark.django_db


@pytest.fixture
def thread(acme: Project, tmp_path: Path) -> Thread:
    """Twelve recorded contexts."""
    take(acme, array(tmp_path, run(messages=bookings(6))), budget=2_000)
    return find(acme, "desk:0:0")


def lift_guard() -> None:
    on = " ON memoryhub_event" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER memoryhub_event_update{on}")


def wrong(thread: Thread) -> list[tuple[int, str]]:
    texts.clear()
    return [(each.turn, each.wrong) for each in iter_checks(thread) if each.wrong]


def test_every_context_is_verified_once(thread: Thread) -> None:
    assert list(iter_checks(thread)) == [ContextCheck(turn=n) for n in range(1, 13)]
    assert context_verification.count_contexts(Thread.objects.all()) == 12


def test_context_verification_joins_its_chunks(
    thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context_verification, "CHUNK", 5)
    assert [each.turn for each in iter_checks(thread)] == [*range(1, 13)]


@pytest.mark.no_replay
def test_record_that_is_another_turns_is_wrong(thread: Thread) -> None:
    seq = thread.turns.get(n=5).packed_seq
    thread.turns.filter(n=4).update(packed_seq=seq)
    assert wrong(thread) == [(4, "turn")]


@pytest.mark.no_replay
def test_record_that_is_gone_is_wrong(thread: Thread) -> None:
    thread.turns.filter(n=4).update(packed_seq=100_000)
    assert wrong(thread) == [(4, "record")]


@pytest.mark.no_replay
def test_unknown_packer_is_wrong(thread: Thread) -> None:
    lift_guard()
    row = thread.events.get(seq=thread.turns.get(n=7).packed_seq or 0)
    changed = row.body.replace('"pack/3"', '"pack/9"')
    Event.objects.filter(thread=thread, seq=row.seq).update(body=changed)
    assert wrong(thread) == [(7, "packer")]


@pytest.mark.no_replay
def test_text_that_was_swapped_is_wrong(thread: Thread) -> None:
    """A payload of another place fails although it opens."""
    lift_guard()
    first, second = thread.slots.order_by("index")[1:3]
    rows = Event.objects.filter(thread=thread)
    rows.filter(seq=first.seq).update(payload=rows.get(seq=second.seq).payload)
    assert wrong(thread)


@pytest.mark.no_replay
def test_part_that_is_gone_without_an_eraser_is_wrong(thread: Thread) -> None:
    lift_guard()
    seq = thread.slots.get(index=1).seq
    Event.objects.filter(thread=thread, seq=seq).update(payload=None)
    assert wrong(thread)[0] == (1, "missing")


@pytest.mark.no_replay
def test_part_that_was_erased_is_told_apart(thread: Thread) -> None:
    """The row is as the eraser leaves it."""
    lift_guard()
    seq = thread.slots.get(index=1).seq
    rows = Event.objects.filter(thread=thread, seq=seq)
    rows.update(payload=None, erased_by=thread.head_seq)
    texts.clear()
    checked = list(iter_checks(thread))
    assert checked[0] == ContextCheck(turn=1, erased=True)
    assert not any(each.wrong for each in checked)
