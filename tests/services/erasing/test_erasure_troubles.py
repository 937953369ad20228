"""Troubles of one erasure, or of two erasers at once: no other erasure suffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Event as Signal
from threading import get_ident
from typing import Any
from uuid import UUID

import orjson
import pytest
from django.db import connection, connections

from memoryhub.errors import ValueErasedError
from memoryhub.models.erasures import Erasure, Receipt, Tombstone
from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.forget import erasure_targets, erasure_waits
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.queries.verify import health, privacy_checks
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasures, ledgers, replays
from memoryhub.services.scan import scans
from memoryhub.services.scan.scans import ScanResult
from memoryhub.vault.proof import ledger
from memoryhub.workers.erasures import Eraser
from tests.cast.factories import append, get_thread, make_page, make_thread
from tests.cast.forgetting import confirm, finish, forget, make_person, plan

pytestmark = pytest.mark.django_db(transaction=True)

State = Erasure.State
TEXT = "Her knee was operated on in the spring of last year."


@pytest.fixture
def ann(agent: Agent) -> Subject:
    return make_person(agent, "ann")


@pytest.fixture
def bob(agent: Agent) -> Subject:
    return make_person(agent, "bob")


def write_page(agent: Agent, name: str, text: str = TEXT) -> Event:
    """Write a page with the text, and return its event."""
    make_page(agent, "health", thread=name, text=text)
    rows = Event.objects.filter(thread__name=name, type="page.created")
    return rows.order_by("-seq")[0]


def flip(event: Event) -> None:
    """Flip a bit of the sealed payload, as a failing disk does."""
    sealed = bytearray(event.payload or b"")
    sealed[-1] ^= 1
    change = "UPDATE memoryhub_event SET payload = %s WHERE thread_id = %s AND seq = %s"
    thread = event.thread_id
    known = thread if connection.vendor == "postgresql" else thread.hex
    values = [bytes(sealed), known, event.seq]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("ALTER TABLE memoryhub_event DISABLE TRIGGER USER")
            cursor.execute(change, values)
            cursor.execute("ALTER TABLE memoryhub_event ENABLE TRIGGER USER")
            return
        cursor.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'memoryhub_event_update'"
        )
        (trigger,) = cursor.fetchone()
        cursor.execute("DROP TRIGGER memoryhub_event_update")
        cursor.execute(change, values)
        cursor.execute(trigger)


def count_sealed(name: str) -> int:
    return Event.objects.filter(thread__name=name, payload__isnull=False).count()


# Payloads that do not open


def test_record_that_does_not_open_is_erased(
    agent: Agent, ann: Subject, bob: Subject
) -> None:
    pages = [write_page(agent, name) for name in ("ann-1", "bob-1")]
    flip(pages[0])
    for owner, page in ((ann, pages[0]), (bob, pages[1])):
        thread = get_thread(agent, page.thread.name)
        row = finish(confirm(plan(owner, "record", thread=thread, seq=page.seq)))
        assert (row.state, row.waiting_on) == (State.COMPLETE, "")
        page.refresh_from_db()
        assert page.payload is None
    # The damaged value is unknown; the twin's value is kept out.
    assert Tombstone.objects.filter(kind="value").get().subject_id == bob.id
    with pytest.raises(ValueErasedError):
        make_page(agent, "again", thread="bob-1", text=TEXT)
    append(agent, "ann-1", "The thread lives on.")


def test_readable_values_are_kept_out_beside_a_damaged_one(
    agent: Agent, ann: Subject
) -> None:
    flip(write_page(agent, "ann-1"))
    make_page(agent, "diet", thread="ann-1", text="She eats neither nuts nor fish.")
    finish(confirm(plan(ann, "thread", thread=get_thread(agent, "ann-1"))))
    make_thread(agent, "ann-2", user_id="ann")
    with pytest.raises(ValueErasedError):
        make_page(agent, "x", thread="ann-2", text="She eats neither nuts nor fish.")


#: Statements that make the database refuse a step, and allow the step again.
REFUSE = {
    "sqlite": (
        (
            "CREATE TRIGGER refuses BEFORE UPDATE OF blanked_seq ON memoryhub_thread "
            "BEGIN SELECT RAISE(ABORT, 'Ann may not go'); END"
        ),
        "DROP TRIGGER refuses",
    ),
    "postgresql": (
        (
            "ALTER TABLE memoryhub_thread ADD CONSTRAINT refuses "
            "CHECK (blanked_seq < 1) NOT VALID"
        ),
        "ALTER TABLE memoryhub_thread DROP CONSTRAINT refuses",
    ),
}


@pytest.mark.engines
def test_erasure_is_broken_when_the_database_refuses_a_step(ann: Subject) -> None:
    row = forget(ann, until=State.KEY_DESTROYED)
    refuse, allow = REFUSE[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(refuse)
    try:
        row = erasures.run_erasure(row.id)
        assert (row.waiting_on, row.defect) == ("broken", "IntegrityError")
        check = health.get_readiness().parts["erasures"]
        assert (check.state, check.figures["broken"]) == ("degraded", 1)
        said = erasure_waits.render_wait(ErasureLine.from_row(row))
        assert "IntegrityError" in said
        assert "Ann" not in said
        checks = privacy_checks.list_checks(row.project, now=clock.now())
        assert ["IntegrityError" in each.text for each in checks].count(True) == 1
    finally:
        with connection.cursor() as cursor:
            cursor.execute(allow)
    row = erasures.run_erasure(row.id)
    assert (row.state, row.waiting_on, row.defect) == (State.COMPLETE, "", "")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> set[UUID]:
    """Return ids of erasures whose fence raises an unexpected error."""
    ids: set[UUID] = set()
    intend = ledgers.record_intent

    def intended(row: Erasure) -> Any:
        if row.id in ids:
            raise RuntimeError
        return intend(row)

    monkeypatch.setattr(ledgers, "record_intent", intended)
    return ids


def test_broken_erasure_holds_up_no_other(
    agent: Agent,
    ann: Subject,
    bob: Subject,
    broken: set[UUID],
) -> None:
    rows = [
        confirm(plan(owner, "record", thread=get_thread(agent, name), seq=2))
        for owner, name in ((ann, "ann-1"), (bob, "bob-1"))
    ]
    broken.add(rows[0].id)
    now = [0.0]
    eraser = Eraser(ticks=lambda: now[0])
    assert eraser.run_round() > 0
    for row in rows:
        row.refresh_from_db()
    assert (rows[0].state, rows[0].waiting_on) == (State.PLANNED, "broken")
    assert rows[0].defect == "RuntimeError"
    assert rows[1].state == State.COMPLETE
    # The eraser retries, and goes on once the error is gone.
    broken.clear()
    now[0] += 1
    assert eraser.run_round() > 0
    rows[0].refresh_from_db()
    assert (rows[0].state, rows[0].waiting_on) == (State.COMPLETE, "")


def test_broken_erasure_holds_up_no_start(
    agent: Agent, ann: Subject, bob: Subject, broken: set[UUID]
) -> None:
    """Restrict the subject instead, until the erasure is fenced."""
    rows = [
        confirm(plan(owner, "record", thread=get_thread(agent, name), seq=2))
        for owner, name in ((ann, "ann-1"), (bob, "bob-1"))
    ]
    for row in rows:
        ledgers.record_intent(row)
    broken.add(rows[0].id)
    assert replays.fence_and_count() == 0
    for owner, row, state in (
        (ann, rows[0], State.PLANNED),
        (bob, rows[1], State.TOMBSTONED),
    ):
        row.refresh_from_db()
        owner.refresh_from_db()
        assert row.state == state
        restricted = state == State.PLANNED
        assert (owner.state == Subject.State.RESTRICTED) == restricted


def test_restricted_subject_is_active_again_after_the_fence(
    agent: Agent,
    ann: Subject,
    broken: set[UUID],
) -> None:
    row = confirm(plan(ann, "record", thread=get_thread(agent, "ann-1"), seq=2))
    ledgers.record_intent(row)
    broken.add(row.id)
    replays.fence_and_count()
    broken.clear()
    assert finish(row).state == State.COMPLETE
    append(agent, "ann-1", "She may write again.")


# Two erasers at once


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def _elsewhere(
    pool: ThreadPoolExecutor, work: Callable[[], Erasure]
) -> Future[Erasure]:
    """Run the work on connections of its own, as in another process."""

    def run() -> Erasure:
        try:
            return work()
        finally:
            connections.close_all()

    return pool.submit(run)


@pytest.fixture
def slow_and_dirty(monkeypatch: pytest.MonkeyPatch) -> tuple[Signal, Signal]:
    """Make another thread's scan wait for a signal, and miss a store."""
    begun, ended, here, scan = Signal(), Signal(), get_ident(), scans.scan_surfaces

    def look(*args: Any, **options: Any) -> tuple[ScanResult, dict[UUID, ScanResult]]:
        whole, each = scan(*args, **options)
        if get_ident() == here:
            return whole, each
        begun.set()
        assert ended.wait(timeout=60)
        dirty = partial(replace, unreachable=("redis",), trouble="store")
        return dirty(whole), {name: dirty(verdict) for name, verdict in each.items()}

    monkeypatch.setattr(scans, "scan_surfaces", look)
    return begun, ended


@pytest.mark.usefixtures("bob")
@pytest.mark.parametrize(
    ("scope", "meanwhile"),
    [("subject", State.COMPLETE), ("thread", State.VERIFIED)],
)
def test_slower_scan_does_not_undo_a_faster_one(
    agent: Agent,
    pool: ThreadPoolExecutor,
    slow_and_dirty: tuple[Signal, Signal],
    scope: str,
    meanwhile: str,
) -> None:
    ann = make_person(agent, "ann")
    begun, ended = slow_and_dirty
    given = {"thread": get_thread(agent, "ann-1")} if scope == "thread" else {}
    row = forget(ann, scope, until=State.SCRUBBED, **given)
    slower = _elsewhere(pool, lambda: erasures.advance_erasure(row))
    assert begun.wait(timeout=60)
    while row.state != meanwhile:
        row = erasures.advance_erasure(row)
        assert not row.waiting_on
    ended.set()
    seen = slower.result(timeout=60)
    assert (seen.state, seen.waiting_on) == (meanwhile, "")
    row = finish(row)
    assert (row.state, row.waiting_on) == (State.COMPLETE, "")
    told = orjson.loads(Receipt.objects.get(erasure=row).text)["verification"]
    assert told == orjson.loads(row.verification)
    assert told["unreachable"] == []
    append(agent, "bob-1", "The twin is there.")


def test_failed_scan_is_recorded_and_repeated(
    ann: Subject, pool: ThreadPoolExecutor, slow_and_dirty: tuple[Signal, Signal]
) -> None:
    """Count the failed verdict, since no faster scan came first, as a control."""
    _, ended = slow_and_dirty
    ended.set()
    row = forget(ann, until=State.SCRUBBED)
    row = _elsewhere(pool, lambda: erasures.advance_erasure(row)).result(timeout=60)
    assert (row.state, row.waiting_on) == (State.SCRUBBED, "store")
    assert orjson.loads(row.verification)["unreachable"] == ["redis"]
    assert finish(row).state == State.COMPLETE


def test_stale_count_of_rows_left_takes_no_receipt_back(
    ann: Subject, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Count rows in one process while another completes the erasure."""
    begun, ended, here = Signal(), Signal(), get_ident()
    count: Callable[[Erasure], dict[str, int]] = erasure_targets.count_left

    def count_once_more(row: Erasure) -> dict[str, int]:
        if get_ident() == here:
            return count(row)
        begun.set()
        assert ended.wait(timeout=60)
        return {**count(row), "events": 1}

    row = forget(ann, until=State.SCRUBBED)
    monkeypatch.setattr(erasure_targets, "count_left", count_once_more)
    slower = _elsewhere(pool, lambda: erasures.advance_erasure(row))
    assert begun.wait(timeout=60)
    row = finish(row)
    assert row.state == State.COMPLETE
    ended.set()
    assert slower.result(timeout=60).state == State.COMPLETE
    assert Receipt.objects.filter(erasure=row).count() == 1


@pytest.mark.parametrize("scope", ["subject", "thread", "record"])
def test_two_erasers_at_once_write_one_receipt(
    agent: Agent, ann: Subject, bob: Subject, pool: ThreadPoolExecutor, scope: str
) -> None:
    """Run the erasure in a server and at a terminal at once."""
    given: dict[str, Any] = {"thread": get_thread(agent, "ann-1"), "seq": 2}
    named = {"subject": (), "thread": ("thread",), "record": ("thread", "seq")}
    asked = {name: given[name] for name in named[scope]}
    row, before = confirm(plan(ann, scope, **asked)), count_sealed("bob-1")
    both = [_elsewhere(pool, lambda: finish(row)) for _ in range(2)]
    for each in both:
        each.result(timeout=120)
    row.refresh_from_db()
    assert (row.state, row.waiting_on) == (State.COMPLETE, "")
    assert Receipt.objects.filter(erasure=row).count() == 1
    assert [line.kind for line in ledger.iter_lines()] == ["intent", "done"]
    assert count_sealed("bob-1") == before
