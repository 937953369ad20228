"""Removal of what was learnt for prefetch, on request. Pure."""

from __future__ import annotations

from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.paging import prerequisites
from memoryhub.kernel.paging.page_commands import ClearPrefetch
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.state.page_events import PrefetchCleared
from memoryhub.kernel.state.state import ThreadState


def decide_clear_prefetch(
    decision: Decision, command: ClearPrefetch, pages: PageTable
) -> None:
    """Forget which pages are read before which tools. Emits prefetch.cleared."""
    tools = decision.paging.tools
    decision.emit(
        PrefetchCleared(
            turn=decision.turn,
            by=command.by,
            tools=len(tools),
            pages=sum(len(tool.pages) for tool in tools),
        )
    )


def apply_prefetch_cleared(state: ThreadState, event: PrefetchCleared) -> ThreadState:
    return state._replace(paging=prerequisites.forget_tools(state.paging))


PART = KernelPart(
    commands={ClearPrefetch: decide_clear_prefetch},
    events={PrefetchCleared: apply_prefetch_cleared},
)
