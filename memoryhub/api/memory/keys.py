from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import AfterValidator, Field, model_validator

from memoryhub.api.document.fields import (
    MAX_BATCH,
    FieldRefusedError,
    In,
    Out,
    ThreadName,
    build_example,
)
from memoryhub.api.document.memory_fields import (
    ClearedOut,
    EmptyIn,
    ExistedOut,
    ExpiringIn,
    Glob,
    KeyName,
    check_one_expiry,
    parse_expected,
)
from memoryhub.api.document.samples import AT, PLACE, UNTIL
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import (
    CONDITIONAL,
    KEEPING,
    parse_idempotency,
    parse_if_match,
)
from memoryhub.api.http.reading import GONE, get_agent_thread, get_seq
from memoryhub.api.memory.checkpoints import CheckpointIn
from memoryhub.errors import (
    BadCursorError,
    CheckpointsFullError,
    ContentErasedError,
    KeyExistsError,
    KeyNotFoundError,
    KeysFullError,
    NameTakenError,
    ProjectFullError,
    SeqUnknownError,
    ValueTooLargeError,
)
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.memory.key_events import (
    KeyDeleted,
    KeyRetimed,
    KeysCleared,
    KeySet,
)
from memoryhub.kernel.memory.keys import DeleteKey, SetKey
from memoryhub.kernel.memory.memory_commands import Expected
from memoryhub.queries.memory import keys
from memoryhub.services.memory import keys as writing

VERSION = "Of the key, for If-Match: a seq; 0 or less of what a fork inherits."

_KEY = {
    "key": "seat",
    "seq": 41,
    "set_at": AT,
    "expires_at": UNTIL,
    "bytes": 64,
}
KEY_VALUE = {**_KEY, "value": {"letter": "A", "row": 12}, "erased": False}
_CHANGES = [
    {"op": "set", "key": "seat", "value": "12B", "if_match": 41},
    {"op": "delete", "key": "hold"},
]


class KeyIn(ExpiringIn):
    model_config = build_example(
        {"value": {"letter": "A", "row": 12}, "ttl_seconds": 3600}
    )

    value: Any = Field(description="Any JSON; null is a value.")

    _one = model_validator(mode="before")(check_one_expiry)


class RetimeIn(ExpiringIn):
    """Another expiry; one of the two fields must be sent."""

    model_config = build_example({"expires_at": UNTIL})

    _one = model_validator(mode="before")(check_one_expiry)

    @model_validator(mode="after")
    def one_of_them(self) -> Self:
        if not self.model_fields_set:
            says = "that or `expires_at` must be sent; null is never"
            raise FieldRefusedError("missing", allowed=says, loc=("ttl_seconds",))
        return self


class KeyChangeIn(ExpiringIn):
    """A set, which needs a `value`, or a delete, which takes none."""

    op: Literal["set", "delete"]
    key: KeyName
    value: Any = None
    if_match: int | None = Field(None, description=VERSION)
    if_none_match: Literal["*"] | None = None

    _one = model_validator(mode="before")(check_one_expiry)

    @model_validator(mode="after")
    def check_op_fields(self) -> Self:
        sent = self.model_fields_set
        if self.op == "set" and "value" not in sent:
            raise FieldRefusedError("missing", allowed="a set needs it", loc=("value",))
        for name in ("value", "ttl_seconds", "expires_at"):
            if self.op == "delete" and name in sent:
                says = "a delete takes none"
                raise FieldRefusedError("extra_field", allowed=says, loc=(name,))
        if self.if_match is not None and self.if_none_match is not None:
            says = "null beside `if_match`"
            raise FieldRefusedError("value", allowed=says, loc=("if_none_match",))
        return self


def _check_changes(items: list[KeyChangeIn]) -> list[KeyChangeIn]:
    if not 1 <= len(items) <= MAX_BATCH:
        raise FieldRefusedError("batch_size")
    seen: set[str] = set()
    for n, item in enumerate(items):
        if item.key in seen:
            raise FieldRefusedError("value", allowed="each key once", loc=(n, "key"))
        seen.add(item.key)
    return items


class KeyChangesIn(In):
    model_config = build_example({"items": _CHANGES})

    items: Annotated[
        list[KeyChangeIn],
        AfterValidator(_check_changes),
        Field(json_schema_extra={"minItems": 1, "maxItems": MAX_BATCH}),
    ]
    checkpoint: CheckpointIn | None = Field(None, description="To take of the result.")


class KeysQuery(AsOf, Pagination):
    glob: Glob = Field("*", description="`*`, `?`, `[abc]`, `[a-c]`, `[!a]`.")
    values: Literal["true", "false"] = "false"
    sort: Literal["name", "expiry", "bytes"] = "name"


class SetOut(Out):
    model_config = build_example(
        {**PLACE, "seq": 41, "key": "seat", "expires_at": UNTIL}
    )

    thread: str
    thread_id: UUID
    seq: int
    key: str
    expires_at: datetime | None


class KeyOut(Out):
    key: str = Field(validation_alias="name")
    seq: int = Field(description=VERSION, validation_alias="version")
    set_at: datetime
    expires_at: datetime | None
    bytes: int


class KeyValueOut(KeyOut):
    model_config = build_example(KEY_VALUE)

    value: Any
    erased: bool = Field(
        description="The value is gone for good, as of the past; it was not null."
    )


class KeysOut(Out):
    model_config = build_example({"items": [_KEY], "next": None})

    items: list[KeyValueOut | KeyOut]
    next: str | None


class ChangedOut(Out):
    key: str
    seq: int | None
    expires_at: datetime | None = None
    existed: bool | None = Field(None, description="Of a delete: whether it was there.")


class ChangesOut(Out):
    model_config = build_example(
        {
            **PLACE,
            "items": [
                {"key": "seat", "seq": 50, "expires_at": None, "existed": None},
                {"key": "hold", "seq": None, "expires_at": None, "existed": False},
            ],
            "checkpoint": None,
        }
    )

    thread: str
    thread_id: UUID
    items: list[ChangedOut]
    checkpoint: int | None = Field(description="Its seq.")


router = StrictRouter(tags=["keys"])

_SETS = (
    *KEEPING,
    KeyExistsError,
    KeysFullError,
    ProjectFullError,
    ValueTooLargeError,
)


@router.route(
    "PUT",
    "/threads/{thread}/keys/{key}",
    needs=auth.WRITE,
    out=SetOut,
    status=(200, 201),
    refusals=_SETS,
)
async def put(
    request: HttpRequest, thread: Path[ThreadName], key: Path[KeyName], body: KeyIn
) -> HttpResponse:
    """Set a key and its expiry. Makes the thread if the name is new.

    If-Match takes the `seq` that GET gave, If-None-Match: * only makes a new key.
    """
    command = writing.build_setting(
        key, body.value, body.build_expiry(), parse_expected(request)
    )
    receipt = await writing.change_keys(
        agent=auth.get_caller(request), thread=thread, changes=(command,)
    )
    event = receipt.get_event(KeySet)
    return _render_set(receipt, event, status=201 if event.created else 200)


@router.route(
    "GET",
    "/threads/{thread}/keys/{key}",
    needs=auth.READ,
    out=KeyValueOut,
    refusals=[*GONE, KeyNotFoundError, ContentErasedError, SeqUnknownError],
)
def get(
    request: HttpRequest,
    thread: Path[ThreadName],
    key: Path[KeyName],
    query: Query[AsOf],
) -> HttpResponse:
    """Read a key's value. An expired key is not found, swept or not.

    A past value may be erased: after its expiry and the project's grace period.
    """
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    line = keys.get_key(thread_row, key, seq=get_seq(thread_row, query))
    return render_answer(KeyValueOut.model_validate(line))


@router.route(
    "PATCH",
    "/threads/{thread}/keys/{key}",
    needs=auth.WRITE,
    out=SetOut,
    refusals=[*KEEPING, ContentErasedError, KeyExistsError, KeyNotFoundError],
)
async def retime(
    request: HttpRequest, thread: Path[ThreadName], key: Path[KeyName], body: RetimeIn
) -> HttpResponse:
    """Change only the expiry; the value is not sent again."""
    receipt = await writing.retime_key(
        agent=auth.get_caller(request),
        thread=thread,
        key=key,
        expiry=body.build_expiry(),
        expected=parse_expected(request),
    )
    events: list[KeyRetimed | KeySet] = [*receipt.list_events(KeyRetimed)]
    (event,) = events or receipt.list_events(KeySet)
    return _render_set(receipt, event, status=200)


@router.route(
    "DELETE",
    "/threads/{thread}/keys/{key}",
    needs=auth.WRITE,
    out=ExistedOut,
    refusals=[*CONDITIONAL, KeyExistsError],
)
async def delete(
    request: HttpRequest, thread: Path[ThreadName], key: Path[KeyName]
) -> HttpResponse:
    """Delete a key. History keeps its value, unless it had an expiry."""
    command = DeleteKey(key=key, expected=parse_expected(request))
    receipt = await writing.change_keys(
        agent=auth.get_caller(request), thread=thread, changes=(command,)
    )
    existed = bool(receipt.events)
    return render_answer(
        ExistedOut(existed=existed, seq=receipt.seq if existed else None)
    )


@router.route(
    "GET",
    "/threads/{thread}/keys",
    needs=auth.READ,
    out=KeysOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError],
)
def list_all(
    request: HttpRequest, thread: Path[ThreadName], query: Query[KeysQuery]
) -> HttpResponse:
    """List matching keys, with values if asked. All parts show one instant."""
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    values = query.values == "true"
    found = keys.list_keys(
        thread_row,
        glob=query.glob,
        sort=query.sort,
        values=values,
        seq=get_seq(thread_row, query),
        after=query.after,
        limit=query.limit,
    )
    shape = KeyValueOut if values else KeyOut
    items = [shape.model_validate(line) for line in found.items]
    return render_answer(KeysOut(items=items, next=found.next))


@router.route(
    "POST",
    "/threads/{thread}/keys:batch",
    needs=auth.WRITE,
    out=ChangesOut,
    refusals=[*_SETS, CheckpointsFullError, NameTakenError],
)
async def batch(
    request: HttpRequest, thread: Path[ThreadName], body: KeyChangesIn
) -> HttpResponse:
    """Set and delete up to 200 keys, all or nothing; a refusal names the item.

    Each may have a version of its own to compare; If-Match is the thread's head.
    """
    receipt = await writing.change_keys(
        agent=auth.get_caller(request),
        thread=thread,
        changes=_build_commands(body.items),
        checkpoint=body.checkpoint.build_command() if body.checkpoint else None,
        if_match=parse_if_match(request),
        request=parse_idempotency(request, body),
        numbered=True,
    )
    out = ChangesOut(
        thread=receipt.name,
        thread_id=receipt.thread,
        items=_build_changed(body.items, receipt),
        checkpoint=receipt.seq if body.checkpoint else None,
    )
    return render_answer(out, replayed=receipt.replayed)


@router.route(
    "POST",
    "/threads/{thread}/keys:clear",
    needs=auth.WRITE,
    out=ClearedOut,
    refusals=CONDITIONAL,
)
async def clear(
    request: HttpRequest, thread: Path[ThreadName], body: EmptyIn
) -> HttpResponse:
    """Remove all keys, nothing else. `cleared` counts those not yet expired."""
    receipt = await writing.clear_keys(
        agent=auth.get_caller(request),
        thread=thread,
        if_match=parse_if_match(request),
        request=parse_idempotency(request, body),
    )
    cleared = sum(event.count for event in receipt.list_events(KeysCleared))
    out = ClearedOut(cleared=cleared, seq=receipt.seq)
    return render_answer(out, replayed=receipt.replayed)


def _render_set(
    receipt: OrderReceipt, event: KeySet | KeyRetimed, *, status: int
) -> HttpResponse:
    """Render the result of a set or a change of expiry."""
    out = SetOut(
        thread=receipt.name,
        thread_id=receipt.thread,
        seq=receipt.seq,
        key=event.key,
        expires_at=event.expires_at,
    )
    return render_answer(out, status=status)


def _build_commands(items: list[KeyChangeIn]) -> tuple[SetKey | DeleteKey, ...]:
    """Build the commands; a refusal carries the index of its item."""
    changes = []
    for index, item in enumerate(items):
        try:
            changes.append(_build_command(item))
        except ValueTooLargeError as refusal:
            refusal.detail["index"] = index
            raise
    return tuple(changes)


def _build_command(item: KeyChangeIn) -> SetKey | DeleteKey:
    condition = Expected(version=item.if_match, absent=item.if_none_match is not None)
    if item.op == "delete":
        return DeleteKey(key=item.key, expected=condition)
    return writing.build_setting(item.key, item.value, item.build_expiry(), condition)


def _build_changed(items: list[KeyChangeIn], receipt: OrderReceipt) -> list[ChangedOut]:
    """Build the result of each item, in order; deleting a missing key has no event."""
    by_key = {
        each.event.key: (each.seq, each.event)
        for each in receipt.events
        if isinstance(each.event, KeySet | KeyDeleted)
    }
    found = []
    for item in items:
        seq, event = by_key.get(item.key, (None, None))
        until = event.expires_at if isinstance(event, KeySet) else None
        existed = None if item.op == "set" else event is not None
        found.append(
            ChangedOut(key=item.key, seq=seq, expires_at=until, existed=existed)
        )
    return found


# Reads are rendered in the reader's thread, which keeps the event loop free.
