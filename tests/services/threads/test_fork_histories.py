"""Forks of threads with random histories."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import pairwise

import pytest

from memoryhub import journal
from memoryhub.errors import (
    ScopeConflictError,
    StaleError,
    ThreadClosedError,
    ThreadFullError,
)
from memoryhub.journal.log.log import Origins
from memoryhub.kernel.commands import ForkThread, ImportMessages, RunMessage
from memoryhub.kernel.state.events import LabelValue, ThreadConfig
from memoryhub.kernel.state.state import (
    MAX_FORK_DEPTH,
    LineageSegment,
    ScopeLabels,
    ThreadState,
)
from memoryhub.kernel.state_json import to_json
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import slots, threads
from tests.cast.factories import get_thread, make_slot, run
from tests.services.acts import amend, list_contents, state_of

pytestmark = pytest.mark.django_db


class Scribbler:
    """A writer of random commands to threads, from a seed."""

    def __init__(self, agent: Agent, seed: int) -> None:
        self.agent = agent
        self.chance = random.Random(seed)  # a seed repeats it
        #: By thread: messages of its recorded run.
        self.recorded: dict[str, int] = {}

    def write(self, thread: str) -> None:
        rare = [self._label, self._limit, self._close, self._reopen, self._fill]
        attempt = self.chance.choice([*[self._append] * 4, self.record, *rare])
        # The thread is closed, full, of another scope, or no recorded run any more.
        refusals = ThreadClosedError, ThreadFullError, ScopeConflictError, StaleError
        with suppress(*refusals):
            attempt(thread)

    def record(self, thread: str) -> None:
        """Import the next messages of a recorded run, with their turns."""
        messages = [
            RunMessage(slot=make_slot(n), turn=self.chance.random() < 0.5)
            for n in range(self.chance.randrange(1, 4))
        ]
        command = ImportMessages(
            after=self.recorded.get(thread, 0),
            messages=tuple(messages),
            digest=self.chance.randbytes(16).hex(),
        )
        address = self.agent.address(thread, birth=self.agent.build_birth())
        journal.perform(journal.Order(address=address, command=command, actor="import"))

    def fork(self, parent: Thread, name: str, *, seq: int) -> ForkThread:
        """Fork with a scope, labels and limits of the child's own, or without."""
        labels: dict[str, LabelValue] = {"n": self.chance.random(), "x": True}
        command = threads.build_fork(
            parent,
            seq,
            scope=ScopeLabels(agent_type=self.chance.choice([None, "a"])),
            labels=self.chance.choice([None, labels]),
            config=ThreadConfig(max_slots=self.chance.choice([None, 20_000])),
        )
        run(threads.fork(agent=self.agent, name=name, command=command))
        self.recorded[name] = command.parent.imported
        return command

    def _append(self, thread: str) -> None:
        batch = [
            make_slot(self.chance.random(), from_name=sender, type=f"x.T{sender}")
            for sender in self.chance.choices("abcdef", k=self.chance.randrange(1, 4))
        ]
        run(slots.append(agent=self.agent, thread=thread, slots=batch))

    def _label(self, thread: str) -> None:
        amend(self.agent, thread, labels={"n": self.chance.randrange(4)})

    def _limit(self, thread: str) -> None:
        limit = self.chance.randrange(300, 2_000)
        amend(self.agent, thread, config={"max_slots": limit})

    def _close(self, thread: str) -> None:
        run(threads.close(agent=self.agent, thread=thread, reason="archived"))

    def _reopen(self, thread: str) -> None:
        run(threads.reopen(agent=self.agent, thread=thread))

    def _fill(self, thread: str) -> None:
        amend(self.agent, thread, scope=ScopeLabels(session=self.chance.choice("ab")))


def first_state(command: ForkThread, child: Thread) -> ThreadState:
    """Return the state in which a fork begins by the specification."""
    parent = command.parent
    sent, kept = command.config, parent.config
    blocks = kept.blocks if sent.blocks is None else sent.blocks
    own = LineageSegment(
        thread=parent.id,
        first=parent.inherited,
        end=parent.slot_count,
        up_to_seq=parent.seq,
    )
    return parent._replace(
        id=child.id,
        scope=command.scope,
        labels=tuple(sorted((command.labels or {}).items())),
        # Inherited messages are counted and weighed as the parent's.
        config=sent.model_copy(update={"blocks": blocks}),
        lineage=(*parent.lineage, own),
        depth=parent.depth + 1,
        inherited=parent.slot_count,
        # The first event sets these fields in any thread.
        status="open",
        seq=1,
        at=child.created_at,
        created_at=child.created_at,
        active_seq=1,
        active_at=child.created_at,
    )


def grow_chain(scribbler: Scribbler, *, depth: int, commands: int) -> list[str]:
    """Fork forks at random events, and compare each with its parent at the event."""
    names, origins = [f"f-{number}" for number in range(depth + 1)], Origins()
    scribbler.record(names[0])
    for parent, name in pairwise(names):
        for _ in range(commands):
            scribbler.write(parent)
        row = get_thread(scribbler.agent, parent)
        # A late event, so that there is something to inherit.
        seq = scribbler.chance.randrange(row.head_seq // 2, row.head_seq) + 1
        command = scribbler.fork(row, name, seq=seq)
        child = get_thread(scribbler.agent, name)
        state = journal.fold_thread(child, 1, origins=origins).state
        assert to_json(state) == to_json(first_state(command, child))
    return names


def get_stored_row(thread: str) -> tuple[object, int]:
    """Return the thread's row, with the hash of its head, and its number of events."""
    row = Thread.objects.values().get(name=thread)
    return row, Event.objects.filter(thread_id=row["id"]).count()


@pytest.mark.parametrize(
    ("seed", "each", "every"),
    [
        pytest.param(1, 100, 40, id="one-seed"),
        *(pytest.param(seed, 200, 5, marks=pytest.mark.nightly) for seed in range(3)),
    ],
)
@pytest.mark.timeout(600)
def test_fork_equals_its_parents_state_at_the_event(
    agent: Agent, seed: int, each: int, every: int
) -> None:
    """Grow a chain of 32 forks, then write 200 or 400 commands to its last two threads.

    A command leaves the other thread's row and number of events as they were. The test
    folds the other thread from its oldest ancestor on after each `every`-th command.
    """
    scribbler = Scribbler(agent, seed)
    names = grow_chain(scribbler, depth=MAX_FORK_DEPTH, commands=6)
    sides = {name: state_of(get_thread(agent, name)) for name in names[-2:]}
    turns = [*sides] * each
    scribbler.chance.shuffle(turns)
    for number, name in enumerate(turns):
        (other,) = sides.keys() - {name}
        before = get_stored_row(other)
        scribbler.write(name)
        assert get_stored_row(other) == before
        if number % every == 0:
            row = get_thread(agent, other)
            earlier = state_of(row, sides[other].seq)
            assert to_json(earlier) == to_json(sides[other])
            sides[other] = state_of(row)
    parent, child = (get_thread(agent, name) for name in names[-2:])
    inherited = state_of(child).inherited
    assert list_contents(child)[:inherited] == list_contents(parent)[:inherited]
    assert [len(state_of(row).lineage) for row in (parent, child)] == [31, 32]
