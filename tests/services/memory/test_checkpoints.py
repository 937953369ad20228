from __future__ import annotations

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from memoryhub.errors import (
    CheckpointUnknownError,
    NotFoundError,
    StaleError,
)
from memoryhub.journal import KeyedRequest, OrderReceipt
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
    change = keys.build_setting(key, value, Expiry())
    run(keys.change_keys(agent=agent, thread=thread, changes=(change,)))


def take(
    agent: Agent,
    name: str | None = None,
    *,
    thread: str = "t-1",
    description: bytes | None = None,
) -> OrderReceipt:
    command = TakeCheckpoint(name=name, description=description)
    return run(checkpoints.take_checkpoint(agent=agent, thread=thread, command=command))


def restore(
    agent: Agent,
    target: int | str,
    *parts: str,
    thread: str = "t-1",
    if_match: int | None = None,
    request: KeyedRequest | None = None,
) -> OrderReceipt:
    return run(
        checkpoints.restore_checkpoint(
            agent=agent,
            thread=thread,
            target=target,
            parts=parts or ("keys", "task", "notes"),
            if_match=if_match,
            request=request,
        )
    )


def delete(agent: Agent, target: int | str, thread: str = "t-1") -> OrderReceipt:
    return run(checkpoints.delete_checkpoint(agent=agent, thread=thread, target=target))


def get_value(agent: Agent, thread: str = "t-1") -> object:
    return key_queries.get_key(factories.get_thread(agent, thread), "k").value


def list_seqs(agent: Agent, thread: str = "t-1") -> list[int]:
    row = factories.get_thread(agent, thread)
    return [each.seq for each in reading.list_checkpoints(row, limit=200).items]


def test_checkpoint_is_one_event_with_its_description_sealed(agent: Agent) -> None:
    told = take(agent, "here", description=b'"canary-7Q"')
    assert (told.created, told.get_event(CheckpointTaken).name) == (True, "here")
    assert "canary-7Q" not in Event.objects.get(seq=told.seq).body
    found = reading.get_checkpoint(factories.get_thread(agent), "here")
    assert (found.description, found.seq, found.by) == ("canary-7Q", 2, agent.actor)


def test_restore_is_one_event_after_an_automatic_checkpoint(agent: Agent) -> None:
    put(agent, "then")
    here = take(agent).seq
    put(agent, "now")
    told = restore(agent, here)
    automatic, restored = told.events
    assert isinstance(automatic.event, CheckpointTaken)
    assert isinstance(restored.event, CheckpointRestored)
    assert restored.event.before == automatic.seq
    assert (automatic.at, get_value(agent)) == (restored.at, "then")
    assert Key.objects.get().version == 2
    undone = restore(agent, automatic.seq)
    # The state equals a checkpoint, so none is taken.
    assert [each.event.event_type for each in undone.events] == ["checkpoint.restored"]
    assert get_value(agent) == "now"
    assert restore(agent, automatic.seq).events == ()


def test_stale_head_or_unknown_checkpoint_changes_nothing(agent: Agent) -> None:
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


def test_fork_numbers_inherited_checkpoints_by_its_own_seqs(agent: Agent) -> None:
    put(agent, "old")
    old = take(agent).seq
    put(agent, "new")
    new = take(agent).seq
    acts.fork(agent, "t-1", "f")
    assert list_seqs(agent, "f") == [old - new, 0]
    put(agent, "own", thread="f")
    told = restore(agent, old - new, thread="f")
    assert get_value(agent, "f") == "old"
    event = told.get_event(CheckpointRestored)
    assert reading.to_number(told, event.before) == told.events[0].seq == 3
    assert reading.to_number(told, event.target) == old - new
    assert reading.to_number(told, None) is None
    delete(agent, 0, thread="f")
    assert list_seqs(agent, "f") == [old - new, 3]
    assert list_seqs(agent) == [old, new]


def test_repeated_restore_tells_the_same_checkpoint_number(agent: Agent) -> None:
    """Number the checkpoint by the lineage, since a repeat has no state."""
    put(agent, 1)
    take(agent)
    acts.fork(agent, "t-1", "f")
    put(agent, 2, thread="f")
    asked = KeyedRequest(key="once", fingerprint=b"restore")
    first = restore(agent, 0, thread="f", request=asked)
    again = restore(agent, 0, thread="f", request=asked)
    before = first.get_event(CheckpointRestored).before
    assert (again.state, again.get_event(CheckpointRestored).before) == (None, before)
    assert reading.to_number(first, before) == reading.to_number(again, before) == 3


def test_checkpoint_costs_the_same_statements_at_any_size(agent: Agent) -> None:
    """Run as many statements for a take and a restore with 300 keys as with 3."""
    counts: list[int] = []
    for size in (3, 300):
        for start in range(0, size, 150):
            some = range(start, min(start + 150, size))
            batch = tuple(keys.build_setting(f"k{n}", n, Expiry()) for n in some)
            run(keys.change_keys(agent=agent, thread="t-1", changes=batch))
        here = take(agent).seq
        put(agent, "x", "k1")
        gone = DeleteKey(key="k2")
        run(keys.change_keys(agent=agent, thread="t-1", changes=(gone,)))
        with CaptureQueriesContext(connections["default"]) as asked:
            take(agent)
            restore(agent, here)
        counts.append(len(asked))
    assert counts[0] == counts[1]
