"""The nouns of the kernel, a line each, and the lists that follow from them. Pure."""

from __future__ import annotations

from memoryhub.kernel import (
    checkpoints,
    erasing,
    keys,
    notes,
    own_tools,
    page_parts,
    runs,
    slots,
    tasks,
    threads,
    tlb_upkeep,
    turns,
)
from memoryhub.kernel.bodies import Event
from memoryhub.kernel.commands import Command
from memoryhub.kernel.course import Course, Evolve, PageTable
from memoryhub.kernel.parts import Decide, Part

NOUNS: tuple[Part, ...] = (
    threads.PART,
    slots.PART,
    runs.PART,
    page_parts.PART,
    turns.PART,
    tlb_upkeep.PART,
    own_tools.PART,
    keys.PART,
    tasks.PART,
    notes.PART,
    checkpoints.PART,
    erasing.PART,
)


def _when_open(decide: Decide) -> Decide:
    """The decision, which a closed thread refuses."""

    def decided(course: Course, command: Command, pages: PageTable) -> None:
        threads.require_open(course.state)
        decide(course, command, pages)

    return decided


#: By command: what decides it.
DECIDE: dict[type[Command], Decide] = {
    command: decide
    for noun in NOUNS
    for command, decide in [
        *((command, _when_open(decide)) for command, decide in noun.commands.items()),
        *noun.upkeep.items(),
    ]
}
#: By event: what folds it.
EVOLVE: dict[type[Event], Evolve] = {
    event: evolve for noun in NOUNS for event, evolve in noun.events.items()
}
#: By its word in the journal, each event.
TYPES: dict[str, type[Event]] = {event.event_type: event for event in EVOLVE}
