"""An agent's own tools: the tools its model may call besides ours.

Pure. The thread keeps the definitions, so that their tokens count against the budget
and a request can be assembled again. Every request names the event that holds them. See
decision 49.
"""

from __future__ import annotations

from dataclasses import replace

from memoryhub.errors import NoRoomError
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.paging.eviction import eviction
from memoryhub.kernel.paging.page_commands import SetTools
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.state.pages import FULL, Location
from memoryhub.kernel.state.paging import OwnTools
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.tool_events import ToolsSet

MOST, MOST_BYTES = 128, 64 * 1024
#: Largest share of the definitions in a working set without own tools.
_SHARE = 0.5


def decide_set_tools(decision: Decision, command: SetTools, pages: PageTable) -> None:
    """Keep the definitions. Emits tools.set, and evictions first; a repeat, nothing.

    Raises NoRoomError when the definitions would take more than half of the usable
    tokens.
    """
    before = decision.paging.own_tools
    digest = pages.digest(command.definitions.decode())
    if before.digest == digest if before else not command.names:
        return
    settings = replace(decision.paging.settings, tools_tokens=0)
    if command.tokens > settings.usable * _SHARE:
        raise NoRoomError
    decision.use_settings(replace(settings, tools_tokens=command.tokens))
    eviction.shrink(decision)
    # Last, as when a budget is set: no seq shows a working set beyond its bounds.
    event = ToolsSet(
        turn=decision.turn,
        digest=digest,
        tools=len(command.names),
        tokens=command.tokens,
        bytes=len(command.definitions),
        by=command.by,
    )
    decision.emit(event, b'{"tools":' + command.definitions + b"}")


def apply_tools_set(state: ThreadState, event: ToolsSet) -> ThreadState:
    place = Location(state.id, state.seq + 1, FULL)
    own = OwnTools(place, event.digest, event.tokens) if event.tools else None
    return state._replace(paging=state.paging.set_own_tools(own))


PART = KernelPart(
    commands={SetTools: decide_set_tools},
    events={ToolsSet: apply_tools_set},
)
