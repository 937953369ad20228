"""Forks of threads that anything may have happened to."""

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
from memoryhub.kernel.commands import ForkThread, Imported, ImportMessages
from memoryhub.kernel.state.events import LabelValue, Limits
from memoryhub.kernel.state.state import MAX_FORK_DEPTH, Scope, Segment, ThreadState
from memoryhub.kernel.state_json import to_json
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import slots, threads
from tests.cast.factories import get_thread, make_slot, run
from tests.services.acts import amend, contents, state_of

pytestmark = pytest.mark.django_db


class Scribbler:
    """Does anything that can be done to threads, from a seed."""

    def __init__(self, agent: Agent, seed: int) -> None:
        self.agent = agent
        self.chance = random.Random(seed)  # a seed repeats it
        #: By thread: messages of its recorded run.
        self.recorded: dict[str, int] = {}

    def write(self, thread: str) -> None:
        rare = [self._label, self._limit, self._close, self._reopen, self._fill]
        attempt = self.chance.choice([*[self._append] * 4, self.record, *rare])
        # Closed, full, of another scope, or no recorded run any more.
        refusals = ThreadClosedError, ThreadFullError, ScopeConflictError, StaleError
        with suppress(*refusals):
            attempt(thread)

    def record(self, thread: str) -> None:
        """The next messages of a recorded run, with their turns."""
        messages = [
            Imported(slot=make_slot(n), turn=self.chance.random() < 0.5)
            for n in range(self.chance.randrange(1, 4))
        ]
        command = ImportMessages(
            after=self.recorded.get(thread, 0),
            messages=tuple(messages),
            digest=self.chance.randbytes(16).hex(),
        )
        address = self.agent.address(thread, birth=self.agent.birth())
        journal.perform(journal.Order(address=address, command=command, actor="import"))

    def fork(self, parent: Thread, name: str, *, seq: int) -> ForkThread:
        """With a scope, labels and limits of its own, or without."""
        labels: dict[str, LabelValue] = {"n": self.chance.random(), "x": True}
        command = threads.fork_command(
            parent,
            seq,
            scope=Scope(agent_type=self.chance.choice([None, "a"])),
            labels=self.chance.choice([None, labels]),
            config=Limits(max_slots=self.chance.choice([None, 20_000])),
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
        amend(self.agent, thread, scope=Scope(session=self.chance.choice("ab")))


def first_state(command: ForkThread, child: Thread) -> ThreadState:
    """What the specification says a fork begins as: its parent, but for these."""
    parent = command.parent
    sent, kept = command.config, parent.config
    blocks = kept.blocks if sent.blocks is None else sent.blocks
    own = Segment(
        thread=parent.id,
        first=parent.inherited,
        end=parent.slot_count,
        up_to_seq=parent.seq,
    )
    return parent._replace(
        id=child.id,
        scope=command.scope,
        labels=tuple(sorted((command.labels or {}).items())),
        # What it inherits is counted and weighed as its parent's.
        config=sent.model_copy(update={"blocks": blocks}),
        lineage=(*parent.lineage, own),
        depth=parent.depth + 1,
        inherited=parent.slot_count,
        # And what its own first event makes of any thread.
        status="open",
        seq=1,
        at=child.created_at,
        created_at=child.created_at,
        active_seq=1,
        active_at=child.created_at,
    )


def grow_chain(scribbler: Scribbler, *, depth: int, commands: int) -> list[str]:
    """Forks of forks at any event, each held against its parent as of there."""
    names, origins = [f"f-{number}" for number in range(depth + 1)], Origins()
    scribbler.record(names[0])
    for parent, name in pairwise(names):
        for _ in range(commands):
            scribbler.write(parent)
        row = get_thread(scribbler.agent, parent)
        # Rather late, so that there is something to inherit.
        seq = scribbler.chance.randrange(row.head_seq // 2, row.head_seq) + 1
        command = scribbler.fork(row, name, seq=seq)
        child = get_thread(scribbler.agent, name)
        state = journal.state_at(child, 1, origins=origins).state
        assert to_json(state) == to_json(first_state(command, child))
    return names


def stored(thread: str) -> tuple[object, int]:
    """The thread's row, with the hash of its head, and how many events it has."""
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
def test_fork_equals_state_at(agent: Agent, seed: int, each: int, every: int) -> None:
    """A chain of 32, then 200 commands, or 400, on both sides of its last fork.

    A command leaves the other side's row and the number of its events as they were;
    what it folds to, from its oldest ancestor on, is looked at after each `every`-th.
    """
    scribbler = Scribbler(agent, seed)
    names = grow_chain(scribbler, depth=MAX_FORK_DEPTH, commands=6)
    sides = {name: state_of(get_thread(agent, name)) for name in names[-2:]}
    turns = [*sides] * each
    scribbler.chance.shuffle(turns)
    for number, name in enumerate(turns):
        (other,) = sides.keys() - {name}
        before = stored(other)
        scribbler.write(name)
        assert stored(other) == before
        if number % every == 0:
            row = get_thread(agent, other)
            earlier = state_of(row, sides[other].seq)
            assert to_json(earlier) == to_json(sides[other])
            sides[other] = state_of(row)
    parent, child = (get_thread(agent, name) for name in names[-2:])
    inherited = state_of(child).inherited
    assert contents(child)[:inherited] == contents(parent)[:inherited]
    assert [len(state_of(row).lineage) for row in (parent, child)] == [31, 32]
