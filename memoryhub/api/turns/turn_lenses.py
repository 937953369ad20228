from __future__ import annotations

from typing import Annotated, Self
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import BeforeValidator, Field, WithJsonSchema

from memoryhub.api.document.fields import (
    In,
    Out,
    ThreadName,
    build_example,
    build_integer_reader,
    build_range_schema,
)
from memoryhub.api.document.samples import THREAD_ID, THREAD_NAME
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.reading import GONE, get_agent_thread
from memoryhub.errors import NotFoundError, NotRecordedError
from memoryhub.kernel.turns.turn_diffs import ChangeKind
from memoryhub.queries.turns import prefixes, turn_diffs
from memoryhub.queries.turns.prefixes import PrefixCause, PrefixLens
from memoryhub.queries.turns.turn_diffs import TurnDiff

router = StrictRouter(tags=["turns"])

MAX_BLOCK = 4_096
_REFUSALS = (*GONE, NotRecordedError)

Base = Annotated[
    int,
    BeforeValidator(build_integer_reader("value", low=1)),
    WithJsonSchema({"type": "integer", "minimum": 1}),
]
Block = Annotated[
    int,
    BeforeValidator(build_integer_reader("value", low=1, high=MAX_BLOCK)),
    build_range_schema(1, MAX_BLOCK),
]


_REASON = {
    "thread_id": THREAD_ID,
    "seq": 14,
    "event": "page.created",
    "cause": "command",
    "by": "tool",
}


class DiffQuery(In):
    base: Base | None = Field(None, description="An earlier turn; else the one before.")


class PrefixQuery(In):
    block: Block = Field(1, description="Tokens that a provider keeps at once.")


class ReasonOut(Out):
    """The causing event."""

    thread_id: UUID = Field(validation_alias="thread")
    seq: int
    event: str = Field(validation_alias="type")
    cause: str
    by: str


class ChangeOut(Out):
    page_id: str
    kind: ChangeKind
    type: str
    level_before: int | None
    level_after: int | None
    version_before: int | None
    version_after: int | None
    tokens_before: int
    tokens_after: int
    moved: bool = Field(description="It came back at another place of the context.")
    reason: ReasonOut | None


class DiffOut(Out):
    """Every page shown by either request, and its change."""

    model_config = build_example(
        {
            "thread": THREAD_NAME,
            "base": 2,
            "turn": 3,
            "counts": {"entered": 1, "unchanged": 4},
            "tokens_delta": 24,
            "request_tokens_delta": 24,
            "changes": [
                {
                    "page_id": "fare-rules",
                    "kind": "entered",
                    "type": "artifact",
                    "level_before": None,
                    "level_after": 0,
                    "version_before": None,
                    "version_after": 1,
                    "tokens_before": 0,
                    "tokens_after": 24,
                    "moved": False,
                    "reason": _REASON,
                }
            ],
        }
    )

    thread: str
    base: int
    turn: int
    counts: dict[ChangeKind, int]
    tokens_delta: int
    request_tokens_delta: int
    changes: list[ChangeOut]

    @classmethod
    def from_diff(cls, name: str, found: TurnDiff) -> Self:
        return cls.from_record(
            found,
            thread=name,
            base=found.base.turn,
            turn=found.now.turn,
            tokens_delta=found.delta,
            request_tokens_delta=found.request_delta,
        )


class PrefixOut(Out):
    """Common prefix of a request with the one before, and its break."""

    model_config = build_example(
        {
            "thread": THREAD_NAME,
            "turn": 3,
            "tokens": 131,
            "bytes": 612,
            "prefix_tokens": 90,
            "prefix_bytes": 400,
            "share": 0.687,
            "section": "history",
            "place": 4,
            "page_id": "fare-rules",
            "cause": "entered",
            "reason": _REASON,
            "costs": {"small": 0.00003},
        }
    )

    thread: str
    turn: int
    tokens: int
    bytes: int
    prefix_tokens: int | None
    prefix_bytes: int | None
    share: float | None
    section: str
    place: int
    page_id: str | None
    cause: PrefixCause
    reason: ReasonOut | None
    costs: dict[str, float] = Field(description="By row of the price table.")

    @classmethod
    def from_lens(cls, name: str, lens: PrefixLens) -> Self:
        return cls.from_record(
            lens,
            thread=name,
            costs={cost.name: cost.amount for cost in lens.costs},
        )


@router.route(
    "GET",
    "/threads/{thread}/turns/{int:turn}/diff",
    needs=auth.READ,
    out=DiffOut,
    refusals=_REFUSALS,
)
def get_diff(
    request: HttpRequest,
    thread: Path[ThreadName],
    turn: Path[int],
    query: Query[DiffQuery],
) -> HttpResponse:
    """Compare the pages of two turns, with the event behind each change."""
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    if turn > thread_row.turn_count:
        raise NotFoundError
    base = turn - 1 if query.base is None else query.base
    if turn == 1 and query.base is None:
        raise NotRecordedError
    found = turn_diffs.get_diff(thread_row, turn, base=base)
    return render_answer(DiffOut.from_diff(thread, found))


@router.route(
    "GET",
    "/threads/{thread}/turns/{int:turn}/prefix",
    needs=auth.READ,
    out=PrefixOut,
    refusals=_REFUSALS,
)
def get_prefix(
    request: HttpRequest,
    thread: Path[ThreadName],
    turn: Path[int],
    query: Query[PrefixQuery],
) -> HttpResponse:
    """Measure how much of the previous request a provider could reuse."""
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    lens = prefixes.get_lens(thread_row, turn, block=query.block)
    return render_answer(PrefixOut.from_lens(thread, lens))


# Reads are rendered in the reader's thread, which keeps the event loop free.
