"""Counts beside the views of a thread's memory: what each view holds."""

from __future__ import annotations

from memoryhub.kernel.memory.nouns import measure_contents
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import blocks, facts
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.replay import states


def count_views(thread: Thread, seq: int | None) -> dict[str, int]:
    """Count the contents of the views of memory, by path.

    The person's blocks and facts are counted as of now, since the links lead there.
    Queries: those of a state and three, none of a message or an event.
    """
    state = states.load_state(thread, seq)
    now = states.compute_instant(state, seq)
    contents = state.memory.contents
    figures = measure_contents(contents, "stats")
    home = find_home(thread.subject)
    return {
        "keys": len(contents.list_visible(now)),
        "task": int(figures["has_task"]),
        "notes": figures["notes"],
        "observer": len([*state.observing.log, *state.observing.chunks]),
        "blocks": blocks.count_blocks(home) if home else 0,
        "facts": facts.count_holding(home, at=clock.now()) if home else 0,
    }
