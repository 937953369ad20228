from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from memoryhub.api.document.fields import (
    BodyLimit,
    FieldRefusedError,
    Id,
    In,
    Out,
    build_example,
    build_integer_reader,
    build_range_schema,
)
from memoryhub.api.document.memory_fields import ExistedOut, KeyName, parse_expected
from memoryhub.api.document.samples import AT, UNTIL
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import CONDITIONAL, KEEPING
from memoryhub.api.http.reading import GONE, get_agent_home, get_agent_subject
from memoryhub.api.memory.keys import VERSION, KeyIn, SetOut
from memoryhub.errors import (
    BadCursorError,
    ContentErasedError,
    KeyExistsError,
    KeyNotFoundError,
    KeysFullError,
    SeqUnknownError,
    ValueTooLargeError,
)
from memoryhub.kernel.memory.key_events import KeySet
from memoryhub.kernel.text import item_names
from memoryhub.queries.lists.cursors import ListBatch
from memoryhub.queries.memory import items
from memoryhub.queries.memory.keys import KeyLine
from memoryhub.queries.memory.value_filters import Comparison, MemberCondition
from memoryhub.queries.threads.readers import read
from memoryhub.services.knowledge import items as writing

MAX_CONDITIONS = 8
_MAX_DEPTH = 64


def _check_namespace(text: str) -> str:
    if not item_names.is_namespace(text):
        raise FieldRefusedError("name")
    return text


def _check_item_key(text: str) -> str:
    if not item_names.is_item_key(text):
        raise FieldRefusedError("name")
    return text


Namespace = Annotated[
    KeyName,
    AfterValidator(_check_namespace),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": item_names.NAMESPACE_PATTERN,
            "maxLength": item_names.MAX_CHARS,
        }
    ),
]
ItemKey = Annotated[
    str,
    AfterValidator(_check_item_key),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": item_names.KEY_PATTERN,
            "maxLength": item_names.MAX_CHARS,
        }
    ),
]
Depth = Annotated[
    int,
    BeforeValidator(build_integer_reader("value", low=1, high=_MAX_DEPTH)),
    build_range_schema(1, _MAX_DEPTH),
]

_ITEM = {
    "namespace": "trips:oslo",
    "key": "seat",
    "seq": 14,
    "set_at": AT,
    "expires_at": UNTIL,
    "bytes": 64,
    "value": {"letter": "A", "row": 12},
    "erased": False,
}


class ItemsQuery(AsOf, Pagination):
    """`at_seq` is of the home thread."""

    namespace: Namespace | None = None


class NamespacesQuery(ItemsQuery):
    """`at_seq` is of the home thread."""

    depth: Depth | None = None


class ConditionIn(In):
    """A comparison of a value's top-level member; an absent member is null.

    Only two numbers, or two texts, are more or less.
    """

    member: str = Field(max_length=256)
    op: Comparison = "eq"
    value: Any


class ItemSearchIn(In):
    """A namespace, and conditions that must all hold."""

    model_config = build_example(
        {
            "namespace": "trips",
            "where": [{"member": "row", "op": "gte", "value": 10}],
        }
    )

    namespace: Namespace | None = None
    where: Annotated[list[ConditionIn], Field(max_length=MAX_CONDITIONS)] = []
    after: str | None = None
    limit: BodyLimit = 50


class ItemOut(Out):
    model_config = build_example(_ITEM)

    namespace: str
    key: str
    seq: int = Field(description=VERSION)
    set_at: datetime
    expires_at: datetime | None
    bytes: int
    value: Any
    erased: bool

    @classmethod
    def from_line(cls, line: KeyLine) -> ItemOut:
        namespace, key = item_names.split_item_name(line.name)
        return cls(
            namespace=namespace,
            key=key,
            seq=line.version,
            set_at=line.set_at,
            expires_at=line.expires_at,
            bytes=line.bytes,
            value=line.value,
            erased=line.erased,
        )


class ItemsOut(Out):
    model_config = build_example({"items": [_ITEM], "next": None})

    items: list[ItemOut]
    next: str | None


class NamespaceOut(Out):
    namespace: str
    count: int


class NamespacesOut(Out):
    model_config = build_example(
        {"items": [{"namespace": "trips:oslo", "count": 3}], "next": None}
    )

    items: list[NamespaceOut]
    next: str | None


router = StrictRouter(tags=["items"])

_ITEM_PATH = "/subjects/{subject}/items/{namespace}/{key}"
_LISTS = (*GONE, SeqUnknownError, BadCursorError)


@router.route(
    "PUT",
    _ITEM_PATH,
    needs=auth.WRITE,
    out=SetOut,
    status=(200, 201),
    refusals=(*KEEPING, KeyExistsError, KeysFullError, ValueTooLargeError),
)
async def put(
    request: HttpRequest,
    subject: Path[Id],
    namespace: Path[Namespace],
    key: Path[ItemKey],
    body: KeyIn,
) -> HttpResponse:
    """Set an item of a subject: JSON under labels joined with colons, and a key.

    Namespace and key have 128 characters together.
    """
    agent = auth.get_caller(request)
    receipt = await writing.put_item(
        agent=agent,
        subject=await read(get_agent_subject, agent, subject),
        namespace=namespace,
        key=key,
        value=body.value,
        expiry=body.build_expiry(),
        expected=parse_expected(request),
    )
    event = receipt.get_event(KeySet)
    out = SetOut(
        thread=receipt.name,
        thread_id=receipt.thread,
        seq=receipt.seq,
        key=key,
        expires_at=event.expires_at,
    )
    return render_answer(out, status=201 if event.created else 200)


@router.route(
    "GET",
    _ITEM_PATH,
    needs=auth.READ,
    out=ItemOut,
    refusals=[*GONE, KeyNotFoundError, ContentErasedError, SeqUnknownError],
)
def get(
    request: HttpRequest,
    subject: Path[Id],
    namespace: Path[Namespace],
    key: Path[ItemKey],
    query: Query[AsOf],
) -> HttpResponse:
    """Read an item, now or as of an event of the home thread."""
    _, home, seq = get_agent_home(auth.get_caller(request), subject, query)
    line = items.get_item(home, namespace, key, seq=seq)
    return render_answer(ItemOut.from_line(line))


@router.route(
    "DELETE",
    _ITEM_PATH,
    needs=auth.WRITE,
    out=ExistedOut,
    refusals=[*CONDITIONAL, KeyExistsError],
)
async def delete(
    request: HttpRequest,
    subject: Path[Id],
    namespace: Path[Namespace],
    key: Path[ItemKey],
) -> HttpResponse:
    """Delete an item. History keeps its value, unless it had an expiry."""
    agent = auth.get_caller(request)
    receipt = await writing.delete_item(
        agent=agent,
        subject=await read(get_agent_subject, agent, subject),
        namespace=namespace,
        key=key,
        expected=parse_expected(request),
    )
    seq = receipt.seq if receipt and receipt.events else None
    return render_answer(ExistedOut(existed=seq is not None, seq=seq))


@router.route(
    "GET", "/subjects/{subject}/items", needs=auth.READ, out=ItemsOut, refusals=_LISTS
)
def list_all(
    request: HttpRequest, subject: Path[Id], query: Query[ItemsQuery]
) -> HttpResponse:
    """List items in and below a namespace by name. All parts show one instant."""
    _, home, seq = get_agent_home(auth.get_caller(request), subject, query)
    found = items.list_items(
        home,
        namespace=query.namespace or "",
        seq=seq,
        after=query.after,
        limit=query.limit,
    )
    return _render_items(found)


@router.route(
    "POST",
    "/subjects/{subject}/items:search",
    needs=auth.READ,
    out=ItemsOut,
    refusals=[*GONE, BadCursorError],
)
def search(request: HttpRequest, subject: Path[Id], body: ItemSearchIn) -> HttpResponse:
    """List items whose members meet conditions. A POST that changes nothing.

    A part reads `limit` items: it may show fewer, or none, before the next part.
    """
    _, home, _ = get_agent_home(auth.get_caller(request), subject, AsOf())
    found = items.list_items(
        home,
        namespace=body.namespace or "",
        where=[
            MemberCondition(member=each.member, op=each.op, value=each.value)
            for each in body.where
        ],
        after=body.after,
        limit=body.limit,
    )
    return _render_items(found)


@router.route(
    "GET",
    "/subjects/{subject}/namespaces",
    needs=auth.READ,
    out=NamespacesOut,
    refusals=_LISTS,
)
def list_namespaces(
    request: HttpRequest, subject: Path[Id], query: Query[NamespacesQuery]
) -> HttpResponse:
    """List the namespaces of a subject's items, in and below one, by name."""
    _, home, seq = get_agent_home(auth.get_caller(request), subject, query)
    found = items.list_namespaces(
        home,
        namespace=query.namespace or "",
        depth=query.depth,
        seq=seq,
        after=query.after,
        limit=query.limit,
    )
    lines = [
        NamespaceOut(namespace=each.namespace, count=each.count) for each in found.items
    ]
    return render_answer(NamespacesOut(items=lines, next=found.next))


# Reads are rendered in the reader's thread, which keeps the event loop free.


def _render_items(found: ListBatch[KeyLine]) -> HttpResponse:
    lines = [ItemOut.from_line(each) for each in found.items]
    return render_answer(ItemsOut(items=lines, next=found.next))
