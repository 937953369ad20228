"""Rows of working memory: what each event leads to, in forks and in one batch too."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from memoryhub.errors import Refusal
from memoryhub.journal import OrderReceipt
from memoryhub.journal.writing.writer import writer
from memoryhub.kernel.commands import AmendThread, Command
from memoryhub.kernel.memory.checkpoints import RestoreCheckpoint, TakeCheckpoint
from memoryhub.kernel.memory.key_events import ValuesErased
from memoryhub.kernel.memory.keys import (
    ChangeKeys,
    ClearKeys,
    DeleteKey,
    EraseValues,
    RetimeKey,
    SetKey,
)
from memoryhub.kernel.memory.notes import ClearNotes
from memoryhub.kernel.memory.nouns import RESTORED
from memoryhub.kernel.memory.tasks import ClearTask, UpdateTask
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.workers import expiry
from tests.cast.factories import get_thread
from tests.oracles.memory_acts import (
    DAY,
    MINUTE,
    NEVER,
    NOON,
    SECOND,
    UNSAID,
    add_notes,
    clear,
    delete_key,
    dues,
    forget_checkpoint,
    key_rows,
    kinds,
    lasting,
    list_held_seqs,
    list_names,
    new_key,
    restore,
    retime,
    set_key,
    set_keys,
    set_task,
    take,
    travel_to,
)
from tests.oracles.page_acts import act, order
from tests.services.acts import fork, state_of

pytestmark = pytest.mark.django_db


def sweep(moment: datetime) -> tuple[int, int]:
    with travel_to(moment):
        return expiry.expire(moment), expiry.erase(moment)


def is_whole(agent: Agent, thread: str = "t-1") -> bool:
    return verify(get_thread(agent, thread)) is None


def versions(thread: Thread) -> dict[str, int]:
    return {row["key"]: row["version"] for row in key_rows(thread)}


# A row for each key


def test_key_row_names_the_place_of_its_value(agent: Agent) -> None:
    with travel_to(NOON):
        set_keys(agent, new_key("a", "long", lasting(MINUTE)), new_key("b"))
        retime(agent, "a", DAY)
    thread = get_thread(agent)
    row = {"thread_id": thread.id, "value_thread": thread.id}
    row["project_id"] = agent.project
    assert key_rows(thread) == [
        {**row, "key": "a", "version": 4, "value_seq": 2, "bytes": 64}
        | {"expires_at": NOON + DAY},
        {**row, "key": "b", "version": 3, "value_seq": 3, "bytes": 64}
        | {"expires_at": None},
    ]


def test_memory_rows_follow_every_event(agent: Agent) -> None:
    """The table equals the fold after every command."""
    with travel_to(NOON):
        set_key(agent, "a", ttl=MINUTE)
        thread = get_thread(agent)
        steps: tuple[Callable[[], OrderReceipt], ...] = (
            lambda: set_key(agent, "b"),
            lambda: add_notes(agent, "one", "two"),
            lambda: set_task(agent, fields={"description": b'"d"'}),
            lambda: act(agent, UpdateTask(fields={"current_step": b"2"})),
            lambda: take(agent, "here"),
            lambda: retime(agent, "b", 2 * MINUTE),
            lambda: delete_key(agent, "a"),
            lambda: restore(agent, "here"),
            lambda: clear(agent),
            lambda: act(agent, ClearNotes()),
            lambda: act(agent, ClearTask()),
            lambda: restore(agent, "here"),
            lambda: forget_checkpoint(agent, "here"),
        )
        for step in steps:
            assert step().events
            assert is_whole(agent)
    assert list_names(thread) == ["a", "b"]
    for moment in (NOON + MINUTE, NOON + 2 * DAY):
        assert sum(sweep(moment)) > 0
        assert is_whole(agent)
    assert list_names(thread) == ["b"]


def test_full_thread_sweeps_before_it_sets(agent: Agent) -> None:
    with travel_to(NOON):
        set_key(agent, "a", ttl=SECOND)
        act(agent, _limited(max_keys=1))
    with travel_to(NOON + MINUTE):
        assert kinds(set_key(agent, "b")) == ["keys.expired", "key.set"]
    assert list_names(get_thread(agent)) == ["b"]


def _limited(**limits: Any) -> Command:
    return AmendThread(config=limits)


# When values are due


def test_due_value_row_has_the_latest_expiry_ever_given(agent: Agent) -> None:
    with travel_to(NOON):
        set_key(agent, "a", ttl=MINUTE)
        retime(agent, "a", SECOND)
        assert dues(get_thread(agent)) == {2: NOON + MINUTE}
        retime(agent, "a", DAY)
        assert dues(get_thread(agent)) == {2: NOON + DAY}
        retime(agent, "a", MINUTE)
        assert dues(get_thread(agent)) == {2: NOON + DAY}


def test_erasure_is_judged_again_when_it_is_decided(agent: Agent) -> None:
    """The command erases only values that are due at its own instant."""
    with travel_to(NOON):
        set_key(agent, "a", ttl=MINUTE)
        set_key(agent, "b")
        set_task(agent, fields={"description": b'"d"'})
    erase = EraseValues(seqs=(1, 2, 3, 4, 99), grace=DAY)
    with travel_to(NOON + MINUTE + DAY - SECOND):
        assert act(agent, erase).events == ()
    with travel_to(NOON + MINUTE + DAY):
        assert act(agent, erase).get_event(ValuesErased).seqs == [2]


def test_value_that_was_ever_permanent_is_never_due(agent: Agent) -> None:
    with travel_to(NOON):
        set_key(agent, "from the start")
        retime(agent, "from the start", MINUTE)
        set_key(agent, "later", ttl=MINUTE)
        retime(agent, "later", NEVER)
        retime(agent, "later", DAY)
    assert dues(get_thread(agent)) == {}
    assert sweep(NOON + 9 * DAY) == (2, 0)


@pytest.mark.parametrize("gone", ["overwritten", "deleted", "cleared", "replaced"])
def test_value_that_left_its_key_is_due_as_before(agent: Agent, gone: str) -> None:
    with travel_to(NOON):
        take(agent, "empty")
        set_key(agent, "a", ttl=MINUTE)
        thread = get_thread(agent)
        (seq,) = dues(thread)
        steps: dict[str, Callable[[], OrderReceipt]] = {
            "overwritten": lambda: set_key(agent, "a"),
            "deleted": lambda: delete_key(agent, "a"),
            "cleared": lambda: clear(agent),
            "replaced": lambda: restore(agent, "empty"),
        }
        steps[gone]()
    assert dues(thread) == {seq: NOON + MINUTE}
    assert sweep(NOON + DAY + MINUTE)[1] == 1
    assert seq not in list_held_seqs(thread)


def test_restored_key_has_its_old_deadline_and_its_value_its_own(
    agent: Agent,
) -> None:
    with travel_to(NOON):
        set_key(agent, "a", ttl=60 * MINUTE)
        take(agent, "here")
        retime(agent, "a", 2 * DAY)
    with travel_to(NOON + MINUTE):
        restore(agent, "here")
    thread = get_thread(agent)
    (row,) = key_rows(thread)
    assert (row["version"], row["expires_at"]) == (2, NOON + 60 * MINUTE)
    assert dues(thread) == {2: NOON + 2 * DAY}


def test_key_that_expired_meanwhile_is_not_restored(agent: Agent) -> None:
    with travel_to(NOON):
        set_keys(
            agent,
            new_key("short", expiry=lasting(MINUTE)),
            new_key("long", expiry=lasting(DAY)),
            new_key("ever"),
        )
        take(agent, "here")
        clear(agent)
    assert sweep(NOON + DAY + MINUTE) == (0, 1)
    with travel_to(NOON + DAY - SECOND):
        # Time does not go back in a thread: the sweep has moved its newest event.
        restore(agent, "here")
    assert list_names(get_thread(agent)) == ["ever"]


# Forks


def test_fork_has_a_row_for_every_key_it_inherits(agent: Agent) -> None:
    with travel_to(NOON):
        set_key(agent, "a", ttl=MINUTE)
        set_key(agent, "b")
        fork(agent, "t-1", "child")
        set_key(agent, "b", "other", thread="child")
        fork(agent, "child", "grandchild")
        delete_key(agent, "a", "grandchild")
    parent, child = get_thread(agent), get_thread(agent, "child")
    grandchild = get_thread(agent, "grandchild")
    assert versions(child) == {"a": 2, "b": 3 + 2}
    assert versions(grandchild) == {"b": 3 + 2}
    assert {row["key"]: row["value_thread"] for row in key_rows(child)} == {
        "a": parent.id,
        "b": child.id,
    }
    assert [row["value_seq"] for row in key_rows(grandchild)] == [2]
    assert (dues(parent), dues(child), dues(grandchild)) == ({2: NOON + MINUTE}, {}, {})
    assert sweep(NOON + MINUTE) == (2, 0)
    assert (list_names(parent), list_names(child), list_names(grandchild)) == (
        ["b"],
        ["b"],
        ["b"],
    )


def test_fork_of_the_past_has_the_keys_of_then(agent: Agent) -> None:
    with travel_to(NOON):
        set_key(agent, "a")
        set_key(agent, "b")
        clear(agent)
        fork(agent, "t-1", "child", seq=2)
    assert versions(get_thread(agent, "child")) == {"a": 2}


def test_fork_restores_what_it_inherits(agent: Agent) -> None:
    with travel_to(NOON):
        set_key(agent, "a", ttl=DAY)
        take(agent, "here")
        set_key(agent, "a", "second")
        fork(agent, "t-1", "child")
        set_key(agent, "b", thread="child")
        receipt = restore(agent, "here", thread="child")
    assert kinds(receipt) == ["checkpoint.taken", "checkpoint.restored"]
    child = get_thread(agent, "child")
    (row,) = key_rows(child)
    parent = get_thread(agent).id
    assert (row["key"], row["value_thread"], row["value_seq"]) == ("a", parent, 2)
    assert list_names(get_thread(agent)) == ["a"]
    with travel_to(NOON):
        restore(agent, state_of(child).memory.automatic[0], thread="child")
    assert list_names(child) == ["a", "b"]


def test_fork_keeps_value_it_retimed(agent: Agent) -> None:
    """The ancestor erases its own value; the fork has written its value anew."""
    with travel_to(NOON):
        set_key(agent, "a", "precious", ttl=MINUTE)
        set_key(agent, "b", "lost", ttl=MINUTE)
        fork(agent, "t-1", "child")
        assert kinds(retime(agent, "a", NEVER, "child")) == ["key.set"]
    assert sweep(NOON + DAY + MINUTE) == (3, 2)
    assert list_held_seqs(get_thread(agent)) == []
    child = get_thread(agent, "child")
    assert (list_names(child), list_held_seqs(child)) == (["a"], [2])
    # Its own by now, so that the next time moves no value.
    with travel_to(NOON + 2 * DAY):
        assert kinds(retime(agent, "a", DAY, "child")) == ["key.retimed"]
    assert dues(child) == {}


def test_value_that_was_inherited_goes_by_its_own_thread(agent: Agent) -> None:
    with travel_to(NOON):
        set_key(agent, "a", ttl=MINUTE)
        fork(agent, "t-1", "child")
        retime(agent, "a", 3 * DAY)
        clear(agent, "child")
    assert sweep(NOON + 2 * DAY) == (0, 0)
    assert sweep(NOON + 4 * DAY) == (1, 1)


# Many commands in one transaction


def batched(agent: Agent, *commands: Command) -> list[OrderReceipt]:
    orders = [order(agent, each) for each in commands]
    outcomes = writer.journal.commit(orders)
    assert not [each for each in outcomes if isinstance(each, Refusal)]
    return outcomes  # type: ignore[return-value]  # none is a refusal


def _build_change(*changes: SetKey | DeleteKey) -> ChangeKeys:
    return ChangeKeys(changes=changes)


def test_batch_may_set_retime_and_erase_a_value(agent: Agent) -> None:
    """Each decision sees the results of those before it, before any row is written."""
    erase = EraseValues(seqs=(2, 3, 4), grace=timedelta(0))
    with travel_to(NOON):
        set_key(agent, "a", ttl=SECOND)
        set_key(agent, "b", ttl=SECOND)
        receipts = batched(
            agent,
            _build_change(new_key("c", expiry=lasting(SECOND))),
            RetimeKey(key="a", expiry=NEVER),
            RetimeKey(key="b", expiry=lasting(DAY)),
            RetimeKey(key="b", expiry=lasting(MINUTE)),
            _build_change(DeleteKey(key="c")),
            erase,
        )
    thread = get_thread(agent)
    assert [kinds(each) for each in receipts][-1] == []
    assert dues(thread) == {3: NOON + DAY, 4: NOON + SECOND}
    with travel_to(NOON + MINUTE):
        gone, again = batched(agent, erase, erase)
        assert gone.get_event(ValuesErased).seqs == [4]
        assert again.events == ()
    assert (dues(thread), list_held_seqs(thread)) == ({3: NOON + DAY}, [2, 3])
    assert is_whole(agent)


def test_batch_may_make_and_remove_a_key(agent: Agent) -> None:
    with travel_to(NOON):
        batched(
            agent,
            _build_change(new_key("a", expiry=lasting(DAY)), new_key("b")),
            TakeCheckpoint(name="here"),
            ClearKeys(),
            _build_change(new_key("b", "second", UNSAID)),
            RestoreCheckpoint(target="here", parts=RESTORED),
            _build_change(DeleteKey(key="b")),
        )
    thread = get_thread(agent)
    assert versions(thread) == {"a": 2}
    assert dues(thread) == {2: NOON + DAY}
    assert is_whole(agent)
