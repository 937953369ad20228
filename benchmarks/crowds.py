"""Databases made large: one long thread among many, all of them paged.

Runs inside an instance, through its journal, in batches.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import count, cycle, islice
from typing import Any

from benchmarks import messages
from benchmarks.hubs import PROJECT
from benchmarks.screens import LONG, SHORT
from benchmarks.threads import COMMANDS_A_COMMIT, SLOTS_A_COMMAND, parts
from memoryhub.journal import Order
from memoryhub.journal.writing.writer import BatchCommitter
from memoryhub.kernel.commands import AppendSlots, Command
from memoryhub.kernel.memory.checkpoints import TakeCheckpoint
from memoryhub.kernel.memory.keys import ChangeKeys
from memoryhub.kernel.memory.notes import AddNotes, NewNote
from memoryhub.kernel.memory.tasks import SetTask
from memoryhub.kernel.paging.page_commands import BeginTurn, FaultPage
from memoryhub.management.progress import ProgressBar
from memoryhub.models.events import Snapshot
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import operator_threads
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from memoryhub.vault.keys import keyring
from tests.cast import factories
from tests.oracles import memory_acts

#: As the recorded runs in one thread: most of what was said has left the window.
WINDOW: dict[str, Any] = {
    "budget_tokens": 16_000,
    "reserved_tokens": 1_000,
    "max_slots": 10_000_000,
}
#: Turns at the end of a thread whose requests are recorded.
RECORDED = 20
SLOTS_A_THREAD, THREADS_A_COMMIT = 10, 100
#: Keys, and notes, of a thread that is grown; its checkpoint.
KEYS, CHECKPOINT = 100, "begun"


def fill(*, events: int, short: int, threads: int) -> None:
    """Make a thread of so many events and one that is short, among so many others."""
    keyring.prepare(empty=False)
    project = Project.objects.get(slug=PROJECT)
    # The place in a list of threads that all came at once is as good as any.
    agent = factories.make_agent(project)
    _others(agent, threads)
    for name, length in ((SHORT, short), (LONG, events)):
        if length:
            _grow(agent, name, length)


def _grow(agent: Agent, name: str, events: int) -> None:
    """Append messages, turns and faults until there are so many events."""
    thread = factories.make_thread(agent, name, **WINDOW)
    journal, work = BatchCommitter(), _work()
    _perform(journal, agent, thread, _remembered())
    progress = ProgressBar(sys.stderr, total=events, unit=f"events of {name}")
    while (before := thread.head_seq) < events:
        _perform(journal, agent, thread, islice(work, 3 * COMMANDS_A_COMMIT))
        progress.add(thread.head_seq - before)
    progress.close()
    _settle(journal, agent, thread)
    said = factories.make_slot(messages.messages()[1])
    for _ in range(RECORDED):
        factories.run(
            turns.begin_turn(agent=agent, thread=name, new=NewTurn(slots=[said]))
        )
    thread.refresh_from_db()
    actor = f"operator:{agent.key}"
    operator_threads.fork(
        thread, actor=actor, name=f"{name}.fork", seq=thread.head_seq // 2
    )


def _remembered() -> Iterator[Command]:
    """Write working memory at the beginning, so that any moment shows the same."""
    keys = (memory_acts.new_key(f"key-{n}") for n in range(KEYS))
    yield ChangeKeys(changes=tuple(keys))
    yield SetTask()
    note = NewNote(text=b'"Asked again."', bytes=12)
    yield AddNotes(notes=(note,) * KEYS)
    yield TakeCheckpoint(name=CHECKPOINT)


def _settle(journal: BatchCommitter, agent: Agent, thread: Thread) -> None:
    """Go on until the next snapshot, so that any head is equally far from its last."""
    kept = Snapshot.objects.filter(thread=thread)
    before = kept.count()
    while kept.count() == before:
        slots = tuple(factories.make_slot("Go on.") for _ in range(SLOTS_A_THREAD))
        _perform(journal, agent, thread, [AppendSlots(slots=slots)])


def _perform(
    journal: BatchCommitter, agent: Agent, thread: Thread, commands: Iterable[Command]
) -> None:
    address = agent.address(thread.name)
    _apply(
        journal,
        [
            Order(address=address, command=command, actor=agent.actor)
            for command in commands
        ],
    )
    thread.refresh_from_db(fields=["head_seq"])


def _work() -> Iterator[Command]:
    """Yield the work in a thread: many messages, a turn, a page fetched back."""
    written = count(SLOTS_A_COMMAND, SLOTS_A_COMMAND)
    said = cycle(messages.messages())
    while True:
        made = (
            factories.make_slot(each, type=f"chat.{each['role']}")
            for each in islice(said, SLOTS_A_COMMAND)
        )
        yield AppendSlots(slots=tuple(made))
        yield BeginTurn()
        yield FaultPage(page_id=f"slot-{next(written) // 2}", level=0)


def _others(agent: Agent, threads: int) -> None:
    journal = BatchCommitter()
    made = islice(cycle(messages.messages()), SLOTS_A_THREAD)
    command = AppendSlots(slots=tuple(factories.make_slot(each) for each in made))
    orders = (
        Order(
            address=agent.address(f"t-{number}", birth=agent.build_birth()),
            command=command,
            actor=agent.actor,
        )
        for number in range(threads)
    )
    progress = ProgressBar(sys.stderr, total=threads, unit="threads")
    for part in parts(orders, THREADS_A_COMMIT):
        _apply(journal, part)
        progress.add(len(part))
    progress.close()


def _apply(journal: BatchCommitter, orders: list[Order] | tuple[Order, ...]) -> None:
    for outcome in journal.commit(orders):
        if isinstance(outcome, Exception):
            raise outcome


def counts() -> dict[str, int]:
    """Return the numbers of threads, events and pages."""
    rows = Thread.objects.all()
    return {
        "threads": rows.count(),
        "events": sum(rows.values_list("head_seq", flat=True)),
        "pages": sum(rows.values_list("slot_count", flat=True)),
    }
