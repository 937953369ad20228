"""Instructions to the observer and the reflector of a thread. Never writes."""

from __future__ import annotations

from typing import Final, NamedTuple, get_args

from memoryhub.journal import texts
from memoryhub.kernel.state.observing import ObserverRole
from memoryhub.kernel.state.pages import FULL, Location
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread

ROLES: Final[tuple[ObserverRole, ...]] = get_args(ObserverRole)


class RoleInstructions(NamedTuple):
    """Instructions to a role: the thread's own, else the project's."""

    text: str
    #: Place of the thread's own text, and its keyed digest; None for the project's.
    place: Location | None = None
    digest: str | None = None


def list_own_instructions(
    thread: Thread, state: ThreadState
) -> dict[ObserverRole, RoleInstructions]:
    """List the thread's own instructions, by role; leave out erased ones.

    One query, none without such instructions. `thread` comes with its subject.
    """
    own = state.observing.instructions
    opened = texts.open_events(thread, state, [each.clock for each in own])
    found = dict[ObserverRole, RoleInstructions]()
    for role, clock, digest in own:
        content = opened[clock].content
        if content is not None:
            place = Location(*state.locate_event(clock), FULL)
            found[role] = RoleInstructions(content["text"], place, digest)
    return found


def get_instructions(
    thread: Thread, state: ThreadState, role: ObserverRole
) -> RoleInstructions:
    """Return the instructions that hold for a role.

    The project's hold where the thread has none of its own, or where these are erased.
    `thread` comes with its project and its subject.
    """
    found = list_own_instructions(thread, state).get(role)
    if found is not None:
        return found
    project = thread.project
    shared = {
        "observer": project.observer_instructions,
        "reflector": project.reflector_instructions,
    }
    return RoleInstructions(shared[role])
