"""All that acts on a thread, and the tables that follow from it. Pure."""

from __future__ import annotations

from memoryhub.kernel.commands import Command
from memoryhub.kernel.decision import Decision, Evolve, PageTable
from memoryhub.kernel.forget import erasing
from memoryhub.kernel.knowledge import blocks, consolidation, facts
from memoryhub.kernel.memory import checkpoints
from memoryhub.kernel.memory.nouns import NOUNS
from memoryhub.kernel.observing import observing
from memoryhub.kernel.paging import page_parts, tlb_upkeep
from memoryhub.kernel.parts import Decide, Part
from memoryhub.kernel.state.bodies import Event
from memoryhub.kernel.threads import slots, threads
from memoryhub.kernel.turns import own_tools, runs, searches, turns

PARTS: tuple[Part, ...] = (
    threads.PART,
    slots.PART,
    runs.PART,
    page_parts.PART,
    turns.PART,
    tlb_upkeep.PART,
    own_tools.PART,
    searches.PART,
    *NOUNS,
    blocks.PART,
    observing.PART,
    facts.PART,
    consolidation.PART,
    checkpoints.PART,
    erasing.PART,
)


def _when_open(decide: Decide) -> Decide:
    """The decision, which a closed thread refuses."""

    def decided(decision: Decision, command: Command, pages: PageTable) -> None:
        threads.require_open(decision.state)
        decide(decision, command, pages)

    return decided


#: By command: what decides it.
DECIDE: dict[type[Command], Decide] = {
    command: decide
    for part in PARTS
    for command, decide in [
        *((command, _when_open(decide)) for command, decide in part.commands.items()),
        *part.upkeep.items(),
    ]
}
#: What home threads take beside the eraser's orders.
HOME: frozenset[type[Command]] = frozenset().union(*(part.home for part in PARTS))
#: By event: what folds it.
EVOLVE: dict[type[Event], Evolve] = {
    event: evolve for part in PARTS for event, evolve in part.events.items()
}
#: By its word in the journal, each event.
TYPES: dict[str, type[Event]] = {event.event_type: event for event in EVOLVE}
