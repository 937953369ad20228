from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import Field

from memoryhub.api.document.fields import In, Out, ThreadName, build_example
from memoryhub.api.document.samples import AT, PLACE
from memoryhub.api.document.schemas import Pagination
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.reading import GONE, require_unrestricted
from memoryhub.errors import (
    BadCursorError,
    HomeThreadError,
    SubjectRestrictedError,
    ValueErasedError,
)
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.state.turn_marks import MarkWord
from memoryhub.queries.turns import marks
from memoryhub.services.turns import marks as writing
from memoryhub.services.turns.marks import MAX_COMMENT_CHARS

router = StrictRouter(tags=["turns"])
_MARK = {"mark": "wrong", "comment": "The fare is refundable."}


class MarkIn(In):
    model_config = build_example(_MARK)

    mark: MarkWord = Field(description="Of the answer.")
    comment: str | None = Field(None, max_length=MAX_COMMENT_CHARS, description="Why.")


class MarkedOut(Out):
    model_config = build_example({**PLACE, "seq": 18, "turn": 3, "mark": "wrong"})

    thread: str
    thread_id: UUID
    seq: int
    turn: int
    mark: MarkWord | None = Field(description="Null: removed.")


class MarkedTurnOut(Out):
    thread: str
    thread_id: UUID
    turn: int
    mark: MarkWord = Field(description="Of the answer.")
    comment: str | None = Field(description="Why.")
    at: datetime
    actor: str = Field(validation_alias="by")


class MarkedTurnsOut(Out):
    model_config = build_example(
        {
            "items": [
                {**PLACE, "turn": 3, **_MARK, "at": AT, "actor": "agent:Zk3fW0aB"}
            ],
            "next": None,
        }
    )

    items: list[MarkedTurnOut]
    next: str | None


class MarkedTurnsQuery(Pagination):
    mark: MarkWord | None = Field(None, description="Only these.")


@router.route(
    "PUT",
    "/threads/{thread}/turns/{int:turn}/mark",
    needs=auth.WRITE,
    out=MarkedOut,
    refusals=[*GONE, HomeThreadError, ValueErasedError],
)
async def mark(
    request: HttpRequest, thread: Path[ThreadName], turn: Path[int], body: MarkIn
) -> HttpResponse:
    """Mark a turn's answer. The newest mark counts."""
    receipt = await writing.submit_mark(
        agent=auth.get_caller(request),
        thread=thread,
        turn=turn,
        mark=body.mark,
        comment=body.comment,
    )
    return _render_marked(receipt, turn, body.mark)


@router.route(
    "DELETE",
    "/threads/{thread}/turns/{int:turn}/mark",
    needs=auth.WRITE,
    out=MarkedOut,
    refusals=[*GONE, HomeThreadError],
)
async def unmark(
    request: HttpRequest, thread: Path[ThreadName], turn: Path[int]
) -> HttpResponse:
    """Remove a turn's mark."""
    receipt = await writing.submit_mark(
        agent=auth.get_caller(request), thread=thread, turn=turn, mark=None
    )
    return _render_marked(receipt, turn, None)


@router.route(
    "GET",
    "/turns:marked",
    needs=auth.READ,
    out=MarkedTurnsOut,
    refusals=[BadCursorError, SubjectRestrictedError],
)
def list_marked(request: HttpRequest, query: Query[MarkedTurnsQuery]) -> HttpResponse:
    """List marked turns of all threads, newest mark first."""
    agent = auth.get_caller(request)
    require_unrestricted(agent)
    found = marks.list_marked_turns(
        agent.project,
        mark=query.mark,
        bound=agent.bound,
        after=query.after,
        limit=query.limit,
    )
    items = [
        MarkedTurnOut.from_record(
            line,
            thread=agent.get_thread_name(line.thread.name),
            thread_id=line.thread.id,
            actor=line.by,
        )
        for line in found.items
    ]
    return render_answer(MarkedTurnsOut(items=items, next=found.next))


def _render_marked(
    receipt: OrderReceipt, turn: int, word: MarkWord | None
) -> HttpResponse:
    out = MarkedOut(
        thread=receipt.name,
        thread_id=receipt.thread,
        seq=receipt.seq,
        turn=turn,
        mark=word,
    )
    return render_answer(out, replayed=receipt.replayed)
