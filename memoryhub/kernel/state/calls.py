"""Recorded calls of an agent's own tools, the newest of a thread. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

CallKind = Literal["discovery", "math", "execution"]
CallOutcome = Literal["success", "failure", "partial", "timeout", "cancelled"]
ValueType = Literal["number", "boolean", "string", "json", "list", "object"]
Verdict = Literal["allow", "warn", "block", "repair"]
GuardReason = Literal[
    "ungrounded_args",
    "missing_refs",
    "budget_exhausted",
    "per_tool_limit",
    "missing_dependency",
    "runaway",
]

#: Most calls that a thread remembers; older ones stay in the journal.
MOST_CALLS = 1_000


class RecordedCall(NamedTuple):
    """A call; its name, arguments and result are the payload of its event."""

    clock: int
    turn: int
    #: Keyed digest of the tool's name, and of name and arguments together.
    tool: str
    digest: str
    kind: CallKind
    outcome: CallOutcome
    value_type: ValueType | None
    #: Number of its binding; 0 without one.
    binding: int
    bytes: int
    #: Clock of the user's newest message, which the call served; 0 without one.
    goal: int = 0
    duration_ms: int | None = None


CallLog: TypeAlias = tuple[RecordedCall, ...]


def list_since(calls: CallLog, clock: int) -> CallLog:
    """List the calls after a clock, oldest first."""
    return tuple(call for call in calls if call.clock > clock)


def remove_erased(calls: CallLog, gone: Callable[[int], bool]) -> CallLog:
    """Return the calls that were not erased."""
    return tuple(call for call in calls if not gone(call.clock))


def to_json(calls: CallLog) -> list[list[Any]]:
    """Return the canonical form: plain JSON values."""
    return [[*call] for call in calls]


def from_json(plain: Sequence[Sequence[Any]]) -> CallLog:
    """Build the calls from the result of `to_json`."""
    return tuple(RecordedCall(*row) for row in plain)
