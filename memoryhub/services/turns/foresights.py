"""Foresights: which pages the next turn will prefetch, and why. Never writes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from memoryhub.errors import ObservationsWantedError
from memoryhub.kernel.paging.page_commands import BeginTurn
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import blocks
from memoryhub.queries.turns import prefetch
from memoryhub.services.observing import extraction


def get_prefetch(
    thread: Thread, state: ThreadState, *, name: str, bound: UUID | None = None
) -> dict[str, Any]:
    """Return what the next turn prefetches, as `prefetch.get_prefetch` does.

    A turn as of an earlier event has no blocks and no new observations: both are as of
    now. `thread` comes with its subject.
    """
    command, now = BeginTurn(), state.seq == thread.head_seq
    if now:
        carried = blocks.list_carried(thread.project_id, name, bound=bound)
        command = BeginTurn(blocks=carried, observed=None)
    command = prefetch.add_message(thread, state, command)
    try:
        return prefetch.get_prefetch(thread, state, command)
    except ObservationsWantedError:
        where = (thread.project_id, name, bound)
        command = extraction.add_observations(*where, command)
        return prefetch.get_prefetch(thread, state, command)
