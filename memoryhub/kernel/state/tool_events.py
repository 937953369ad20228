"""Event bodies of an agent's own tools. Pydantic, frozen, strict."""

from __future__ import annotations

from memoryhub.kernel.state.bodies import (
    Count,
    Size,
    Token,
)
from memoryhub.kernel.state.page_events import PageEvent


class ToolsSet(PageEvent):
    """An agent's own tools. Payload: their definitions."""

    event_type = "tools.set"
    sealed = True
    resent = True

    #: Keyed; of the definitions.
    digest: Token
    #: How many; none when there are to be none.
    tools: Count
    tokens: Count
    bytes: Size
