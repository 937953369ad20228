"""The two doors of the kernel: `decide` and `evolve`. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from memoryhub.errors import HomeThreadError
from memoryhub.kernel import commands
from memoryhub.kernel.commands import Command
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.registry import DECIDE, EVOLVE, HOME
from memoryhub.kernel.state.bodies import Event
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.threads import threads

#: The eraser's: they are taken whatever became of the thread.
_ERASING = (commands.EraseThread, commands.EraseRecords)

#: Actors whose events keep a thread from being idle, by the word before the colon.
_ACTIVE = frozenset({"agent", "operator", "import"})


class Recorded(NamedTuple):
    """An event in its place: what the journal adds to a draft.

    A tuple, for a fold makes hundreds: a frozen dataclass takes three times as long to.
    """

    seq: int
    at: datetime
    #: `agent:<key prefix>`, `operator:<id>`, `import`, `worker:<kind>`,
    #: `eraser:<erasure>`.
    actor: str
    event: Event


def decide(
    state: ThreadState,
    command: Command,
    pages: PageTable,
    *,
    at: datetime,
) -> list[commands.Draft]:
    """Return the events that `command` leads to, in order. Raises a Refusal.

    A thread that was retired or erased takes no command but the eraser's, a home thread
    only what its parts name (HomeThreadError). `pages` is
    asked only for what the state does not hold. `at` is the instant that the events
    will have: by it expiry is judged.
    """
    if not isinstance(command, _ERASING):
        threads.require_alive(state)
        if state.home and type(command) not in HOME:
            raise HomeThreadError
    decision = Decision(state, EVOLVE, at=at)
    DECIDE[type(command)](decision, command, pages)
    return decision.finish()


def evolve(
    state: ThreadState, recorded: Recorded, *, after: ThreadState | None = None
) -> ThreadState:
    """Return the state after one event. Needs no payload.

    `after` is what its decision has made of the same state.
    """
    if after is None:
        after = EVOLVE[type(recorded.event)](state, recorded.event)
    active = recorded.actor.partition(":")[0] in _ACTIVE
    return after._replace(
        seq=recorded.seq,
        at=recorded.at,
        created_at=recorded.at if recorded.seq == 1 else state.created_at,
        active_seq=recorded.seq if active else state.active_seq,
        active_at=recorded.at if active else state.active_at,
    )
