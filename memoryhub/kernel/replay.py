"""The two doors of the kernel: `decide` and `evolve`. Pure.

One line per command and per event; the tables are complete, and a test says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memoryhub.kernel import commands, events, runs, slots, threads
from memoryhub.kernel.state import ThreadState, changed

DECIDE: dict[type, Callable[[ThreadState, Any], Iterator[commands.Draft]]] = {
    commands.CreateThread: threads.create,
    commands.ForkThread: threads.fork,
    commands.AmendThread: threads.amend,
    commands.CloseThread: threads.close,
    commands.ReopenThread: threads.reopen,
    commands.RetireThread: threads.retire,
    commands.AppendSlots: slots.append,
    commands.ImportMessages: runs.advance,
}

EVOLVE: dict[type[events.Event], Callable[[ThreadState, Any], ThreadState]] = {
    events.ThreadCreated: threads.created,
    events.ThreadForked: threads.forked,
    events.ThreadDescribed: threads.described,
    events.ThreadConfigured: threads.configured,
    events.ThreadClosed: threads.closed,
    events.ThreadReopened: threads.reopened,
    events.ThreadRetired: threads.retired,
    events.SlotAppended: slots.appended,
    events.TurnBegan: runs.turn_began,
    events.RunRecorded: runs.recorded,
    events.ImportAdvanced: runs.advanced,
}

#: Actors whose events keep a thread from being idle, by the word before the colon.
_ACTIVE = frozenset({"agent", "operator", "import"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An event in its place: what the journal adds to a draft."""

    seq: int
    at: datetime
    #: `agent:<key prefix>`, `operator:<id>`, `import`, `worker:<kind>`.
    actor: str
    event: events.Event


def decide(state: ThreadState, command: commands.Command) -> list[commands.Draft]:
    """The events that `command` leads to, in order. Raises a Refusal.

    A thread that was retired or erased takes no command at all.
    """
    threads.require_alive(state)
    return list(DECIDE[type(command)](state, command))


def evolve(state: ThreadState, recorded: Recorded) -> ThreadState:
    """The state after one event. Needs no payload."""
    after = EVOLVE[type(recorded.event)](state, recorded.event)
    active = recorded.actor.partition(":")[0] in _ACTIVE
    return changed(
        after,
        seq=recorded.seq,
        at=recorded.at,
        created_at=recorded.at if recorded.seq == 1 else state.created_at,
        active_seq=recorded.seq if active else state.active_seq,
        active_at=recorded.at if active else state.active_at,
    )
