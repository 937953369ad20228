"""All parts of the kernel, and the tables built from them. Pure."""

from __future__ import annotations

from memoryhub.kernel.commands import Command
from memoryhub.kernel.decision import Decision, Evolve, PageTable
from memoryhub.kernel.forget import erasing
from memoryhub.kernel.knowledge import blocks, consolidation, corrections, facts
from memoryhub.kernel.memory import checkpoints
from memoryhub.kernel.memory.nouns import NOUNS
from memoryhub.kernel.observing import observing
from memoryhub.kernel.paging import (
    citations,
    page_parts,
    prefetch_upkeep,
    tlb_upkeep,
)
from memoryhub.kernel.parts import Decide, KernelPart
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.threads import slots, strikes, threads
from memoryhub.kernel.turns import calls, marks, own_tools, runs, searches, turns

PARTS: tuple[KernelPart, ...] = (
    threads.PART,
    slots.PART,
    strikes.PART,
    runs.PART,
    page_parts.PART,
    citations.PART,
    turns.PART,
    marks.PART,
    tlb_upkeep.PART,
    prefetch_upkeep.PART,
    own_tools.PART,
    calls.PART,
    searches.PART,
    *NOUNS,
    blocks.PART,
    observing.PART,
    facts.PART,
    corrections.PART,
    consolidation.PART,
    checkpoints.PART,
    erasing.PART,
)


def _refuse_closed(decide: Decide) -> Decide:
    """Wrap a decider so that a closed thread refuses the command."""

    def run_if_open(decision: Decision, command: Command, pages: PageTable) -> None:
        threads.require_open(decision.state)
        decide(decision, command, pages)

    return run_if_open


#: Decider of each command type.
DECIDE: dict[type[Command], Decide] = {
    command: decide
    for part in PARTS
    for command, decide in [
        *(
            (command, _refuse_closed(decide))
            for command, decide in part.commands.items()
        ),
        *part.upkeep.items(),
    ]
}
#: Command types that home threads take besides the eraser's commands.
HOME_COMMANDS: frozenset[type[Command]] = frozenset().union(
    *(part.home for part in PARTS)
)
#: Fold of each event type.
EVOLVE: dict[type[EventBody], Evolve] = {
    event: evolve for part in PARTS for event, evolve in part.events.items()
}
#: Event class by event type, its word in the journal.
TYPES: dict[str, type[EventBody]] = {event.event_type: event for event in EVOLVE}
