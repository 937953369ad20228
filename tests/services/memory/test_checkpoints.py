from __future__ import annotations

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from memoryhub.errors import (
    CheckpointUnknownError,
    NotFoundError,
    StaleError,
)
from memoryhub.journal import Receipt, Request
from memoryhub.kernel.memory.checkpoint_events import (
    CheckpointRestored,
    CheckpointTaken,
)
from memoryhub.kernel.memory.checkpoints import TakeCheckpoint
from memoryhub.kernel.memory.keys import DeleteKey, Expiry
from memoryhub.models import Event, Key
from memoryhub.queries.memory import checkpoints as reading
from memoryhub.queries.memory import keys as key_queries
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import checkpoints, keys
from tests.cast import factories
from tests.cast.factories import run
from tests.services import acts

pytestmark = pytest.mark.django_db


def put(agent: Agent, value: object, key: str = "k", thread: str = "t-1") -> None:
    change = keys.setting(key, value, Expiry())
    run(keys.change(agent=agent, thread=thread, changes=(change,)))


def take(
    agent: Agent, name: str | None = None, *, thread: str = "t-1", **said: bytes
) -> Receipt:
    command = TakeCheckpoint(name=name, **said)
    return run(checkpoints.take(agent=agent, thread=thread, command=command))


def restore(
    agent: Agent,
    target: int | str,
    *parts: str,
    thread: str = "t-1",
    if_match: int | None = None,
    request: Request | None = None,
) -> Receipt:
    return run(
        checkpoints.restore(
            agent=agent,
            thread=thread,
            target=target,
            parts=parts or ("keys", "task", "notes"),
            if_match=if_match,
            request=request,
        )
    )


def delete(agent: Agent, target: int | str, thread: str = "t-1") -> Receipt:
    return run(checkpoints.delete(agent=agent, thread=thread, target=target))


def value(agent: Agent, thread: str = "t-1") -> object:
    return key_queries.get_key(factories.get_thread(agent, thread), "k").value


def listed(agent: Agent, thread: str = "t-1") -> list[int]:
    row = factories.get_thread(agent, thread)
    return [each.seq for each in reading.list_checkpoints(row, limit=200).items]


def test_a_checkpoint_is_one_event_with_its_description_sealed(agent: Agent) -> None:
    told = take(agent, "here", description=b'"canary-7Q"')
    assert (told.created, told.one(CheckpointTaken).name) == (True, "here")
    assert "canary-7Q" not in Event.objects.get(seq=told.seq).body
    found = reading.get_checkpoint(factories.get_thread(agent), "here")
    assert (found.description, found.seq, found.by) == ("canary-7Q", 2, agent.actor)


def test_a_restore_is_one_event_after_an_automatic_checkpoint(agent: Agent) -> None:
    put(agent, "then")
    here = take(agent).seq
    put(agent, "now")
    told = restore(agent, here)
    automatic, restored = told.events
    assert isinstance(automatic.event, CheckpointTaken)
    assert isinstance(restored.event, CheckpointRestored)
    assert restored.event.before == automatic.seq
    assert (automatic.at, value(agent)) == (restored.at, "then")
    assert Key.objects.get().version == 2
    undone = restore(agent, automatic.seq)
    # What is now equals a checkpoint, so none is taken.
    assert [each.event.event_type for each in undone.events] == ["checkpoint.restored"]
    assert value(agent) == "now"
    assert restore(agent, automatic.seq).events == ()


def test_a_stale_head_and_an_unknown_point_change_nothing(agent: Agent) -> None:
    put(agent, 1)
    here = take(agent, "here").seq
    put(agent, 2)
    before = factories.get_thread(agent).head_seq
    with pytest.raises(StaleError):
        restore(agent, here, if_match=before - 1)
    for target in (here + 1, 0, -4, 99, "other"):
        with pytest.raises(CheckpointUnknownError):
            restore(agent, target)
        assert delete(agent, target).events == ()
    with pytest.raises(NotFoundError):
        restore(agent, here, thread="none")
    with pytest.raises(NotFoundError):
        delete(agent, here, thread="none")
    assert factories.get_thread(agent).head_seq == before
    restore(agent, here, if_match=before)


def test_a_fork_names_what_it_inherits_by_its_own_numbers(agent: Agent) -> None:
    put(agent, "old")
    old = take(agent).seq
    put(agent, "new")
    new = take(agent).seq
    acts.fork(agent, "t-1", "f")
    assert listed(agent, "f") == [old - new, 0]
    put(agent, "own", thread="f")
    told = restore(agent, old - new, thread="f")
    assert value(agent, "f") == "old"
    event = told.one(CheckpointRestored)
    assert reading.number_of(told, event.before) == told.events[0].seq == 3
    assert reading.number_of(told, event.target) == old - new
    assert reading.number_of(told, None) is None
    delete(agent, 0, thread="f")
    assert listed(agent, "f") == [old - new, 3]
    assert listed(agent) == [old, new]


def test_a_number_is_the_same_when_it_is_told_again(agent: Agent) -> None:
    """The state is not there then; the lineage is."""
    put(agent, 1)
    take(agent)
    acts.fork(agent, "t-1", "f")
    put(agent, 2, thread="f")
    asked = Request(key="once", fingerprint=b"restore")
    first = restore(agent, 0, thread="f", request=asked)
    again = restore(agent, 0, thread="f", request=asked)
    before = first.one(CheckpointRestored).before
    assert (again.state, again.one(CheckpointRestored).before) == (None, before)
    assert reading.number_of(first, before) == reading.number_of(again, before) == 3


def test_checkpoint_cost_follows_change(agent: Agent) -> None:
    """Statements of a take and of a restore: as many with 300 keys as with 3."""
    counts: list[int] = []
    for size in (3, 300):
        for start in range(0, size, 150):
            some = range(start, min(start + 150, size))
            batch = tuple(keys.setting(f"k{n}", n, Expiry()) for n in some)
            run(keys.change(agent=agent, thread="t-1", changes=batch))
        here = take(agent).seq
        put(agent, "x", "k1")
        gone = DeleteKey(key="k2")
        run(keys.change(agent=agent, thread="t-1", changes=(gone,)))
        with CaptureQueriesContext(connections["default"]) as asked:
            take(agent)
            restore(agent, here)
        counts.append(len(asked))
    assert counts[0] == counts[1]
