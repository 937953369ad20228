from __future__ import annotations

from typing import Annotated, Any, Self

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from memoryhub.api.document.fields import (
    FieldRefusedError,
    In,
    Out,
    Text,
    ThreadName,
    build_example,
    build_range_check,
    build_range_schema,
)
from memoryhub.api.document.schemas import AsOf
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import (
    CONDITIONAL,
    parse_idempotency,
    parse_if_match,
)
from memoryhub.api.http.reading import GONE, get_agent_state
from memoryhub.errors import ProjectFullError, SeqUnknownError, ValueTooLargeError
from memoryhub.kernel.guards.calls import normalize_name
from memoryhub.kernel.guards.checks import NextStep
from memoryhub.kernel.state.calls import CallOutcome, GuardReason, ValueType, Verdict
from memoryhub.kernel.state.tool_events import CallRecorded
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.strict_json import CONTENT, JsonRefusedError
from memoryhub.kernel.turns.calls import RecordCall
from memoryhub.queries.turns import guards
from memoryhub.services.turns import procedures

router = StrictRouter(tags=["tools"])

_LONGEST_NAME = 256
_MOST_MS = 10_000_000
_CALL = {"name": "fare_of", "arguments": {"seats": 2}}


def _check_tool_name(name: str) -> str:
    if not (normalize_name(name) and len(name) <= _LONGEST_NAME):
        says = f"1 to {_LONGEST_NAME} characters, the last no dot"
        raise FieldRefusedError("value", allowed=says)
    return name


def _parse_arguments(sent: Any) -> Any:
    """Parse arguments, an object or its JSON text."""
    if isinstance(sent, str):
        try:
            sent = strict_json.parse(sent.encode(), CONTENT)
        except JsonRefusedError:
            sent = None
    if not isinstance(sent, dict):
        raise FieldRefusedError("value", allowed="an object, or its JSON text")
    return sent


ToolName = Annotated[
    str,
    AfterValidator(_check_tool_name),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": _LONGEST_NAME}),
]
Arguments = Annotated[
    Any, AfterValidator(_parse_arguments), Field(description="An object, or JSON text.")
]
Milliseconds = Annotated[
    int, build_range_check(0, _MOST_MS), build_range_schema(0, _MOST_MS)
]


class CheckIn(In):
    model_config = build_example(_CALL)

    name: ToolName
    arguments: Arguments


class GuardFindingOut(Out):
    reason: GuardReason
    next_step: NextStep


class CachedOut(Out):
    """Result of an equal call of this turn."""

    seq: int
    result: Any


class CheckOut(Out):
    model_config = build_example(
        {
            "verdict": "warn",
            "reason": None,
            "next_step": None,
            "warnings": [{"reason": "ungrounded_args", "next_step": "compute_missing"}],
            "arguments": {"seats": 2},
            "repaired": {},
            "cached": None,
        }
    )

    verdict: Verdict
    reason: GuardReason | None = Field(description="Of a block.")
    next_step: NextStep | None
    warnings: list[GuardFindingOut]
    arguments: Any = Field(description="To run with: references are replaced.")
    repaired: dict[str, str] = Field(
        description="References equal to numbers, by JSON pointer."
    )
    cached: CachedOut | None


class RecordIn(In):
    """`result` or `error`, not both."""

    model_config = build_example({**_CALL, "outcome": "success", "result": 318.5})

    name: ToolName
    arguments: Arguments
    outcome: CallOutcome
    result: Any = None
    error: Text | None = None
    duration_ms: Milliseconds | None = None
    verdict: Verdict | None = Field(None, description="Of the check.")
    reason: GuardReason | None = Field(None, description="Of a block or warning.")

    @model_validator(mode="after")
    def check_one_ending(self) -> Self:
        if self.error is not None and "result" in self.model_fields_set:
            says = "null beside `result`"
            raise FieldRefusedError("value", allowed=says, loc=("error",))
        if self.verdict == "block" and self.outcome != "cancelled":
            says = "`cancelled` beside `block`"
            raise FieldRefusedError("value", allowed=says, loc=("outcome",))
        return self


class RecordOut(Out):
    model_config = build_example({"seq": 44, "binding": "v1"})

    seq: int
    binding: str | None = Field(description="Id of the result.")


class BindingOut(Out):
    id: str
    seq: int | None = Field(description="Of the call; null: named by the assistant.")
    tool: str | None
    value_type: ValueType
    value: str = Field(description="Cut.")
    aliases: list[str]
    used_in: list[int] = Field(description="Seqs of calls that name it.")


class BindingsOut(Out):
    model_config = build_example(
        {
            "items": [
                {
                    "id": "v1",
                    "seq": 44,
                    "tool": "fare_of",
                    "value_type": "number",
                    "value": "318.5",
                    "aliases": ["fare"],
                    "used_in": [46],
                }
            ]
        }
    )

    items: list[BindingOut]


@router.route(
    "POST",
    "/threads/{thread}/tool-calls:check",
    needs=auth.READ,
    out=CheckOut,
    refusals=[*GONE, ValueTooLargeError],
)
def check(
    request: HttpRequest, thread: Path[ThreadName], body: CheckIn
) -> HttpResponse:
    """Check a call of the agent's own tools, by the thread's `guard`.

    Writes nothing. `$v1` stands for the first result since the user's last message.
    """
    row, state = get_agent_state(auth.get_caller(request), thread, AsOf())
    found, cached = guards.check_call(row, state, body.name, body.arguments)
    return render_answer(
        CheckOut.from_record(
            found,
            reason=found.block and found.block.reason,
            next_step=found.block and found.block.next_step,
            warnings=[GuardFindingOut.model_validate(e) for e in found.warnings],
            cached=cached and CachedOut.model_validate(cached),
        )
    )


@router.route(
    "POST",
    "/threads/{thread}/tool-calls:record",
    needs=auth.WRITE,
    out=RecordOut,
    status=(201,),
    refusals=[*CONDITIONAL, ProjectFullError],
)
async def record(
    request: HttpRequest, thread: Path[ThreadName], body: RecordIn
) -> HttpResponse:
    """Record a call of the agent's own tools that has ended. Its result is bound.

    A blocked call is `cancelled`, and is not counted.
    """
    command = RecordCall(
        tool=body.name,
        arguments=body.arguments,
        outcome=body.outcome,
        has_result="result" in body.model_fields_set,
        result=body.result,
        error=body.error,
        duration_ms=body.duration_ms,
        verdict=body.verdict,
        reason=body.reason,
    )
    receipt = await procedures.record_call(
        agent=auth.get_caller(request),
        thread=thread,
        command=command,
        if_match=parse_if_match(request),
        request=parse_idempotency(request, body),
    )
    # A page of what the calls taught may stand behind the call.
    seq, event = next(
        (each.seq, each.event)
        for each in receipt.events
        if isinstance(each.event, CallRecorded)
    )
    out = RecordOut(seq=seq, binding=f"v{event.binding}" if event.binding else None)
    return render_answer(out, status=201, replayed=receipt.replayed)


@router.route(
    "GET",
    "/threads/{thread}/bindings",
    needs=auth.READ,
    out=BindingsOut,
    refusals=[*GONE, SeqUnknownError, ValueTooLargeError],
)
def list_bindings(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """List what `$v1` and the like stand for, now or as of an event."""
    row, state = get_agent_state(auth.get_caller(request), thread, query)
    found = guards.list_bindings(row, state)
    return render_answer(
        BindingsOut(items=[BindingOut.model_validate(each) for each in found])
    )
