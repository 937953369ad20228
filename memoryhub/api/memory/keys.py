from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import AfterValidator, Field, model_validator

from memoryhub.api.document.fields import (
    MAX_BATCH,
    In,
    Out,
    RefusedError,
    ThreadName,
    example,
)
from memoryhub.api.document.memory_fields import (
    ClearedOut,
    EmptyIn,
    ExistedOut,
    ExpiringIn,
    Glob,
    KeyName,
    expected,
    one_expiry,
)
from memoryhub.api.document.samples import AT, PLACE, UNTIL
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.preconditions import CONDITIONAL, KEEPING, idempotency, if_match
from memoryhub.api.http.reading import GONE, find_thread, seq_of
from memoryhub.errors import (
    BadCursorError,
    ContentErasedError,
    KeyExistsError,
    KeyNotFoundError,
    KeysFullError,
    ProjectFullError,
    SeqUnknownError,
    ValueTooLargeError,
)
from memoryhub.journal import Receipt
from memoryhub.kernel.memory.key_events import (
    KeyDeleted,
    KeyRetimed,
    KeysCleared,
    KeySet,
)
from memoryhub.kernel.memory.keys import DeleteKey, SetKey
from memoryhub.kernel.memory.memory_commands import Expected
from memoryhub.queries.memory import keys
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
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
    model_config = example({"value": {"letter": "A", "row": 12}, "ttl_seconds": 3600})

    value: Any = Field(description="Any JSON; null is a value.")

    _one = model_validator(mode="before")(one_expiry)


class RetimeIn(ExpiringIn):
    """Another expiry. One of the two must be sent."""

    model_config = example({"expires_at": UNTIL})

    _one = model_validator(mode="before")(one_expiry)

    @model_validator(mode="after")
    def one_of_them(self) -> Self:
        if not self.model_fields_set:
            says = "that or `expires_at` must be sent; null is never"
            raise RefusedError("missing", allowed=says, loc=("ttl_seconds",))
        return self


class KeyChangeIn(ExpiringIn):
    """A set, which needs a `value`, or a delete, which takes none."""

    op: Literal["set", "delete"]
    key: KeyName
    value: Any = None
    if_match: int | None = Field(None, description=VERSION)
    if_none_match: Literal["*"] | None = None

    _one = model_validator(mode="before")(one_expiry)

    @model_validator(mode="after")
    def whole(self) -> Self:
        sent = self.model_fields_set
        if self.op == "set" and "value" not in sent:
            raise RefusedError("missing", allowed="a set needs it", loc=("value",))
        for name in ("value", "ttl_seconds", "expires_at"):
            if self.op == "delete" and name in sent:
                says = "a delete takes none"
                raise RefusedError("extra_field", allowed=says, loc=(name,))
        if self.if_match is not None and self.if_none_match is not None:
            says = "null beside `if_match`"
            raise RefusedError("value", allowed=says, loc=("if_none_match",))
        return self


def _distinct(items: list[KeyChangeIn]) -> list[KeyChangeIn]:
    if not 1 <= len(items) <= MAX_BATCH:
        raise RefusedError("batch_size")
    seen: set[str] = set()
    for n, item in enumerate(items):
        if item.key in seen:
            raise RefusedError("value", allowed="each key once", loc=(n, "key"))
        seen.add(item.key)
    return items


class KeyChangesIn(In):
    model_config = example({"items": _CHANGES})

    items: Annotated[
        list[KeyChangeIn],
        AfterValidator(_distinct),
        Field(json_schema_extra={"minItems": 1, "maxItems": MAX_BATCH}),
    ]


class KeysQuery(AsOf, Pagination):
    glob: Glob = Field("*", description="`*`, `?`, `[abc]`, `[a-c]`, `[!a]`.")
    values: Literal["true", "false"] = "false"
    sort: Literal["name", "expiry", "bytes"] = "name"


class SetOut(Out):
    model_config = example({**PLACE, "seq": 41, "key": "seat", "expires_at": UNTIL})

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
    model_config = example(KEY_VALUE)

    value: Any
    erased: bool = Field(
        description="The value is gone for good, as of the past; it was not null."
    )


class KeysOut(Out):
    model_config = example({"items": [_KEY], "next": None})

    items: list[KeyValueOut | KeyOut]
    next: str | None


class ChangedOut(Out):
    key: str
    seq: int | None
    expires_at: datetime | None = None
    existed: bool | None = Field(None, description="Of a delete: whether it was there.")


class ChangesOut(Out):
    model_config = example(
        {
            **PLACE,
            "items": [
                {"key": "seat", "seq": 50, "expires_at": None, "existed": None},
                {"key": "hold", "seq": None, "expires_at": None, "existed": False},
            ],
        }
    )

    thread: str
    thread_id: UUID
    items: list[ChangedOut]


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
    """Set a key; its expiry is set anew with it. Makes the thread if the name is new.

    If-Match takes the `seq` that GET gave, If-None-Match: * only makes a new key.
    """
    command = writing.setting(key, body.value, body.expiry(), expected(request))
    receipt = await writing.change(
        agent=auth.caller(request), thread=thread, changes=(command,)
    )
    event = receipt.one(KeySet)
    return _set_response(receipt, event, status=201 if event.created else 200)


@router.route(
    "GET",
    "/threads/{thread}/keys/{key}",
    needs=auth.READ,
    out=KeyValueOut,
    refusals=[*GONE, KeyNotFoundError, ContentErasedError, SeqUnknownError],
)
async def get(
    request: HttpRequest,
    thread: Path[ThreadName],
    key: Path[KeyName],
    query: Query[AsOf],
) -> HttpResponse:
    """A key's value. One that has expired is not there, swept or not.

    Of the past a value may be gone for good: after its expiry and the project's grace.
    """
    return await read(_get, auth.caller(request), thread, key, query)


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
    """Change the expiry alone; the value is not sent again."""
    receipt = await writing.retime(
        agent=auth.caller(request),
        thread=thread,
        key=key,
        expiry=body.expiry(),
        expected=expected(request),
    )
    events: list[KeyRetimed | KeySet] = [*receipt.all(KeyRetimed)]
    (event,) = events or receipt.all(KeySet)
    return _set_response(receipt, event, status=200)


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
    """Delete a key. History keeps its value, unless it was to expire."""
    command = DeleteKey(key=key, expected=expected(request))
    receipt = await writing.change(
        agent=auth.caller(request), thread=thread, changes=(command,)
    )
    existed = bool(receipt.events)
    return rendered(ExistedOut(existed=existed, seq=receipt.seq if existed else None))


@router.route(
    "GET",
    "/threads/{thread}/keys",
    needs=auth.READ,
    out=KeysOut,
    refusals=[*GONE, SeqUnknownError, BadCursorError],
)
async def list_all(
    request: HttpRequest, thread: Path[ThreadName], query: Query[KeysQuery]
) -> HttpResponse:
    """Keys that match, with their values if asked. All parts show one instant."""
    return await read(_list, auth.caller(request), thread, query)


@router.route(
    "POST",
    "/threads/{thread}/keys:batch",
    needs=auth.WRITE,
    out=ChangesOut,
    refusals=_SETS,
)
async def batch(
    request: HttpRequest, thread: Path[ThreadName], body: KeyChangesIn
) -> HttpResponse:
    """Up to 200 sets and deletes, all or nothing; a refusal names the item.

    Each may have a version of its own to compare; If-Match is the thread's head.
    """
    receipt = await writing.change(
        agent=auth.caller(request),
        thread=thread,
        changes=_changes(body.items),
        if_match=if_match(request),
        request=idempotency(request, body),
        numbered=True,
    )
    out = ChangesOut(
        thread=receipt.name,
        thread_id=receipt.thread,
        items=_changed(body.items, receipt),
    )
    return rendered(out, replayed=receipt.replayed)


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
    """Remove every key, nothing else. `cleared` counts those not yet expired."""
    receipt = await writing.clear(
        agent=auth.caller(request),
        thread=thread,
        if_match=if_match(request),
        request=idempotency(request, body),
    )
    cleared = sum(event.count for event in receipt.all(KeysCleared))
    out = ClearedOut(cleared=cleared, seq=receipt.seq)
    return rendered(out, replayed=receipt.replayed)


def _set_response(
    receipt: Receipt, event: KeySet | KeyRetimed, *, status: int
) -> HttpResponse:
    """What became of one key."""
    out = SetOut(
        thread=receipt.name,
        thread_id=receipt.thread,
        seq=receipt.seq,
        key=event.key,
        expires_at=event.expires_at,
    )
    return rendered(out, status=status)


def _changes(items: list[KeyChangeIn]) -> tuple[SetKey | DeleteKey, ...]:
    """The commands; a refusal says of which item it is."""
    changes = []
    for index, item in enumerate(items):
        try:
            changes.append(_change(item))
        except ValueTooLargeError as refusal:
            refusal.detail["index"] = index
            raise
    return tuple(changes)


def _change(item: KeyChangeIn) -> SetKey | DeleteKey:
    condition = Expected(version=item.if_match, absent=item.if_none_match is not None)
    if item.op == "delete":
        return DeleteKey(key=item.key, expected=condition)
    return writing.setting(item.key, item.value, item.expiry(), condition)


def _changed(items: list[KeyChangeIn], receipt: Receipt) -> list[ChangedOut]:
    """What became of each, in their order; a delete of nothing has no event."""
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


# What is read is rendered where it was read: the event loop has others to serve.


def _get(agent: Agent, name: str, key: str, query: AsOf) -> HttpResponse:
    thread = find_thread(agent, name)
    line = keys.get_key(thread, key, seq=seq_of(thread, query))
    return rendered(KeyValueOut.model_validate(line))


def _list(agent: Agent, name: str, query: KeysQuery) -> HttpResponse:
    thread = find_thread(agent, name)
    values = query.values == "true"
    found = keys.list_keys(
        thread,
        glob=query.glob,
        sort=query.sort,
        values=values,
        seq=seq_of(thread, query),
        after=query.after,
        limit=query.limit,
    )
    shape = KeyValueOut if values else KeyOut
    items = [shape.model_validate(line) for line in found.items]
    return rendered(KeysOut(items=items, next=found.next))
