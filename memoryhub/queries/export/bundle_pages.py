"""The timeline of a bundle: HTML pages for people, readable without a server.

No scripts, and no resources from elsewhere; all content is escaped. A page has 2,000
events. The index, written last, lists the pages.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from html import escape
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import orjson

from memoryhub.journal.log.event_lines import BundleLine
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.text import strict_json
from memoryhub.queries.export import bundle_events
from memoryhub.queries.export.bundle_cuts import BundleCut, ThreadCut
from memoryhub.queries.export.bundle_files import Chunk, ZipArchive
from memoryhub.queries.replay import exact_json

INDEX: Final = "timeline.html"
STYLE: Final = "timeline/style.css"
EVENTS_A_PAGE: Final = 2_000
#: Characters of one text that a page shows; events.jsonl has the whole text.
SHOWN: Final = 20_000

SHEET: Final = b"""\
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
ol { list-style: none; padding: 0; }
li { border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent);
  padding: .5rem 0; }
time, small { opacity: .75; font-size: .85rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .25rem 0; }
table { border-collapse: collapse; }
td, th { text-align: left; padding: .25rem 1rem .25rem 0; }
"""
_HEAD: Final = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width">'
    "<title>{title}</title>"
    '<link rel="stylesheet" href="{style}"></head><body>\n'
)
_FOOT: Final = "</body></html>\n"


@dataclass(slots=True, kw_only=True)
class _TimelinePage:
    """A page's path, counts and times, for the index."""

    path: str
    events: int = 0
    threads: int = 0
    first: str = ""
    last: str = ""


def add(
    archive: ZipArchive, cut: BundleCut, progress: Callable[[int], None]
) -> Iterator[bytes]:
    """Add all pages to the archive, then the index and the style sheet."""
    pages: list[_TimelinePage] = []
    pieces = _split_batches(bundle_events.iter_events(cut))
    for number, shown in groupby(pieces, key=itemgetter(0)):
        page = _TimelinePage(path=f"timeline/{number:05}.html")
        yield from archive.add(page.path, _render_page(page, number, shown))
        pages.append(page)
        progress(page.events)
    yield from archive.add(INDEX, [Chunk(_render_index(cut, pages))])
    yield from archive.add(STYLE, [Chunk(SHEET)])


#: The number of a page, from 1, and a thread's events on the page.
_Piece = tuple[int, ThreadCut, list[BundleLine]]


def _split_batches(
    batches: Iterable[tuple[ThreadCut, list[BundleLine]]],
) -> Iterator[_Piece]:
    """Split batches of events at the page boundaries."""
    count = 0
    for part, lines in batches:
        left = lines
        while left:
            number, before = divmod(count, EVENTS_A_PAGE)
            shown = left[: EVENTS_A_PAGE - before]
            yield number + 1, part, shown
            count, left = count + len(shown), left[len(shown) :]


def _render_page(
    page: _TimelinePage, number: int, pieces: Iterable[_Piece]
) -> Iterator[Chunk]:
    head = _HEAD.format(title=f"Memory, page {number}", style="style.css")
    yield Chunk(head.encode() + b'<p><a href="../timeline.html">Index</a></p>', 0)
    shown = None
    for _, part, lines in pieces:
        texts = []
        if part.id != shown:
            shown = part.id
            page.threads += 1
            texts.append(f"<h2>{escape(part.name)}</h2>\n")
        texts += ["<ol>\n", *(_render_event(line) for line in lines), "</ol>\n"]
        page.events += len(lines)
        page.first = page.first or lines[0].at.isoformat(" ", "seconds")
        page.last = lines[-1].at.isoformat(" ", "seconds")
        yield Chunk("".join(texts).encode(), len(lines))
    yield Chunk(_FOOT.encode(), 0)


def _render_event(line: BundleLine) -> str:
    at = line.at.isoformat(" ", "seconds")[:19]
    facts = _render_details(orjson.loads(line.body))
    texts = ""
    if line.content is not None:
        texts = "".join(_render_content(strict_json.parse_stored(line.content)))
    elif line.erased is not None:
        texts = "<em>Erased.</em>"
    head = escape(f"{line.type} {line.seq}, {line.actor}{': ' * bool(facts)}{facts}")
    return (
        f"<li><time>{at}</time> <b>{_HEADINGS[line.type]}</b> "
        f"<small>{head}</small>{texts}</li>\n"
    )


#: Headings by type of event: the first sentence of its class's docstring.
_HEADINGS: Final = {
    kind: escape((inspect.getdoc(event) or "").partition(".")[0] + ".")
    for kind, event in TYPES.items()
}


def _render_details(body: dict[str, Any]) -> str:
    """Render the fields of a body that a reader needs; events.jsonl has all fields."""
    return ", ".join(f"{name} {body[name]}" for name in _TELLING if name in body)


_TELLING: Final = (
    *("from", "to", "type", "key", "page_id", "name", "status", "reason"),
    *("expires_at", "n", "turn", "level", "records"),
)


def _render_content(content: Any) -> Iterator[str]:
    """Render content by its fields, whatever type an imported run gave it."""
    for name, value in (
        content if isinstance(content, dict) else {"": content}
    ).items():
        text = value if isinstance(value, str) else _render_json(value)
        more = " …" if len(text) > SHOWN else ""
        yield f"<pre title='{escape(name)}'>{escape(text[:SHOWN])}{more}</pre>"


def _render_json(value: Any) -> str:
    return exact_json.dump_json(value, option=orjson.OPT_INDENT_2).decode()


def _render_index(cut: BundleCut, pages: list[_TimelinePage]) -> bytes:
    rows = "".join(
        f'<tr><td><a href="{page.path}">{page.path}</a></td><td>{page.first}</td>'
        f"<td>{page.last}</td><td>{page.threads:,}</td><td>{page.events:,}</td></tr>\n"
        for page in pages
    )
    return (
        _HEAD.format(title="Memory", style=STYLE)
        + f"<h1>Memory of {cut.subject.id}</h1>\n"
        + f"<p>{len(cut.parts):,} threads, {cut.events:,} events, times in UTC.</p>\n"
        + "<table><tr><th>page</th><th>from</th><th>to</th><th>threads</th>"
        + f"<th>events</th></tr>\n{rows}</table>\n{_FOOT}"
    ).encode()
