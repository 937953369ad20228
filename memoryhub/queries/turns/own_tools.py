"""An agent's own tools, as of a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from memoryhub.journal import texts
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread


class OwnToolSet(NamedTuple):
    """Tool definitions in the chat completions format, and the event with them."""

    definitions: Sequence[dict[str, Any]] = ()
    #: Seq in this thread or in the ancestor that set the tools; None without tools.
    seq: int | None = None
    tokens: int = 0


def get_own_tools(thread: Thread, state: ThreadState) -> OwnToolSet:
    """Return the thread's own tools. One query; `thread` comes with its subject."""
    own = state.paging.own_tools
    if own is None:
        return OwnToolSet()
    opened = texts.open_texts(thread, [own.place])
    if own.place not in opened:
        return OwnToolSet()
    return OwnToolSet(opened[own.place].content, own.place.seq, own.tokens)
