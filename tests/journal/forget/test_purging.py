"""Purging: what an erased thread held goes in batches, and its chain stays whole."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, connection, transaction

from memoryhub.errors import Refusal
from memoryhub.journal.forget import purging
from memoryhub.journal.rows import totals
from memoryhub.models.access.audit import DailyUse
from memoryhub.models.events import Event
from memoryhub.models.privacy import Fate, list_declared_models
from memoryhub.models.server.clock import clock
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.queries.threads.slots import list_slots
from memoryhub.queries.verify.verification import Difference, verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.rebuild import rebuild
from tests.cast.erasings import (
    close_erasure,
    end,
    erase,
    list_rebuilt_rows,
    purge,
    sound,
)
from tests.cast.factories import append, get_thread
from tests.journal.forget.test_erasing import ACTS, make_filled_thread
from tests.oracles.page_acts import find_page_entry
from tests.services.acts import amend, fork, state_of

pytestmark = pytest.mark.django_db


def reload_thread(thread: Thread) -> Thread:
    return Thread.objects.select_related("subject").get(id=thread.id)


def rows_of(thread: Thread) -> dict[str, int]:
    """Return the number of rows in each table that forgetting empties."""
    found = {}
    for model, privacy in list_declared_models().items():
        if privacy.forget == Fate.DELETED and privacy.thread:
            rows = model._default_manager.filter(**{privacy.thread: thread.id})
            found[model._meta.label] = rows.count()
    return found


def make_labelled_thread(agent: Agent, thread: str = "t-1") -> Thread:
    row = make_filled_thread(agent, thread)
    amend(agent, thread, labels={"colour": "blue", "n": 3})
    return get_thread(agent, row.name)


@pytest.mark.parametrize("limit", [3, 1_000])
def test_purge_removes_all_thread_rows_and_keeps_the_chain(
    agent: Agent, limit: int
) -> None:
    thread, twin = make_labelled_thread(agent), make_labelled_thread(agent, "twin")
    held, others = rows_of(thread), (rows_of(twin), list_rebuilt_rows(twin))
    erasure = end(thread)
    assert verify(reload_thread(thread)) is None
    sealed = Event.objects.filter(thread=thread, payload__isnull=False).count()
    gone = purge(thread, limit=limit)
    assert gone["Event.payload"] == sealed
    assert gone["Event.names"] == thread.head_seq
    assert {name: n for name, n in held.items() if n and name in gone} == {
        name: gone[name] for name in held if name in gone
    }
    assert not any(rows_of(thread).values())
    close_erasure(erasure)
    row = reload_thread(thread)
    assert verify(row) is None
    assert row.name.startswith("~")
    assert bytes(row.name_salt) == b""
    assert not purge(row)
    assert (rows_of(twin), list_rebuilt_rows(twin)) == others
    sound(twin)


def test_purge_leaves_no_name(agent: Agent) -> None:
    thread = make_labelled_thread(agent)
    secret = ("colour", "blue", '"c-1"', '"k"', '"agent-1"', '"a"')
    told = [*Event.objects.values_list("body", flat=True)]
    assert all(any(word in body for body in told) for word in secret[:2])
    end(thread)
    purge(thread)
    bodies = [*Event.objects.filter(thread=thread).values_list("body", "page")]
    for body, page in bodies:
        assert page is None or page.startswith("~")
        assert not [word for word in secret if word in body]


def test_names_wait_while_a_fork_folds_through(agent: Agent) -> None:
    thread = make_labelled_thread(agent)
    child = fork(agent, "t-1", "child")
    grandchild = fork(agent, "child", "grandchild")
    append(agent, "grandchild", "own words")
    erasure = end(thread)
    assert purging.list_live_descendants([thread.id]) == {child.id, grandchild.id}
    gone = purge(thread)
    close_erasure(erasure)
    assert "Event.names" not in gone
    row = reload_thread(thread)
    assert row.name == "t-1"
    assert verify(row) is None
    sound(child, grandchild)
    assert [slot.erased for slot in Slot.objects.filter(thread=thread)] == [True] * 3
    texts = [(s.erased, s.content) for s in list_slots(reload_thread(grandchild)).items]
    assert texts == [(True, None)] * 3 + [(False, "own words")]
    assert not state_of(child).paging.frames
    assert find_page_entry(child, "a") is None

    for each in (child, grandchild):
        close_erasure(end(get_thread(agent, each.name)))
        purge(each)
    assert purging.list_live_descendants([thread.id]) == set()
    for each in (thread, child, grandchild):
        assert reload_thread(each).name.startswith("~")
        assert not any(rows_of(each).values())
        assert verify(reload_thread(each)) is None


def test_purge_goes_on_where_it_was_stopped(agent: Agent) -> None:
    thread = make_labelled_thread(agent)
    end(thread)
    by, steps = reload_thread(thread).head_seq, 0
    dice, gone = random.Random(3), Counter[str]()
    while True:
        try:
            with transaction.atomic():
                done = next(purging.iter_thread_batches(thread.id, by=by, limit=4), {})
                if dice.random() < 0.4:
                    raise InterruptedError
        except InterruptedError:
            assert verify(reload_thread(thread)) is None
            continue
        if not done:
            break
        gone.update(done)
        steps += 1
        assert verify(reload_thread(thread)) is None
    assert steps > 10
    assert gone["Event.names"] == by - 1


def test_payload_written_beside_the_fence_is_purged(agent: Agent) -> None:
    thread = make_labelled_thread(agent)
    end(thread)
    by = reload_thread(thread).head_seq
    first = next(purging.iter_thread_batches(thread.id, by=by, limit=4))
    assert first == {"Event.payload": 4}
    taken = Event.objects.filter(thread=thread, erased_by=by).order_by("seq")
    seq = taken.values_list("seq", flat=True)[0]
    with connection.cursor() as cursor:
        # The trigger lets nobody put a payload back but one who takes it off.
        _without_triggers(cursor, thread, seq)
    assert purge(thread)["Event.payload"] > 0
    assert not Event.objects.filter(thread=thread, payload__isnull=False).exists()


def _without_triggers(cursor: Any, thread: Thread, seq: int) -> None:
    value = thread.id if connection.vendor == "postgresql" else thread.id.hex
    change = "UPDATE memoryhub_event SET payload = %s WHERE thread_id = %s AND seq = %s"
    if connection.vendor == "postgresql":
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE memoryhub_event DISABLE TRIGGER USER")
        cursor.execute(change, [b"x", value, seq])
        cursor.execute("ALTER TABLE memoryhub_event ENABLE TRIGGER USER")
        return
    cursor.execute(
        "SELECT sql FROM sqlite_master WHERE name = 'memoryhub_event_update'"
    )
    (trigger,) = cursor.fetchone()
    cursor.execute("DROP TRIGGER memoryhub_event_update")
    cursor.execute(change, [b"x", value, seq])
    cursor.execute(trigger)


def test_database_admits_no_blanking_that_is_not_an_erasure(agent: Agent) -> None:
    thread = make_labelled_thread(agent)
    rows = Event.objects.filter(thread=thread, seq=1)
    for changes in ({"body": "{}"}, {"erased_by": 5, "type": "x"}, {"page": "p"}):
        with pytest.raises(DatabaseError), transaction.atomic():
            rows.update(**changes)
    # One that never had a payload says who blanked it, as any other does.
    with transaction.atomic():
        assert rows.update(body="{}", erased_by=5) == 1
        transaction.set_rollback(True)


def test_rebuilding_leaves_an_erased_thread_alone(agent: Agent) -> None:
    thread = make_labelled_thread(agent)
    end(thread)
    purge(thread)
    before = list_rebuilt_rows(thread)
    rebuild(reload_thread(thread))
    assert list_rebuilt_rows(thread) == before


def test_subject_rows_are_purged_with_her(agent: Agent) -> None:
    thread = make_labelled_thread(agent)
    DailyUse.objects.update_or_create(
        subject_id=thread.subject_id, key_id=agent.key, day=clock.now().date()
    )
    with transaction.atomic():
        kept = len(totals.get(thread.subject_id))
        gone = [*purging.iter_subject_batches(thread.subject_id)]
        assert gone == [{"memoryhub.DailyUse": 1}, {"memoryhub.Total": kept}]
        for nobody in (thread.subject_id, UUID(int=9)):
            assert [*purging.iter_subject_batches(nobody)] == []
    # She was not erased.
    totals.recount(thread.subject_id)


@pytest.mark.parametrize(
    ("table", "changes", "what"),
    [
        (Event, {"chain": b"x" * 32}, "chain"),
        (Event, {"erased_by": 3}, "payload"),
    ],
)
@pytest.mark.no_replay
def test_verifying_an_erased_thread_names_what_is_wrong(
    agent: Agent, table: Any, changes: dict[str, Any], what: str
) -> None:
    thread = make_labelled_thread(agent)
    close_erasure(end(thread))
    purge(thread)
    trigger = "memoryhub_event_update"
    with connection.cursor() as cursor:
        on = " ON memoryhub_event" if connection.vendor == "postgresql" else ""
        if on:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(f"DROP TRIGGER {trigger}{on}")
    table.objects.filter(thread=thread, seq=1).update(**changes)
    assert verify(reload_thread(thread)) == Difference(seq=1, what=what)


@pytest.mark.no_replay
def test_verifying_names_what_should_be_gone(agent: Agent) -> None:
    thread = make_labelled_thread(agent)
    erasure = end(thread)
    close_erasure(erasure)
    head = reload_thread(thread).head_seq
    assert verify(reload_thread(thread)) == Difference(seq=head, what="payload_kept")
    batches = purging.iter_thread_batches(thread.id, by=head)
    while "Event.payload" in next(batches):
        pass
    assert verify(reload_thread(thread)) == Difference(seq=head, what="rows_kept")
    while "Event.names" not in next(batches):
        pass
    assert verify(reload_thread(thread)) == Difference(seq=head, what="names_kept")
    purge(thread)
    assert verify(reload_thread(thread)) is None


@pytest.mark.parametrize("seed", range(3))
def test_families_are_erased_in_any_order(agent: Agent, seed: int) -> None:
    dice, known = random.Random(seed), ["t-1"]
    append(agent, "t-1", "hello")
    for step in range(90):
        name = dice.choice(known)
        try:
            if step % 20 == 19:
                row = get_thread(agent, name)
                fork(agent, name, f"f-{step}", seq=dice.randrange(1, row.head_seq + 1))
                known.append(f"f-{step}")
            elif step % 25 == 24:
                row = get_thread(agent, name)
                erase(row, (dice.randrange(1, row.head_seq + 1), row.head_seq))
            else:
                dice.choice(ACTS)(agent, name, dice)
        except (Refusal, IndexError):
            continue
    rows = [get_thread(agent, name) for name in known]
    dice.shuffle(rows)
    while rows:
        gone = rows.pop()
        erasure = end(reload_thread(gone))
        purge(gone, limit=50)
        close_erasure(erasure)
        assert verify(reload_thread(gone)) is None
        sound(*rows)
        # One that was erased may fold through no more, and so may they.
        for each in Thread.objects.select_related("subject").filter(status="erased"):
            assert verify(each) is None
    assert not any(
        n for thread in Thread.objects.all() for n in rows_of(thread).values()
    )
    assert Event.objects.filter(type="thread.erased").count() == len(known)
