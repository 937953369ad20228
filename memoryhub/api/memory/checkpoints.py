from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query

from memoryhub.api.document.fields import ThreadName
from memoryhub.api.document.memory_fields import CheckpointPath, named_checkpoint
from memoryhub.api.document.schemas import AsOf
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.preconditions import CONDITIONAL, idempotency, if_match
from memoryhub.api.http.reading import GONE, find_thread, seq_of
from memoryhub.api.memory.checkpoint_schemas import (
    CheckpointIn,
    CheckpointOut,
    CheckpointsOut,
    CheckpointsQuery,
    CompareOut,
    CompareQuery,
    RestoredOut,
    RestoreIn,
)
from memoryhub.api.memory.memory_schemas import ExistedOut
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
from memoryhub.journal import Receipt
from memoryhub.kernel.memory.checkpoint_events import (
    CheckpointRestored,
    CheckpointTaken,
)
from memoryhub.kernel.memory.checkpoints import TakeCheckpoint
from memoryhub.kernel.memory.nouns import moved
from memoryhub.kernel.text import strict_json
from memoryhub.queries.memory import checkpoints, comparisons
from memoryhub.queries.memory.comparisons import HEAD
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import checkpoints as writing

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
    """Keep keys, task, notes and working set as they are, by reference.

    Costs the same whatever there is. Makes the thread if the name is new.
    """
    description = body.description
    receipt = await writing.take(
        agent=auth.caller(request),
        thread=thread,
        command=TakeCheckpoint(
            name=body.name,
            description=None
            if description is None
            else strict_json.as_sent(description),
        ),
        if_match=if_match(request),
        request=idempotency(request, body),
    )
    return await read(_taken, receipt, body)


@router.route(
    "GET",
    "/threads/{thread}/checkpoints",
    needs=auth.READ,
    out=CheckpointsOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError],
)
async def list_all(
    request: HttpRequest, thread: Path[ThreadName], query: Query[CheckpointsQuery]
) -> HttpResponse:
    """Checkpoints, oldest first. Reads nothing of what they hold."""
    return await read(_list, auth.caller(request), thread, query)


@router.route(
    "GET",
    "/threads/{thread}/checkpoints:compare",
    needs=auth.READ,
    out=CompareOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError, CheckpointUnknownError],
)
async def compare(
    request: HttpRequest, thread: Path[ThreadName], query: Query[CompareQuery]
) -> HttpResponse:
    """What differs between two checkpoints, or one and `head`, from `a` to `b`."""
    return await read(_compare, auth.caller(request), thread, query)


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
    """Make the parts what they were. `before` names the checkpoint that undoes it.

    Keys whose instant has passed stay expired; all other checkpoints stay. If-Match
    takes the thread's head, as a preview saw it.
    """
    agent, target = auth.caller(request), named_checkpoint(checkpoint)
    if body.dry_run:
        return await read(_preview, agent, thread, target, body, if_match(request))
    receipt = await writing.restore(
        agent=agent,
        thread=thread,
        target=target,
        parts=tuple(body.parts),
        if_match=if_match(request),
        request=idempotency(request, body),
    )
    return await read(_restored, agent, thread, target, body, receipt)


@router.route(
    "GET",
    "/threads/{thread}/checkpoints/{checkpoint}",
    needs=auth.READ,
    out=CheckpointOut,
    refusals=[*GONE, SeqUnknownError, CheckpointUnknownError],
)
async def get(
    request: HttpRequest,
    thread: Path[ThreadName],
    checkpoint: Path[CheckpointPath],
    query: Query[AsOf],
) -> HttpResponse:
    """One checkpoint, by its seq or name."""
    return await read(_get, auth.caller(request), thread, checkpoint, query)


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
    """Delete a checkpoint and nothing else: other checkpoints and all values stay."""
    receipt = await writing.delete(
        agent=auth.caller(request),
        thread=thread,
        target=named_checkpoint(checkpoint),
        if_match=if_match(request),
    )
    existed = bool(receipt.events)
    return rendered(ExistedOut(existed=existed, seq=receipt.seq if existed else None))


# A checkpoint may be called `x:restore`; only a POST to that address is the action.
_SO_NAMED = "/threads/{thread}/checkpoints/{checkpoint}:restore"


@router.route("GET", _SO_NAMED, needs=auth.READ, out=CheckpointOut, hidden=True)
async def get_so_named(
    request: HttpRequest,
    thread: Path[ThreadName],
    checkpoint: Path[CheckpointPath],
    query: Query[AsOf],
) -> HttpResponse:
    return await get(request, thread, f"{checkpoint}:restore", query)


@router.route("DELETE", _SO_NAMED, needs=auth.WRITE, out=ExistedOut, hidden=True)
async def delete_so_named(
    request: HttpRequest, thread: Path[ThreadName], checkpoint: Path[CheckpointPath]
) -> HttpResponse:
    return await delete(request, thread, f"{checkpoint}:restore")


def _taken(receipt: Receipt, body: CheckpointIn) -> HttpResponse:
    (each,) = (e for e in receipt.events if isinstance(e.event, CheckpointTaken))
    event = receipt.one(CheckpointTaken)
    out = CheckpointOut.from_record(
        event,
        seq=each.seq,
        at=each.at,
        description=body.description,
        parent=checkpoints.number_of(receipt, event.parent),
        **event.counts,
    )
    return rendered(out, status=201, replayed=receipt.replayed)


def _restored(
    agent: Agent, name: str, target: int | str, body: RestoreIn, receipt: Receipt
) -> HttpResponse:
    restored = receipt.all(CheckpointRestored)
    event = restored[0] if restored else None
    expired = event.expired if event else _expired(agent, name, target, body)
    out = RestoredOut(
        seq=receipt.seq if event else None,
        parts=body.parts,
        before=checkpoints.number_of(receipt, event.before if event else None),
        set=event.set if event else 0,
        removed=event.removed if event else 0,
        expired=expired,
        **(event.moved if event else moved({})),
        left_out=event.left_out if event else [],
    )
    return rendered(out, replayed=receipt.replayed)


def _list(agent: Agent, name: str, query: CheckpointsQuery) -> HttpResponse:
    thread = find_thread(agent, name)
    found = checkpoints.list_checkpoints(
        thread,
        name=query.name,
        auto=None if query.auto is None else query.auto == "true",
        seq=seq_of(thread, query),
        after=query.after,
        limit=query.limit,
    )
    items = [CheckpointOut.of(line) for line in found.items]
    return rendered(CheckpointsOut(items=items, next=found.next))


def _get(agent: Agent, name: str, target: str, query: AsOf) -> HttpResponse:
    thread = find_thread(agent, name)
    line = checkpoints.get_checkpoint(
        thread, named_checkpoint(target), seq=seq_of(thread, query)
    )
    return rendered(CheckpointOut.of(line))


def _compare(agent: Agent, name: str, query: CompareQuery) -> HttpResponse:
    thread = find_thread(agent, name)
    found = comparisons.compare(
        thread,
        query.a,
        query.b,
        values=query.values == "true",
        seq=seq_of(thread, query),
        after=query.after,
        limit=query.limit,
    )
    return rendered(CompareOut.of(found))


def _expired(agent: Agent, name: str, target: int | str, body: RestoreIn) -> int:
    """Keys that stay expired where nothing was restored, as a preview counts them."""
    if "keys" not in body.parts:
        return 0
    try:
        found, _ = comparisons.preview(find_thread(agent, name), target, ["keys"])
    except CheckpointUnknownError:
        # It is answered again, and the checkpoint is gone since.
        return 0
    return found.expired


def _preview(
    agent: Agent, name: str, target: int | str, body: RestoreIn, seen: int | None
) -> HttpResponse:
    thread = find_thread(agent, name)
    if seen not in (None, thread.head_seq):
        raise StaleError(head_seq=thread.head_seq)
    found, left_out = comparisons.preview(thread, target, body.parts)
    compared = comparisons.compare(thread, HEAD, target)
    out = RestoredOut.from_record(
        found,
        seq=None,
        parts=body.parts,
        before=None,
        **moved(found.slices),
        left_out=left_out,
        comparison=CompareOut.of(compared),
    )
    return rendered(out)
