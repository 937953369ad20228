from __future__ import annotations

from typing import Any, Self

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import Field

from memoryhub.api.document.fields import Out, ThreadName, build_example
from memoryhub.api.document.schemas import AsOf
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.reading import GONE, get_agent_state
from memoryhub.errors import SeqUnknownError
from memoryhub.kernel.turns.procedures import CallFix, ToolProcedures
from memoryhub.queries.turns import procedures

router = StrictRouter(tags=["tools"])


class CallFixOut(Out):
    """Difference between a failed call and its fix; none at all: a retry."""

    delta: str = Field(description="As requests show it, cut.")
    added: dict[str, Any] = Field(description="Arguments.")
    removed: list[str] = Field(description="Names of arguments.")
    changed: dict[str, dict[str, Any]] = Field(description="`from` and `to`, by name.")
    failed: int = Field(description="Seq of the failed call.")
    fixed: int = Field(description="Seq of the call that succeeded.")

    @classmethod
    def from_fix(cls, fix: CallFix) -> Self:
        pairs = fix.changed.items()
        return cls(
            delta=fix.delta,
            added=dict(fix.added),
            removed=list(fix.removed),
            changed={name: {"from": old, "to": new} for name, (old, new) in pairs},
            failed=fix.failed,
            fixed=fix.fixed,
        )


class CallPatternOut(Out):
    count: int = Field(description="Calls.")
    contexts: list[str] = Field(description="The newest goals: texts of the user, cut.")
    seqs: list[int] = Field(description="Of the newest calls.")


class ErrorPatternOut(CallPatternOut):
    type: str = Field(description="First line of the error, numbers as 0.")
    fix: CallFixOut | None = Field(description="The usual one.")


class SuccessPatternOut(CallPatternOut):
    hints: dict[str, str] = Field(description="Arguments of the newest call, cut.")
    mean_ms: float | None = Field(description="Over timed calls.")


class ToolProceduresOut(Out):
    """At most ten patterns of each kind, the most frequent first."""

    tool: str = Field(description="Its name.")
    calls: int = Field(description="Of the newest 200.")
    failures: int = Field(description="Failures and timeouts among them.")
    mean_ms: float | None = Field(description="Over timed calls.")
    errors: list[ErrorPatternOut] = Field(description="Error patterns.")
    successes: list[SuccessPatternOut] = Field(description="By names of arguments.")

    @classmethod
    def from_procedures(cls, found: ToolProcedures) -> Self:
        return cls(
            tool=found.tool,
            calls=found.calls,
            failures=found.failures,
            mean_ms=found.mean_ms,
            errors=[
                ErrorPatternOut(
                    count=each.count,
                    contexts=list(each.contexts),
                    seqs=list(each.calls),
                    type=each.type,
                    fix=CallFixOut.from_fix(each.fix) if each.fix else None,
                )
                for each in found.errors
            ],
            successes=[
                SuccessPatternOut(
                    count=each.count,
                    contexts=list(each.contexts),
                    seqs=list(each.calls),
                    hints=dict(each.hints),
                    mean_ms=each.mean_ms,
                )
                for each in found.successes
            ],
        )


class ProceduresOut(Out):
    model_config = build_example({"items": []})

    items: list[ToolProceduresOut]


@router.route(
    "GET",
    "/threads/{thread}/procedures",
    needs=auth.READ,
    out=ProceduresOut,
    refusals=[*GONE, SeqUnknownError],
)
def list_procedures(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """List what recorded calls have taught: errors with fixes, and successes."""
    row, state = get_agent_state(auth.get_caller(request), thread, query)
    found = procedures.list_procedures(row, state)
    return render_answer(
        ProceduresOut(items=[ToolProceduresOut.from_procedures(e) for e in found])
    )
