"""An agent's own tools, as of a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from memoryhub.journal.writing import texts
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread


class Own(NamedTuple):
    """Definitions as chat completions take them, and the event that has them."""

    definitions: Sequence[dict[str, Any]] = ()
    #: Of this thread or of the ancestor that set them; None without any.
    seq: int | None = None
    tokens: int = 0


def of(thread: Thread, state: ThreadState) -> Own:
    """Return the thread's own tools. One query; `thread` comes with its subject."""
    own = state.paging.own_tools
    if own is None:
        return Own()
    opened = texts.opened(thread, [own.place])
    if own.place not in opened:
        return Own()
    return Own(opened[own.place].content, own.place.seq, own.tokens)
