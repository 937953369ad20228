from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import AfterValidator, Field

from memoryhub.api.document.fields import (
    FieldRefusedError,
    In,
    Limit,
    Name,
    Out,
    ThreadName,
    build_example,
)
from memoryhub.api.document.memory_fields import (
    CheckpointName,
    CheckpointPath,
    CheckpointRef,
    ExistedOut,
    Remark,
    parse_checkpoint,
)
from memoryhub.api.document.samples import AT, UNTIL, build_measures
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import (
    CONDITIONAL,
    parse_idempotency,
    parse_if_match,
)
from memoryhub.api.http.reading import GONE, get_agent_thread, get_seq
from memoryhub.errors import (
    BadCursorError,
    CheckpointsFullError,
    CheckpointUnknownError,
    NameTakenError,
    PinBudgetError,
    ProjectFullError,
    SeqUnknownError,
    StaleError,
)
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.memory.checkpoint_events import (
    COUNTED,
    CheckpointRestored,
    CheckpointTaken,
)
from memoryhub.kernel.memory.checkpoints import TakeCheckpoint
from memoryhub.kernel.memory.nouns import (
    MOVED_FIELDS,
    RESTORABLE,
    RESTORED,
    build_moved_fields,
)
from memoryhub.kernel.text import strict_json
from memoryhub.queries.memory import checkpoints, comparisons
from memoryhub.queries.memory.checkpoints import CheckpointLine
from memoryhub.queries.memory.comparisons import HEAD, Comparison
from memoryhub.queries.memory.nouns import COMPARED
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import checkpoints as writing

if TYPE_CHECKING:
    RestoredPart = str
else:
    RestoredPart = Literal[RESTORABLE]

_CHECKPOINT_IN = {"name": "before-payment", "description": "The seat is held."}
CHECKPOINT = {
    **_CHECKPOINT_IN,
    "seq": 44,
    "at": AT,
    "auto": False,
    "parent": None,
    "keys": 2,
    **build_measures("checkpoint"),
    "touched": None,
}
_SIDE = {"seq": 41, "expires_at": UNTIL, "bytes": 64}
_COMPARISON = {
    "seq": 52,
    "keys": [
        {
            "key": "seat",
            "kind": "changed",
            "before": {**_SIDE, "value": None, "erased": False},
            "after": {
                "seq": 50,
                "expires_at": None,
                "bytes": 64,
                "value": None,
                "erased": False,
            },
        }
    ],
    "next": None,
    **{name: value for each in COMPARED for name, value in each.example.items()},
    "frames_in": ["slot-9"],
    "frames_out": ["slot-2"],
    "pins_in": [],
    "pins_out": [],
}


class CheckpointsQuery(AsOf, Pagination):
    name: Name | None = None
    auto: Literal["true", "false"] | None = None


class CompareQuery(AsOf, Pagination):
    a: CheckpointRef = Field(description="A checkpoint, or `head`.")
    b: CheckpointRef = Field("head", description="A checkpoint, or `head`.")
    values: Literal["true", "false"] = "false"
    limit: Limit = 200


class CheckpointIn(In):
    model_config = build_example(_CHECKPOINT_IN)

    name: CheckpointName | None = None
    description: Remark | None = None

    def build_command(self) -> TakeCheckpoint:
        stored = None
        if self.description is not None:
            stored = strict_json.dump_stored(self.description)
        return TakeCheckpoint(name=self.name, description=stored)


class CheckpointOut(Out):
    model_config = build_example(CHECKPOINT)

    seq: int
    name: str | None
    description: str | None
    at: datetime
    auto: bool
    parent: int | None
    __annotations__ |= COUNTED
    touched: int | None = Field(description="Names; null: any, since the beginning.")

    @classmethod
    def from_line(cls, line: CheckpointLine) -> CheckpointOut:
        return cls.from_record(line, **line.counts)


class CheckpointsOut(Out):
    model_config = build_example({"items": [CHECKPOINT], "next": None})

    items: list[CheckpointOut]
    next: str | None


def _check_parts(parts: list[RestoredPart]) -> list[RestoredPart]:
    if not parts or len(set(parts)) < len(parts):
        raise FieldRefusedError("value", allowed="at least one part, and each once")
    return parts


class RestoreIn(In):
    model_config = build_example({"parts": ["keys", "task"], "dry_run": False})

    parts: Annotated[list[RestoredPart], AfterValidator(_check_parts)] = list(RESTORED)
    dry_run: bool = Field(
        default=False, description="Only tell what would change; nothing is written."
    )


class SideOut(Out):
    """A key at one of the two moments."""

    seq: int = Field(validation_alias="version")
    expires_at: datetime | None
    bytes: int
    value: Any = Field(None, description="Null unless values were asked for.")
    erased: bool = Field(
        default=False, description="It was asked for, and is gone for good."
    )


class DifferenceOut(Out):
    key: str = Field(validation_alias="name")
    kind: Literal["added", "removed", "changed", "rewritten", "retimed"]
    before: SideOut | None
    after: SideOut | None


class CompareOut(Out):
    """Differences from `a` to `b`. Keys come in parts, the rest with each."""

    model_config = build_example(_COMPARISON)

    seq: int
    keys: list[DifferenceOut]
    next: str | None
    __annotations__ |= {n: kind for each in COMPARED for n, kind in each.fields.items()}
    frames_in: list[str]
    frames_out: list[str]
    pins_in: list[str]
    pins_out: list[str]

    @classmethod
    def from_comparison(cls, found: Comparison) -> CompareOut:
        keys = {"keys": found.keys.items, "next": found.keys.next}
        return cls.from_record(found, **keys, **found.slices)


class RestoredOut(Out):
    model_config = build_example(
        {
            "seq": 54,
            "parts": ["keys", "task"],
            "before": 53,
            "set": 1,
            "removed": 0,
            "expired": 0,
            **build_moved_fields({}),
            "left_out": [],
            "comparison": None,
        }
    )

    seq: int | None = Field(description="Null when nothing differs, and on a dry run.")
    parts: list[RestoredPart]
    before: int | None = Field(description="The checkpoint whose restore undoes this.")
    set: int
    removed: int
    expired: int
    __annotations__ |= dict.fromkeys(MOVED_FIELDS, int)
    left_out: list[str] = Field(
        description="Pages of the working set that are gone since, and stay away."
    )
    comparison: CompareOut | None = Field(
        None, description="Of a dry run: what differs from now to the checkpoint."
    )


router = StrictRouter(tags=["checkpoints"])


@router.route(
    "POST",
    "/threads/{thread}/checkpoints",
    needs=auth.WRITE,
    out=CheckpointOut,
    status=(201,),
    refusals=[*CONDITIONAL, CheckpointsFullError, NameTakenError, ProjectFullError],
)
async def take(
    request: HttpRequest, thread: Path[ThreadName], body: CheckpointIn
) -> HttpResponse:
    """Keep keys, task, notes and working set by reference.

    The cost does not depend on their size. Makes the thread if the name is new.
    """
    receipt = await writing.take_checkpoint(
        agent=auth.get_caller(request),
        thread=thread,
        command=body.build_command(),
        if_match=parse_if_match(request),
        request=parse_idempotency(request, body),
    )
    return await read(_render_taken, receipt, body)


@router.route(
    "GET",
    "/threads/{thread}/checkpoints",
    needs=auth.READ,
    out=CheckpointsOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError],
)
def list_all(
    request: HttpRequest, thread: Path[ThreadName], query: Query[CheckpointsQuery]
) -> HttpResponse:
    """List checkpoints, oldest first, without their contents."""
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    found = checkpoints.list_checkpoints(
        thread_row,
        name=query.name,
        auto=None if query.auto is None else query.auto == "true",
        seq=get_seq(thread_row, query),
        after=query.after,
        limit=query.limit,
    )
    items = [CheckpointOut.from_line(line) for line in found.items]
    return render_answer(CheckpointsOut(items=items, next=found.next))


@router.route(
    "GET",
    "/threads/{thread}/checkpoints:compare",
    needs=auth.READ,
    out=CompareOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError, CheckpointUnknownError],
)
def compare(
    request: HttpRequest, thread: Path[ThreadName], query: Query[CompareQuery]
) -> HttpResponse:
    """Compare two checkpoints, or one and `head`, from `a` to `b`."""
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    found = comparisons.compare(
        thread_row,
        query.a,
        query.b,
        values=query.values == "true",
        seq=get_seq(thread_row, query),
        after=query.after,
        limit=query.limit,
    )
    return render_answer(CompareOut.from_comparison(found))


@router.route(
    "POST",
    "/threads/{thread}/checkpoints/{checkpoint}:restore",
    needs=auth.WRITE,
    out=RestoredOut,
    refusals=[*CONDITIONAL, CheckpointUnknownError, PinBudgetError],
)
async def restore(
    request: HttpRequest,
    thread: Path[ThreadName],
    checkpoint: Path[CheckpointPath],
    body: RestoreIn,
) -> HttpResponse:
    """Restore the parts. `before` names the checkpoint that undoes it.

    Expired keys stay expired; all other checkpoints stay. If-Match takes the thread's
    head, as a preview saw it.
    """
    agent, target = auth.get_caller(request), parse_checkpoint(checkpoint)
    if body.dry_run:
        return await read(
            _preview_restore, agent, thread, target, body, parse_if_match(request)
        )
    receipt = await writing.restore_checkpoint(
        agent=agent,
        thread=thread,
        target=target,
        parts=tuple(body.parts),
        if_match=parse_if_match(request),
        request=parse_idempotency(request, body),
    )
    return await read(_render_restored, agent, thread, target, body, receipt)


@router.route(
    "GET",
    "/threads/{thread}/checkpoints/{checkpoint}",
    needs=auth.READ,
    out=CheckpointOut,
    refusals=[*GONE, SeqUnknownError, CheckpointUnknownError],
)
def get(
    request: HttpRequest,
    thread: Path[ThreadName],
    checkpoint: Path[CheckpointPath],
    query: Query[AsOf],
) -> HttpResponse:
    """Read a checkpoint, by its seq or name."""
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    line = checkpoints.get_checkpoint(
        thread_row, parse_checkpoint(checkpoint), seq=get_seq(thread_row, query)
    )
    return render_answer(CheckpointOut.from_line(line))


@router.route(
    "DELETE",
    "/threads/{thread}/checkpoints/{checkpoint}",
    needs=auth.WRITE,
    out=ExistedOut,
    refusals=CONDITIONAL,
)
async def delete(
    request: HttpRequest, thread: Path[ThreadName], checkpoint: Path[CheckpointPath]
) -> HttpResponse:
    """Delete only a checkpoint: other checkpoints and all values stay."""
    receipt = await writing.delete_checkpoint(
        agent=auth.get_caller(request),
        thread=thread,
        target=parse_checkpoint(checkpoint),
        if_match=parse_if_match(request),
    )
    existed = bool(receipt.events)
    return render_answer(
        ExistedOut(existed=existed, seq=receipt.seq if existed else None)
    )


# A checkpoint may be named `x:restore`; only a POST to that address restores.
_SO_NAMED = "/threads/{thread}/checkpoints/{checkpoint}:restore"


@router.route("GET", _SO_NAMED, needs=auth.READ, out=CheckpointOut, hidden=True)
def get_so_named(
    request: HttpRequest,
    thread: Path[ThreadName],
    checkpoint: Path[CheckpointPath],
    query: Query[AsOf],
) -> HttpResponse:
    return get(request, thread, f"{checkpoint}:restore", query)


@router.route("DELETE", _SO_NAMED, needs=auth.WRITE, out=ExistedOut, hidden=True)
async def delete_so_named(
    request: HttpRequest, thread: Path[ThreadName], checkpoint: Path[CheckpointPath]
) -> HttpResponse:
    return await delete(request, thread, f"{checkpoint}:restore")


def _render_taken(receipt: OrderReceipt, body: CheckpointIn) -> HttpResponse:
    (each,) = (e for e in receipt.events if isinstance(e.event, CheckpointTaken))
    event = receipt.get_event(CheckpointTaken)
    out = CheckpointOut.from_record(
        event,
        seq=each.seq,
        at=each.at,
        description=body.description,
        parent=checkpoints.to_number(receipt, event.parent),
        **event.counts,
    )
    return render_answer(out, status=201, replayed=receipt.replayed)


def _render_restored(
    agent: Agent, name: str, target: int | str, body: RestoreIn, receipt: OrderReceipt
) -> HttpResponse:
    restored = receipt.list_events(CheckpointRestored)
    event = restored[0] if restored else None
    expired = event.expired if event else _count_expired(agent, name, target, body)
    out = RestoredOut(
        seq=receipt.seq if event else None,
        parts=body.parts,
        before=checkpoints.to_number(receipt, event.before if event else None),
        set=event.set if event else 0,
        removed=event.removed if event else 0,
        expired=expired,
        **(event.moved if event else build_moved_fields({})),
        left_out=event.left_out if event else [],
    )
    return render_answer(out, replayed=receipt.replayed)


def _count_expired(agent: Agent, name: str, target: int | str, body: RestoreIn) -> int:
    """Count keys that stay expired, as a preview does, if nothing was restored."""
    if "keys" not in body.parts:
        return 0
    try:
        found, _ = comparisons.preview_restore(
            get_agent_thread(agent, name), target, ["keys"]
        )
    except CheckpointUnknownError:
        # A replayed answer, and the checkpoint was deleted since.
        return 0
    return found.expired


def _preview_restore(
    agent: Agent, name: str, target: int | str, body: RestoreIn, seen: int | None
) -> HttpResponse:
    thread = get_agent_thread(agent, name)
    if seen not in (None, thread.head_seq):
        raise StaleError(head_seq=thread.head_seq)
    found, left_out = comparisons.preview_restore(thread, target, body.parts)
    compared = comparisons.compare(thread, HEAD, target)
    out = RestoredOut.from_record(
        found,
        seq=None,
        parts=body.parts,
        before=None,
        **build_moved_fields(found.slices),
        left_out=left_out,
        comparison=CompareOut.from_comparison(compared),
    )
    return render_answer(out)
