"""Verification of working memory: tampering shows, and `rebuild` mends it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from django.db import connection
from django.db.models import Model

from memoryhub.kernel.commands import CloseThread, RetireThread
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.server.ids import uuid7
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import Checkpoint, DueValue, Key
from memoryhub.queries.verify.verification import Difference, verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.rebuild import rebuild
from memoryhub.workers import expiry
from tests.cast.factories import get_thread
from tests.oracles.memory_acts import (
    DAY,
    MINUTE,
    NOON,
    clear,
    delete_key,
    dues,
    key_rows,
    restore,
    retime,
    set_key,
    take,
    travel_to,
)
from tests.oracles.page_acts import act
from tests.services.acts import fork

pytestmark = pytest.mark.django_db

#: Another value of each column's kind.
OTHER: dict[str, Any] = {
    "key": "other",
    "version": 77,
    "value_seq": 77,
    "bytes": 77,
    "json_type": "number",
    "expires_at": NOON + 77 * DAY,
    "seq": 77,
    "due_at": NOON + 77 * DAY,
    "name": "other",
    "at": NOON + 77 * DAY,
    "by": "worker:other",
    "auto": True,
    "parent": 77,
    "counts": "{}",
    "touched": 77,
    "event_thread": uuid7(),
    "event_seq": 77,
}


def list_columns(model: type[Model]) -> list[str]:
    fields = model._meta.concrete_fields
    return [each.attname for each in fields if each.attname != "thread_id"]


@pytest.fixture
def thread(agent: Agent, zeta: Project) -> Thread:
    """A fork with keys of its own and inherited ones, and values of both kinds."""
    with travel_to(NOON):
        set_key(agent, "old", ttl=DAY)
        set_key(agent, "ever")
        take(agent, "before")
        fork(agent, "t-1", "child")
        set_key(agent, "own", ttl=MINUTE, thread="child")
        set_key(agent, "kept", thread="child")
        set_key(agent, "gone", ttl=2 * DAY, thread="child")
        delete_key(agent, "gone", "child")
    return get_thread(agent, "child")


def look(agent: Agent) -> Difference | None:
    return verify(get_thread(agent, "child"))


def mend(agent: Agent) -> None:
    rebuild(get_thread(agent, "child"))
    assert look(agent) is None


@pytest.mark.parametrize("key", ["old", "ever", "own", "kept"])
@pytest.mark.parametrize("column", list_columns(Key))
def test_each_column_of_a_key_is_compared(
    agent: Agent, zeta: Project, thread: Thread, column: str, key: str
) -> None:
    ids = {"value_thread": uuid7(), "project_id": zeta.id}
    value = ids[column] if column in ids else OTHER[column]
    rows = Key.objects.filter(thread=thread, key=key)
    assert rows.exclude(**{column: value}).exists()
    assert rows.update(**{column: value}) == 1
    assert look(agent) == Difference(seq=thread.head_seq, what="key_rows")
    mend(agent)


@pytest.mark.parametrize("name", ["before", "own"])
@pytest.mark.parametrize("column", list_columns(Checkpoint))
def test_each_column_of_a_checkpoint_is_compared(
    agent: Agent, thread: Thread, column: str, name: str
) -> None:
    with travel_to(NOON):
        take(agent, "own", "child")
    rows = Checkpoint.objects.filter(thread=thread, name=name)
    assert rows.update(**{column: OTHER[column]}) == 1
    head = get_thread(agent, "child").head_seq
    assert look(agent) == Difference(seq=head, what="checkpoint_rows")
    mend(agent)


@pytest.mark.parametrize("seq", [2, 4])
@pytest.mark.parametrize("column", list_columns(DueValue))
def test_each_column_of_a_due_value_is_compared(
    agent: Agent, zeta: Project, thread: Thread, column: str, seq: int
) -> None:
    value = zeta.id if column == "project_id" else OTHER[column]
    rows = DueValue.objects.filter(thread=thread, seq=seq)
    assert rows.update(**{column: value}) == 1
    assert look(agent) == Difference(seq=thread.head_seq, what="due_values")
    mend(agent)


def test_verification_finds_a_lost_or_added_expiry(
    agent: Agent, thread: Thread
) -> None:
    for key, until in (("own", None), ("kept", NOON)):
        Key.objects.filter(thread=thread, key=key).update(expires_at=until)
        assert look(agent) == Difference(seq=thread.head_seq, what="key_rows")
        mend(agent)


def test_verification_finds_missing_and_planted_rows(
    agent: Agent, thread: Thread
) -> None:
    key = Key.objects.get(thread=thread, key="old")
    due = DueValue.objects.get(thread=thread, seq=2)
    kept = Checkpoint.objects.get(thread=thread, name="before")
    for row, what in (
        (key, "key_rows"),
        (kept, "checkpoint_rows"),
        (due, "due_values"),
    ):
        type(row)._default_manager.filter(pk=row.pk).delete()
        assert look(agent) == Difference(seq=thread.head_seq, what=what)
        mend(agent)
    key.key = "planted"
    key.save(force_insert=True)
    assert look(agent) == Difference(seq=thread.head_seq, what="key_rows")
    mend(agent)
    due.seq = 3
    due.save(force_insert=True)
    assert look(agent) == Difference(seq=thread.head_seq, what="due_values")
    mend(agent)


def test_verification_ignores_rows_written_after_its_head(
    agent: Agent, thread: Thread
) -> None:
    """Rows of keys have no history; writers may go on during the verification."""
    seen = get_thread(agent, "child")
    with travel_to(NOON):
        set_key(agent, "more", ttl=DAY, thread="child")
        clear(agent, "child")
    assert verify(seen) is None
    assert look(agent) is None


def everything(thread: Thread) -> tuple[list[dict[str, Any]], dict[int, datetime]]:
    return key_rows(thread), dues(thread)


def test_rebuild_makes_the_same_memory_rows(agent: Agent, thread: Thread) -> None:
    with travel_to(NOON):
        retime(agent, "own", DAY, "child")
        restore(agent, "before", thread="child")
        set_key(agent, "last", ttl=MINUTE, thread="child")
        act(agent, CloseThread(), "child")
    with travel_to(NOON + 9 * DAY):
        expiry.expire(NOON + 9 * DAY)
        expiry.erase(NOON + 9 * DAY)
    for name in ("t-1", "child"):
        row = get_thread(agent, name)
        before = everything(row)
        rebuild(row)
        assert everything(row) == before
        assert verify(get_thread(agent, name)) is None


def test_rebuild_of_what_was_retired_makes_no_rows(
    agent: Agent, thread: Thread
) -> None:
    act(agent, RetireThread(policy_days=1, idle_days=1), "child")
    assert everything(thread) == ([], {})
    rebuild(get_thread(agent, "child"))
    assert everything(thread) == ([], {})
    assert look(agent) is None


def test_rebuild_of_many_events_goes_in_steps(agent: Agent) -> None:
    """A later step deletes rows that an earlier step has written."""
    with travel_to(NOON):
        for n in range(4):
            set_key(agent, f"k{n}", ttl=DAY)
        for n in range(1_010):
            set_key(agent, "busy", ttl=MINUTE if n % 2 else 2 * DAY)
        retime(agent, "k0", 3 * DAY)
        delete_key(agent, "k1")
    with travel_to(NOON + 9 * DAY):
        expiry.erase(NOON + 9 * DAY)
        set_key(agent, "k2", ttl=DAY)
    thread = get_thread(agent)
    before = everything(thread)
    assert len(before[1]) == 1
    rebuild(thread)
    assert everything(thread) == before


# Values that were taken out of the journal


@pytest.fixture
def swept(agent: Agent, thread: Thread) -> Event:
    """Erase the value of `own` and return the event that did it."""
    now = NOON + DAY + 2 * MINUTE
    with travel_to(now):
        assert expiry.erase(now) == 1
    assert look(agent) is None
    return Event.objects.get(thread=thread, type="values.erased")


def drop_guard() -> None:
    on = " ON memoryhub_event" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER memoryhub_event_update{on}")


@pytest.mark.no_replay
def test_values_may_be_absent_only_when_an_erasure_names_them(
    agent: Agent, thread: Thread, swept: Event
) -> None:
    drop_guard()
    for seq in (3, 4):
        events = Event.objects.filter(thread=thread, seq=seq)
        before = events.get().payload
        events.update(payload=None, erased_by=swept.seq)
        assert look(agent) == Difference(seq=seq, what="payload_missing")
        events.update(payload=before, erased_by=None)
        assert look(agent) is None


@pytest.mark.no_replay
def test_verification_finds_a_value_that_outlived_its_erasure(
    agent: Agent, thread: Thread
) -> None:
    own = Event.objects.get(thread=thread, seq=2)
    kept = {"payload": own.payload, "payload_digest": own.payload_digest}
    now = NOON + DAY + 2 * MINUTE
    with travel_to(now):
        expiry.erase(now)
    drop_guard()
    Event.objects.filter(thread=thread, seq=2).update(**kept, erased_by=None)
    found = look(agent)
    assert found is not None
    assert found.what == "payload"
    # A repeat of the erasure is harmless, and puts it right.
    mend(agent)
