"""Event bodies of an agent's own tools. Pydantic, frozen, strict."""

from __future__ import annotations

from memoryhub.kernel.state.bodies import (
    Count,
    Size,
    Token,
)
from memoryhub.kernel.state.page_events import PageEvent


class ToolsSet(PageEvent):
    """An agent set its own tools. Payload: the definitions of the tools."""

    event_type = "tools.set"
    sealed = True
    resent = True

    #: Keyed digest of the definitions.
    digest: Token
    #: Number of tools; 0 if the agent has none from here on.
    tools: Count
    tokens: Count
    bytes: Size
