"""Deciding and folding: a state machine against a plain model, and golden histories."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from memoryhub.errors import (
    ForkTooDeepError,
    Refusal,
    ScopeConflictError,
    ThreadClosedError,
    ThreadErasedError,
    ThreadFullError,
)
from memoryhub.kernel import commands, replay, state_json
from memoryhub.kernel.commands import AppendSlots, CreateThread, NewSlot
from memoryhub.kernel.memory import checkpoints, keys, notes, tasks
from memoryhub.kernel.paging import page_parts, tlb_upkeep
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.state import state as states
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.erase_events import RecordsErased, ThreadErased
from memoryhub.kernel.state.page_events import PagesEvicted
from memoryhub.kernel.state.state import ScopeLabels, ThreadState
from memoryhub.kernel.threads.threads import inherit_state
from memoryhub.kernel.turns import own_tools, turns
from tests.oracles.paging import Rows

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
NEW = ThreadState(id=UUID(int=1), project=UUID(int=2), subject=UUID(int=3))


def apply(state: ThreadState, command: Any, actor: str = "agent:k") -> ThreadState:
    at = BEGAN + timedelta(seconds=state.seq + 1)
    for draft in replay.decide(state, command, Rows(), at=at):
        seq = state.seq + 1
        recorded = replay.RecordedEvent(seq=seq, at=at, actor=actor, event=draft.event)
        state = replay.evolve(state, recorded)
    return state


def build_slots(*contents: str) -> AppendSlots:
    return AppendSlots(
        slots=tuple(
            NewSlot(
                from_name="user",
                to_name="assistant",
                type="chat.user",
                content=json.dumps(content).encode(),
                tokens=len(content),
            )
            for content in contents
        )
    )


def test_closed_thread_refuses_appends_until_it_is_reopened() -> None:
    state = apply(apply(NEW, CreateThread()), commands.CloseThread())
    with pytest.raises(ThreadClosedError):
        apply(state, build_slots("x"))
    assert apply(state, commands.CloseThread()).seq == state.seq
    state = apply(state, commands.ReopenThread())
    assert apply(state, build_slots("x")).slot_count == 1


def test_retired_thread_takes_no_command() -> None:
    state = apply(NEW, CreateThread())
    state = apply(state, commands.RetireThread(policy_days=1, idle_days=2))
    for command in (build_slots("x"), commands.ReopenThread(), CreateThread()):
        with pytest.raises(ThreadErasedError):
            apply(state, command)


def test_unset_scope_level_is_filled_once() -> None:
    state = apply(NEW, CreateThread(scope=ScopeLabels(agent_type="a")))
    state = apply(state, CreateThread(scope=ScopeLabels(session="s")))
    assert state.scope == ScopeLabels(agent_type="a", session="s")
    assert apply(state, CreateThread(scope=ScopeLabels(session="s"))).seq == state.seq
    with pytest.raises(ScopeConflictError) as refusal:
        apply(state, CreateThread(scope=ScopeLabels(session="t")))
    assert refusal.value.detail == {"level": "session"}


def test_labels_are_replaced_as_a_whole() -> None:
    state = apply(NEW, CreateThread(labels={"b": 1, "a": "x"}))
    assert state.labels == (("a", "x"), ("b", 1))
    state = apply(state, commands.AmendThread(labels={"c": True}))
    assert state.labels == (("c", True),)


def test_lowering_a_limit_removes_nothing() -> None:
    state = apply(apply(NEW, CreateThread()), build_slots("a", "b", "c"))
    state = apply(state, commands.AmendThread(config={"max_slots": 2}))
    assert state.slot_count == 3
    with pytest.raises(ThreadFullError):
        apply(state, build_slots("d"))


def test_fork_goes_on_from_its_parent() -> None:
    parent = apply(apply(NEW, CreateThread()), build_slots("a", "b"))
    child = fork(parent, UUID(int=9))
    assert child.slot_count == child.inherited == 2
    grown = apply(child, build_slots("c"))
    assert [*grown.lineage] == [
        states.LineageSegment(thread=parent.id, first=0, end=2, up_to_seq=parent.seq)
    ]
    assert apply(parent, build_slots("d", "e")).slot_count == 4
    assert grown.slot_count == 3
    assert grown.token_count == 3


def test_fork_too_deep_after_32_ancestors() -> None:
    state = apply(NEW, CreateThread())
    for depth in range(32):
        state = fork(state, UUID(int=100 + depth))
    assert state.depth == 32
    with pytest.raises(ForkTooDeepError):
        fork(state, UUID(int=999))


def fork(parent: ThreadState, child: UUID) -> ThreadState:
    command = commands.ForkThread(parent=parent, parent_chain="00")
    blank = ThreadState(id=child, project=parent.project, subject=parent.subject)
    return apply(inherit_state(parent, blank), command)


def test_readers_and_workers_do_not_keep_a_thread_from_being_idle() -> None:
    state = apply(NEW, CreateThread())
    active = state.active_seq
    assert apply(state, commands.CloseThread(), actor="worker:x").active_seq == active
    assert apply(state, commands.CloseThread(), actor="operator:x").active_seq > active


class Threads(RuleBasedStateMachine):
    """Random commands; the model is a list of contents and a few plain values."""

    def __init__(self) -> None:
        super().__init__()
        self.state = apply(NEW, CreateThread())
        self.contents: list[str] = []
        self.open = True
        self.limit = states.DEFAULT_MAX_SLOTS

    @rule(contents=st.lists(st.text(max_size=5), min_size=1, max_size=4))
    def append(self, contents: list[str]) -> None:
        before = self.state
        fits = len(self.contents) + len(contents) <= self.limit
        try:
            self.state = apply(self.state, build_slots(*contents))
        except Refusal:
            assert not (self.open and fits)
            assert self.state is before
        else:
            assert self.open
            assert fits
            self.contents += contents

    @rule()
    def close(self) -> None:
        self.state, self.open = apply(self.state, commands.CloseThread()), False

    @rule()
    def reopen(self) -> None:
        self.state, self.open = apply(self.state, commands.ReopenThread()), True

    @rule(limit=st.integers(1, 12))
    def limit_slots(self, limit: int) -> None:
        change = commands.AmendThread(config={"max_slots": limit})
        self.state, self.limit = apply(self.state, change), limit

    @invariant()
    def the_model_agrees(self) -> None:
        assert self.state.slot_count == len(self.contents)
        assert self.state.token_count == sum(map(len, self.contents))
        assert self.state.status == ("open" if self.open else "closed")
        assert dict(self.state.types.items()).get("chat.user", 0) == len(self.contents)

    @invariant()
    def a_snapshot_is_the_state(self) -> None:
        kept = json.loads(json.dumps(state_json.to_json(self.state)))
        assert state_json.from_json(kept) == self.state


TestThreads = Threads.TestCase
TestThreads.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


GOLDEN = Path(__file__).parent.parent.parent / "golden"
#: From before paging, then one with an event of every kind that each part has, and of
#: pages that leave together.
HISTORIES = [
    "replay-format-1",
    "replay-format-1-paging",
    "replay-format-1-evictions",
    "replay-format-1-loop",
    "replay-format-1-working-memory",
    "replay-format-1-erasing",
    "replay-format-1-erased",
]


def fold_golden(name: str) -> str:
    """Return the state that a recorded history folds to today, as canonical JSON."""
    state = NEW
    for row in golden(name)["events"]:
        kind = TYPES[row["type"]]
        recorded = replay.RecordedEvent(
            seq=row["seq"],
            at=datetime.fromisoformat(row["at"]),
            actor=row["actor"],
            event=kind.model_validate_json(json.dumps(row["body"])),
        )
        state = replay.evolve(state, recorded)
    return json.dumps(state_json.to_json(state))


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.mark.parametrize("name", HISTORIES)
def test_golden_history_folds_to_its_state(name: str) -> None:
    """The histories are fixed: other folding needs a new replay format.

    Fields that the state did not have when it was written are as in a new thread.
    """
    written = state_json.from_json(golden(name)["state"])
    assert json.loads(fold_golden(name)) == state_json.to_json(written)


@pytest.mark.parametrize(
    ("history", "kinds"),
    [
        ("paging", {*page_parts.PART.events, *turns.PART.events} - {PagesEvicted}),
        ("evictions", [PagesEvicted]),
        ("paging", tlb_upkeep.PART.events),
        ("loop", own_tools.PART.events),
        ("working-memory", chain(keys.PART.events, tasks.PART.events)),
        ("working-memory", chain(notes.PART.events, checkpoints.PART.events)),
        ("erasing", [RecordsErased]),
        ("erased", [ThreadErased]),
    ],
)
def test_golden_history_tells_all_that_a_part_does(
    history: str, kinds: Iterable[type[EventBody]]
) -> None:
    types = {row["type"] for row in golden(f"replay-format-1-{history}")["events"]}
    assert {event.event_type for event in kinds} <= types


def test_slots_from_before_paging_have_no_pages() -> None:
    paging = json.loads(fold_golden("replay-format-1"))["paging"]
    assert paging["pages"] == paging["used"] == 0
    assert paging["frames"] == paging["tlb"]["entries"] == []


@pytest.mark.parametrize("seed", ["0", "1", "2", "77"])
def test_folding_is_the_same_under_every_hash_seed(seed: str) -> None:
    program = (
        "from tests.kernel.threads.test_replay import HISTORIES, fold_golden\n"
        "for name in HISTORIES: print(fold_golden(name))"
    )
    folded = subprocess.run(  # our own interpreter and text
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(p for p in sys.path if p)},
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert folded.splitlines() == [fold_golden(name) for name in HISTORIES]
