from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.utils import timezone

from memoryhub.journal import writer
from memoryhub.journal.forget import scrub
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.server.leases import Lease
from memoryhub.models.subjects import Subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasures, receipts
from memoryhub.services.scan import scans
from memoryhub.workers import leases
from memoryhub.workers.erasures import LEASE, LONGEST_SECONDS, Eraser
from tests.cast import forgetting
from tests.cast.factories import append, get_thread, make_thread
from tests.cast.forgetting import confirm, make_person, plan

pytestmark = pytest.mark.django_db(transaction=True)

State = Erasure.State


class Ticks:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def confirmed(agent: Agent, user_id: str = "ann") -> Erasure:
    make_thread(agent, f"{user_id}-1", user_id=user_id)
    append(agent, f"{user_id}-1", "I would like seat 12A by the window, please.")
    return forgetting.confirm(forgetting.plan(forgetting.get_subject(agent, user_id)))


def state(row: Erasure) -> str:
    return str(Erasure.objects.get(id=row.id).state)


def test_idle_eraser_takes_no_lease(agent: Agent) -> None:
    make_thread(agent, "bob-1", user_id="bob")
    assert Eraser().run_round() == 0
    assert not Lease.objects.filter(name=LEASE).exists()


def test_confirmed_erasure_is_run_to_its_receipt(agent: Agent) -> None:
    make_thread(agent, "bob-1", user_id="bob")
    append(agent, "bob-1", "I would like seat 12A by the window, please.")
    rows = [confirmed(agent, name) for name in ("ann", "eve")]
    # fenced → key destroyed → rows → caches, each; scrubbed → verified together; then
    # complete, each.
    assert Eraser().run_round() == 2 * 3 + 2 + 2
    assert [state(row) for row in rows] == [State.COMPLETE] * 2
    assert Receipt.objects.count() == 2
    assert Eraser().run_round() == 0
    append(agent, "bob-1", "The twin is there.")


def test_unconfirmed_erasure_plan_is_left_alone(agent: Agent) -> None:
    make_thread(agent, "ann-1", user_id="ann")
    subject = Subject.objects.get(threads__name="ann-1")
    row = forgetting.plan(subject)
    assert Eraser().run_round() == 0
    assert state(row) == State.PLANNED
    with time_machine.travel(timezone.now() + timedelta(minutes=16)):
        Eraser().run_round()
    assert state(row) == State.EXPIRED


def test_eraser_waits_for_the_lease_of_another_process(agent: Agent) -> None:
    row = confirmed(agent)
    other = uuid4()
    assert leases.hold(LEASE, holder=other, now=timezone.now())
    assert Eraser().run_round() == 0
    assert state(row) == State.FENCED
    leases.release(LEASE, holder=other, now=timezone.now())
    assert Eraser().run_round() == 6


def test_waiting_erasure_is_retried_with_growing_pauses(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, ticks = confirmed(agent), Ticks()
    asked: list[float] = []

    def busy(*, seconds: float) -> str:
        asked.append(ticks.now)
        return scrub.READER

    monkeypatch.setattr(scrub, "scrub", busy)
    eraser = Eraser(ticks=ticks)
    for _ in range(200):
        eraser.run_round()
        ticks.now += 1
    pauses = [after - before for before, after in pairwise(asked)]
    assert pauses[:6] == [1, 2, 4, 8, 16, 32]
    assert max(pauses) == LONGEST_SECONDS
    found = Erasure.objects.get(id=row.id)
    assert (found.state, found.waiting_on) == (State.CACHES_PURGED, "reader")
    assert not Receipt.objects.exists()
    monkeypatch.undo()
    ticks.now += LONGEST_SECONDS
    eraser.run_round()
    assert state(row) == State.COMPLETE


def test_waiting_erasure_delays_no_other(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, other = confirmed(agent, "ann"), confirmed(agent, "eve")
    advance = erasures.advance_erasure
    monkeypatch.setattr(
        erasures,
        "advance_erasure",
        lambda row: row if row.id == stuck.id else advance(row),
    )
    Eraser().run_round()
    assert (state(stuck), state(other)) == (State.FENCED, State.COMPLETE)
    monkeypatch.undo()


def planned(agent: Agent, user_id: str) -> Erasure:
    subject = make_person(agent, user_id)
    thread = get_thread(agent, f"{user_id}-1")
    return plan(subject, "record", thread=thread, seq=2)


def narrow(agent: Agent, user_id: str) -> Erasure:
    """Plan and confirm the erasure of one record; nobody has fenced it yet."""
    return confirm(planned(agent, user_id))


def test_erasures_are_all_fenced_before_the_first_scan(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [narrow(agent, name) for name in ("ann", "bob", "eve", "joe")]
    scan, seen = scans.scan_surfaces, []

    def looked(*args: Any, **options: Any) -> Any:
        seen.append([state(row) for row in rows])
        return scan(*args, **options)

    monkeypatch.setattr(scans, "scan_surfaces", looked)
    assert [state(row) for row in rows] == [State.PLANNED] * 4
    Eraser().run_round()
    # None of them can be read any more, however long the one scan for all takes.
    assert seen == [[State.SCRUBBED] * 4]
    assert [state(row) for row in rows] == [State.COMPLETE] * 4


def test_erasure_confirmed_during_a_scan_is_fenced_meanwhile(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = narrow(agent, "ann"), planned(agent, "bob")
    begun, fenced, done, waited = Event(), Event(), Event(), []
    scan, advance = scans.scan_surfaces, erasures.advance_erasure

    def looked(*args: Any, **options: Any) -> Any:
        begun.set()
        waited.append(fenced.wait(timeout=20))
        return scan(*args, **options)

    def advanced(row: Erasure) -> Erasure:
        row = advance(row)
        if row.state in (State.TOMBSTONED, State.COMPLETE) and begun.is_set():
            (done if row.id == first.id else fenced).set()
        return row

    monkeypatch.setattr(scans, "scan_surfaces", looked)
    monkeypatch.setattr(erasures, "advance_erasure", advanced)
    writer.start()
    eraser = Eraser()
    eraser.start()
    try:
        assert begun.wait(timeout=30)
        confirm(second)
        # The scan of the first goes on until the second one's fence stands.
        assert done.wait(timeout=60)
    finally:
        eraser.stop()
        writer.stop()
    assert all(waited)
    assert state(first) == State.COMPLETE
    append(agent, "bob-1", "The thread lives on.")


def test_fence_waits_for_the_holder_of_the_lease(agent: Agent) -> None:
    row, other = narrow(agent, "ann"), uuid4()
    assert leases.hold(LEASE, holder=other, now=timezone.now())
    assert Eraser().fence() == 0
    assert state(row) == State.PLANNED
    leases.release(LEASE, holder=other, now=timezone.now())
    eraser = Eraser()
    # Said twice it is done once.
    assert (eraser.fence(), eraser.fence()) == (1, 0)
    assert state(row) == State.TOMBSTONED


def test_eraser_runs_in_its_own_thread(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, done = confirmed(agent), Event()
    tell = receipts.issue_receipt

    def told(erasure: Erasure) -> Receipt:
        done.set()
        return tell(erasure)

    monkeypatch.setattr(receipts, "issue_receipt", told)
    writer.start()
    eraser = Eraser()
    eraser.start()
    assert done.wait(timeout=30)
    # The step at hand is finished, and those after it are another's.
    eraser.stop()
    writer.stop()
    assert state(row) == State.COMPLETE
    assert Lease.objects.get(name=LEASE).expires_at <= timezone.now()
