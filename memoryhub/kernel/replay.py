"""The two doors of the kernel: `decide` and `evolve`. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from memoryhub.errors import HomeThreadError
from memoryhub.kernel import commands
from memoryhub.kernel.commands import Command
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.registry import DECIDE, EVOLVE, HOME_COMMANDS
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.threads import threads

#: Commands of the eraser, which a thread of any status takes.
_ERASING = (commands.EraseThread, commands.EraseRecords)

#: Actors, by the word before the colon, whose events keep a thread from being idle.
_ACTIVE = frozenset({"agent", "operator", "import"})


class RecordedEvent(NamedTuple):
    """An event with the seq, time and actor that the journal adds to a draft.

    A tuple, since a fold makes hundreds: a frozen dataclass takes three times as long.
    """

    seq: int
    at: datetime
    #: `agent:<key prefix>`, `operator:<id>`, `import`, `worker:<kind>`,
    #: `eraser:<erasure>`.
    actor: str
    event: EventBody


def decide(
    state: ThreadState,
    command: Command,
    pages: PageTable,
    *,
    at: datetime,
) -> list[commands.EventDraft]:
    """Return the events that `command` leads to, in order. Raises a Refusal.

    A retired or erased thread takes only commands of the eraser. A home thread takes
    only commands that its parts name (HomeThreadError). The decision reads `pages`
    only for facts missing in the state. `at` is the instant of the events, and the
    instant by which expiry is judged.
    """
    if not isinstance(command, _ERASING):
        threads.require_alive(state)
        if state.home and type(command) not in HOME_COMMANDS:
            raise HomeThreadError
    decision = Decision(state, EVOLVE, at=at)
    DECIDE[type(command)](decision, command, pages)
    return decision.finish()


def evolve(
    state: ThreadState, recorded: RecordedEvent, *, after: ThreadState | None = None
) -> ThreadState:
    """Return the state after one event. Needs no payload.

    `after` is the state after the event, if the decision has computed it already.
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
