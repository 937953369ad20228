"""Tools: definitions for the model, and answers to its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from memoryhub_client.answers import CallOutput, ModelMessage
from memoryhub_client.requests import (
    AsOfQuery,
    MatchCondition,
    Request,
    WriteConditions,
    ask,
    build_path,
    read,
    write,
)
from memoryhub_client.turns import Mode, Tool

Outcome = Literal["success", "failure", "partial", "timeout", "cancelled"]
Verdict = Literal["allow", "warn", "block", "repair"]
GuardReason = Literal[
    "ungrounded_args",
    "missing_refs",
    "budget_exhausted",
    "per_tool_limit",
    "missing_dependency",
    "runaway",
]


class CallEnding(WriteConditions, total=False):
    """Ending of a call: `result` or `error`, and the verdict before it."""

    result: Any
    error: str
    duration_ms: int
    #: Of the check before the call, with the reason of a block or warning.
    verdict: Verdict
    reason: GuardReason | None


class ToolForm(TypedDict, total=False):
    mode: Mode
    strict: bool
    search: bool


def call_tool(
    thread: str, call: Mapping[str, Any], **conditions: Unpack[WriteConditions]
) -> Request[ModelMessage | CallOutput]:
    """Execute a model's call; hand the answer back to the model unchanged.

    The answer is a message; for a call of Responses it is an item.
    """
    return write(
        "POST", build_path("threads", thread, "tool-calls"), conditions, body=call
    )


def list_tools(**query: Unpack[ToolForm]) -> Request:
    return read(build_path("tools"), query)


def get_own(thread: str, **query: Unpack[AsOfQuery]) -> Request:
    """List the agent's own tools."""
    return read(build_path("threads", thread, "tools"), query)


def set_own(
    thread: str, items: Sequence[Tool], **conditions: Unpack[MatchCondition]
) -> Request:
    """Set all own tools, in every request from now on; omitted ones are removed."""
    path = build_path("threads", thread, "tools")
    return write("PUT", path, conditions, body={"items": items})


def check(thread: str, name: str, arguments: Mapping[str, Any] | str) -> Request:
    """Check a call of an own tool before it runs; writes nothing.

    Run it with the answer's `arguments`, unless the verdict is `block`.
    """
    path = build_path("threads", thread, "tool-calls:check")
    return ask(path, {"name": name, "arguments": arguments})


def record(
    thread: str,
    name: str,
    arguments: Mapping[str, Any] | str,
    outcome: Outcome,
    **ending: Unpack[CallEnding],
) -> Request:
    """Record a call of an own tool, with the arguments as the model wrote them.

    A blocked call is recorded as `cancelled` with the verdict `block`: not counted.
    """
    path = build_path("threads", thread, "tool-calls:record")
    fields = {"name": name, "arguments": arguments, "outcome": outcome, **ending}
    return write("POST", path, fields)


def list_bindings(thread: str, **query: Unpack[AsOfQuery]) -> Request:
    """List what `$v1` and the like stand for."""
    return read(build_path("threads", thread, "bindings"), query)


def list_procedures(thread: str, **query: Unpack[AsOfQuery]) -> Request:
    """List what recorded calls have taught: errors with fixes, and successes."""
    return read(build_path("threads", thread, "procedures"), query)
