from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from inspector.web.records import Record
from memoryhub.errors import Refusal
from memoryhub.queries.lists.cursors import Batch
from memoryhub.queries.replay import exact_json

#: A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


#: The words that end the URLs of a list's exports.
KINDS = ("json", "csv", "ndjson")
Line = TypeVar("Line")


def links(path: str, query: str = "") -> list[tuple[str, str]]:
    """List each kind of export of the list at `path`, with its URL."""
    suffix = f"?{query}" if query else ""
    return [(kind, f"{path}.{kind}{suffix}") for kind in KINDS]


def answer(
    request: HttpRequest,
    kind: str,
    name: str,
    *,
    heading: Sequence[str],
    record: Callable[[Line], Record],
    part: Callable[[], Batch[Line]],
    parts: Callable[[], Iterable[Sequence[Line]]],
) -> HttpResponseBase:
    """Send a list as data: one batch as JSON, or all that matches as CSV or NDJSON.

    `part` is asked for the one at the URL's cursor, `parts` for all; `record` tells a
    line of either.
    """
    if kind == "json":
        found = part()
        return batch([record(line) for line in found.items], found.next)
    chunks = ([record(line) for line in lines] for lines in parts())
    return stream(request, name, kind, chunks, heading=heading)


def batch(items: Sequence[Record], following: str | None) -> HttpResponse:
    """Send one batch of a list, as the agent API answers it."""
    text = exact_json.dumps({"items": items, "next": following})
    return HttpResponse(text, content_type="application/json")


def refused(refusal: Refusal, *, status: int) -> HttpResponse:
    """Answer why there is no export, as the agent API words it."""
    detail = {"status": status, "code": refusal.code, "detail": refusal.message}
    text = exact_json.dumps({"type": "about:blank", "title": refusal.code, **detail})
    return HttpResponse(text, status=status, content_type="application/problem+json")


def stream(
    request: HttpRequest,
    name: str,
    kind: str,
    chunks: Iterable[Sequence[Record]],
    *,
    heading: Sequence[str],
) -> HttpResponseBase:
    """Send all records, as CSV under this heading or as NDJSON."""
    if kind == "csv":
        return table(request, name, chunks, heading=heading)
    return ndjson(request, name, chunks)


def ndjson(
    request: HttpRequest, name: str, chunks: Iterable[Sequence[Record]]
) -> HttpResponseBase:
    """Send a line per record, streamed chunk by chunk."""
    texts = (b"".join(exact_json.line(record) + b"\n" for record in c) for c in chunks)
    return download(request, texts, f"{name}.ndjson", "application/x-ndjson")


def table(
    request: HttpRequest,
    name: str,
    chunks: Iterable[Sequence[Record]],
    *,
    heading: Sequence[str],
) -> HttpResponseBase:
    """Send CSV with a heading row, streamed; what looks like a formula is quoted."""
    rows = _rows(chunks, heading)
    return download(request, rows, f"{name}.csv", "text/csv; charset=utf-8")


def cell(value: Any) -> str:
    """Word a value as a cell: numbers as they are, text that no spreadsheet runs."""
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return exact_json.dumps(value).decode()
    text = value if isinstance(value, str) else exact_json.dumps(value).decode()
    return f"'{text}" if text.startswith(_FORMULA) else text


def _rows(
    chunks: Iterable[Sequence[Record]], heading: Sequence[str]
) -> Iterator[bytes]:
    yield _lines([heading])
    for chunk in chunks:
        yield _lines([cell(record[name]) for name in heading] for record in chunk)


def _lines(rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def download(
    request: HttpRequest, texts: Iterator[bytes], name: str, content_type: str
) -> HttpResponseBase:
    """Send a file of this name, part by part."""
    # Under ASGI a plain iterator would be read to its end before the first byte goes.
    asynchronous = isinstance(request, ASGIRequest)
    return StreamingHttpResponse(
        _drawn(texts) if asynchronous else texts,
        content_type=content_type,
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "X-Accel-Buffering": "no",
        },
    )


async def _drawn(texts: Iterator[bytes]) -> AsyncIterator[bytes]:
    draw = sync_to_async(_draw)
    while (text := await draw(texts)) is not None:
        yield text


def _draw(texts: Iterator[bytes]) -> bytes | None:
    return next(texts, None)
