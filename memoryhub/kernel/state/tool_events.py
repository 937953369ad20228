"""Event bodies of an agent's own tools. Pydantic, frozen, strict."""

from __future__ import annotations

from memoryhub.kernel.state.bodies import (
    Count,
    EventBody,
    Number,
    Size,
    Token,
)
from memoryhub.kernel.state.calls import (
    CallKind,
    CallOutcome,
    GuardReason,
    ValueType,
    Verdict,
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


class CallRecorded(EventBody):
    """A call of the agent's own tools has ended, or a guard blocked it. Payload: tool,
    arguments, result or error."""

    event_type = "call.recorded"
    sealed = True
    recurs = True

    turn: Count
    #: Keyed digests of the tool's name, and of name and arguments together.
    tool: Token
    digest: Token
    kind: CallKind
    outcome: CallOutcome
    value_type: ValueType | None = None
    #: Number of the binding of its result; None without one.
    binding: Count | None = None
    duration_ms: Number | None = None
    #: What a guard found before the call; None if no guard was asked.
    verdict: Verdict | None = None
    #: Of a block, or of the first warning.
    reason: GuardReason | None = None
    bytes: Size
