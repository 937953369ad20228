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
from memoryhub.queries.lists.cursors import ListBatch
from memoryhub.queries.replay import exact_json

#: Beginnings of a cell that a spreadsheet would run as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


#: Suffixes of the URLs of a list's exports.
KINDS = ("json", "csv", "ndjson")
LineT = TypeVar("LineT")


def list_links(path: str, query: str = "") -> list[tuple[str, str]]:
    """List each kind of export of the list at `path`, with its URL."""
    suffix = f"?{query}" if query else ""
    return [(kind, f"{path}.{kind}{suffix}") for kind in KINDS]


def answer(
    request: HttpRequest,
    kind: str,
    name: str,
    *,
    heading: Sequence[str],
    record: Callable[[LineT], Record],
    part: Callable[[], ListBatch[LineT]],
    parts: Callable[[], Iterable[Sequence[LineT]]],
) -> HttpResponseBase:
    """Send a list as data: one batch as JSON, or all that matches as CSV or NDJSON.

    `part` returns the batch at the URL's cursor, `parts` all batches; `record` builds
    the record of a line.
    """
    if kind == "json":
        found = part()
        return send_batch([record(line) for line in found.items], found.next)
    chunks = ([record(line) for line in lines] for lines in parts())
    return stream(request, name, kind, chunks, heading=heading)


def send_batch(items: Sequence[Record], following: str | None) -> HttpResponse:
    """Send one batch of a list, in the shape of the agent API."""
    text = exact_json.dump_json({"items": items, "next": following})
    return HttpResponse(text, content_type="application/json")


def send_refusal(refusal: Refusal, *, status: int) -> HttpResponse:
    """Send a refused export as a problem, in the shape of the agent API."""
    detail = {"status": status, "code": refusal.code, "detail": refusal.message}
    text = exact_json.dump_json(
        {"type": "about:blank", "title": refusal.code, **detail}
    )
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
        return stream_csv(request, name, chunks, heading=heading)
    return stream_ndjson(request, name, chunks)


def stream_ndjson(
    request: HttpRequest, name: str, chunks: Iterable[Sequence[Record]]
) -> HttpResponseBase:
    """Stream one JSON line per record, chunk by chunk."""
    texts = (
        b"".join(exact_json.dump_line(record) + b"\n" for record in c) for c in chunks
    )
    return download(request, texts, f"{name}.ndjson", "application/x-ndjson")


def stream_csv(
    request: HttpRequest,
    name: str,
    chunks: Iterable[Sequence[Record]],
    *,
    heading: Sequence[str],
) -> HttpResponseBase:
    """Stream CSV with a heading row; text that looks like a formula is quoted."""
    rows = _iter_csv(chunks, heading)
    return download(request, rows, f"{name}.csv", "text/csv; charset=utf-8")


def render_cell(value: Any) -> str:
    """Render a value as a CSV cell: plain numbers, text that no spreadsheet runs."""
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return exact_json.dump_json(value).decode()
    text = value if isinstance(value, str) else exact_json.dump_json(value).decode()
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _iter_csv(
    chunks: Iterable[Sequence[Record]], heading: Sequence[str]
) -> Iterator[bytes]:
    yield _render_csv([heading])
    for chunk in chunks:
        yield _render_csv(
            [render_cell(record[name]) for name in heading] for record in chunk
        )


def _render_csv(rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def download(
    request: HttpRequest, texts: Iterator[bytes], name: str, content_type: str
) -> HttpResponseBase:
    """Stream a file of this name, part by part."""
    # Under ASGI, Django reads a plain iterator to its end before it sends a byte.
    asynchronous = isinstance(request, ASGIRequest)
    return StreamingHttpResponse(
        _iter_async(texts) if asynchronous else texts,
        content_type=content_type,
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "X-Accel-Buffering": "no",
        },
    )


async def _iter_async(texts: Iterator[bytes]) -> AsyncIterator[bytes]:
    draw = sync_to_async(_get_next)
    while (text := await draw(texts)) is not None:
        yield text


def _get_next(texts: Iterator[bytes]) -> bytes | None:
    return next(texts, None)
