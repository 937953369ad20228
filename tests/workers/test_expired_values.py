"""Removal of expired values after their grace: from reads, checkpoints and disk."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from string import ascii_letters

import pytest
from django.db import connections

from memoryhub.errors import ContentErasedError, KeyNotFoundError
from memoryhub.journal.forget import wal
from memoryhub.models.events import Event
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import keys
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access import projects
from memoryhub.services.access.api_keys import Agent
from memoryhub.workers import expiry
from tests.cast.factories import get_thread
from tests.cast.readers import files_with
from tests.oracles.memory_acts import (
    DAY,
    MINUTE,
    NOON,
    fork_of,
    lasting,
    new_key,
    restore,
    set_key,
    set_keys,
    take,
    travel_to,
)
from tests.services.acts import state_of

#: Nothing that could be packed into less.
CANARY = "".join(Random(7).choices(ascii_letters, k=2_000))


def make_expiring_values(agent: Agent) -> Thread:
    """Make at noon a value that expires, its twin that does not, and a checkpoint."""
    with travel_to(NOON):
        set_keys(
            agent,
            new_key("brief", CANARY, lasting(MINUTE)),
            new_key("ever", CANARY),
        )
        take(agent, "here")
    return get_thread(agent)


def sweep_and_erase(grace: int = 86_400) -> int:
    """Sweep and erase after the grace; return the number of erased values."""
    moment = NOON + MINUTE + DAY * grace / 86_400
    with travel_to(moment):
        expiry.expire(moment)
        return expiry.erase(moment)


@pytest.mark.django_db
def test_expired_value_is_gone(agent: Agent) -> None:
    thread = make_expiring_values(agent)
    seq = thread.head_seq
    for moment in (NOON, NOON + DAY):
        with travel_to(moment):
            # As of then it counts, as long as its value is there.
            assert keys.get_key(get_thread(agent), "brief", seq=seq).value == CANARY
    assert sweep_and_erase() == 1
    row = Event.objects.get(thread=thread, seq=2)
    assert row.payload is None
    thread = get_thread(agent)
    held = state_of(thread).memory.checkpoints[seq].contents.keys
    assert {*held} == {"brief", "ever"}
    with travel_to(NOON + 2 * DAY):
        with pytest.raises(ContentErasedError):
            keys.get_key(thread, "brief", seq=seq)
        with pytest.raises(KeyNotFoundError):
            keys.get_key(thread, "brief")
        for when in (None, seq):
            assert keys.get_key(thread, "ever", seq=when).value == CANARY
        # The checkpoint still stands, and brings back what can be.
        set_key(agent, "ever", "other")
        restore(agent, "here")
        assert keys.get_key(get_thread(agent), "ever").value == CANARY
        listed = keys.list_keys(get_thread(agent), values=True).items
    assert [line.name for line in listed] == ["ever"]
    assert verify(get_thread(agent)) is None


@pytest.mark.django_db
def test_past_key_list_marks_an_erased_value(agent: Agent) -> None:
    seq = make_expiring_values(agent).head_seq
    sweep_and_erase()
    with travel_to(NOON + 2 * DAY):
        lines = keys.list_keys(get_thread(agent), seq=seq, values=True).items
    assert [(line.name, line.erased, line.value) for line in lines] == [
        ("brief", True, None),
        ("ever", False, CANARY),
    ]


@pytest.mark.django_db
def test_fork_of_the_past_finds_no_erased_value(agent: Agent) -> None:
    seq = make_expiring_values(agent).head_seq
    sweep_and_erase()
    with travel_to(NOON + 2 * DAY):
        child = fork_of(agent, "t-1", "child", seq=seq)
        with pytest.raises(KeyNotFoundError):
            keys.get_key(child, "brief")
        assert keys.get_key(child, "ever").value == CANARY
        assert verify(child) is None


# On disk


@pytest.fixture
def sqlite(transactional_db: None) -> Iterator[None]:
    """Mark tests of the pass on SQLite only; see conftest."""
    assert connections["default"].vendor == "sqlite"
    yield
    connections.close_all()


def get_sealed_end(thread: Thread, seq: int) -> bytes:
    payload = Event.objects.get(thread=thread, seq=seq).payload
    assert payload is not None
    needle = bytes(payload)[-64:]
    assert len(needle) == 64
    return needle


@pytest.mark.usefixtures("sqlite")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("grace", [0, 60])
def test_expired_value_is_in_no_file(agent: Agent, acme: Project, grace: int) -> None:
    projects.set_lifetimes(acme, default_ttl_seconds=None, grace_seconds=grace)
    thread = make_expiring_values(agent)
    brief, ever = get_sealed_end(thread, 2), get_sealed_end(thread, 3)
    assert files_with(brief)
    assert sweep_and_erase(grace) == 1
    assert files_with(brief) == []
    assert files_with(ever) != []
    assert verify(get_thread(agent)) is None


@pytest.mark.usefixtures("sqlite")
@pytest.mark.django_db(transaction=True)
def test_long_reader_defers_wal_truncation(agent: Agent) -> None:
    thread = make_expiring_values(agent)
    brief = get_sealed_end(thread, 2)
    other = connections.create_connection("default")
    try:
        other.connect()
        other.connection.execute("BEGIN DEFERRED")
        other.connection.execute("SELECT COUNT(*) FROM memoryhub_event").fetchone()
        assert sweep_and_erase() == 1
        assert files_with(brief) != []
        other.connection.execute("ROLLBACK")
    finally:
        other.close()
    assert wal.truncate()
    assert files_with(brief) == []
    with connections["default"].cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        assert cursor.fetchone() == (20_000,)


@pytest.mark.django_db
def test_wal_is_not_truncated_inside_a_transaction() -> None:
    assert wal.truncate() is False


@pytest.mark.django_db
def test_expiry_sweep_has_its_indexes() -> None:
    """The sweep finds due records by an index and never scans a table."""
    introspection = connections["default"].introspection
    with connections["default"].cursor() as cursor:
        found = {
            name: each["columns"]
            for table in ("memoryhub_key", "memoryhub_duevalue")
            for name, each in introspection.get_constraints(cursor, table).items()
        }
    assert found["key_project_expiry"] == ["project_id", "expires_at"]
    assert found["key_bytes"] == ["project_id", "bytes"]
    assert found["key_expiry"] == ["expires_at", "thread_id", "key"]
    assert found["due_value_at"] == ["project_id", "due_at", "thread_id", "seq"]
