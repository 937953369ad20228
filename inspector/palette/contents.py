"""Contents: what was said, found in a thread, or in a project a few threads at a time.

Nothing runs between two answers: a search of a project goes on when it is asked to.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from django.urls import reverse

from inspector.access import access
from inspector.drawing import first_words
from inspector.drawing.first_words import Pieces
from inspector.nouns import NOUNS
from inspector.web.visitors import Visitor
from memoryhub.errors import BadCursorError
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import Listing
from memoryhub.queries.paging import standings
from memoryhub.queries.paging.standings import Standing, StandingKind
from memoryhub.queries.search import project_search, searching
from memoryhub.queries.search.hits import Hit
from memoryhub.queries.search.project_search import Place
from memoryhub.queries.search.searching import SearchRequest, SearchResult

#: Hits of a thread that are shown, and of each thread where there are several.
SHOWN, EACH = 8, 3
#: One answer of a project takes so many seconds, or so many threads with something.
SECONDS, FOUND_IN = 0.4, 5
#: Hits after which the search of a project waits to be sent on.
REST = 40
#: Roles and kinds with a colour of their own.
_HUES = ("user", "assistant", "tool", "system")
_CHIPS: Mapping[StandingKind, tuple[str, str]] = {
    "in": ("in", "in"),
    "shortened": ("short", "in, but shortened"),
    "back": ("fault", "back"),
    "left": ("out", "left"),
    "out": ("", "was never in"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Hold a hit as it is shown."""

    hit: Hit
    #: Turns that its thread has begun: a message may come for the next.
    turns: int
    #: The thread in which it was found, if its record lies with an ancestor.
    thread: str
    #: What it is: a role, or a kind; and what colours it.
    who: str
    hue: str
    marked: Pieces
    #: Where it is shown now; and the event it came with, if that is its thread's own.
    now: str
    then_seq: int | None
    #: What of it no longer holds, and where the facts are that say so.
    marks: tuple[tuple[str, str], ...]
    #: How it stands in the working set: a class and words; None for what is no page.
    chip: tuple[str, str] | None
    #: As of when it was looked for; None is now.
    at_seq: int | None

    @property
    def then(self) -> str:
        """Give where it is shown as of then."""
        return (
            self.now if self.then_seq is None else f"{self.now}?at_seq={self.then_seq}"
        )

    @property
    def name(self) -> str:
        """Name the record: by its page, its key, or what it is."""
        return self.hit.page or self.hit.key or self.hit.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Hold how far the search of a project is, as the page hands it back.

    None of its fields is called as something that a form element has by itself.
    """

    #: Where it goes on; empty at the beginning.
    cursor: str = ""
    #: Threads that were looked through, and those with something.
    looked: int = 0
    found_in: int = 0
    #: Matches in all, those that are shown, and the milliseconds that they took.
    total: int = 0
    shown: int = 0
    spent: int = 0
    #: It goes on by itself, waits until it is sent on, or has come to the end.
    running: bool = True
    ended: bool = False

    @property
    def rate(self) -> int:
        """Give the matches per second."""
        return round(1_000 * self.total / max(self.spent, 1))

    @classmethod
    def read(cls, sent: Mapping[str, str]) -> Scan:
        """Read what a page hands back; what is no number is 0."""
        return cls(
            cursor=sent.get("cursor", ""),
            looked=_count(sent.get("looked", "")),
            found_in=_count(sent.get("found_in", "")),
            total=_count(sent.get("total", "")),
            shown=_count(sent.get("shown", "")),
            spent=_count(sent.get("spent", "")),
            running="stop" not in sent,
        )


def search_threads(
    visitor: Visitor,
    rows: Sequence[Thread],
    request: SearchRequest,
    *,
    at_seq: int | None = None,
) -> tuple[list[Line], SearchResult]:
    """Search threads one by one; what is asked of them is noted, found or not.

    The result is that of the last. About ten queries for each.
    """
    lines, result = list[Line](), SearchResult(reason="no_match")
    for row in rows:
        visitor.note([row])
        found = searching.search_thread(row, request, seq=at_seq)
        lines += _lines(visitor.project, row, found, at_seq)
        result = replace(found, total=found.total + result.total)
    return lines, result


def search_project(
    visitor: Visitor, request: SearchRequest, scan: Scan
) -> tuple[list[Line], Scan]:
    """Look through the next threads of a project; those that are shown are noted.

    About ten queries for each thread with something, of which there are five at most.
    Raises BadCursorError.
    """
    if not scan.running:
        return [], scan
    began, lines, before = time.monotonic(), list[Line](), scan
    place = _opened(visitor.project, scan.cursor)
    for found in project_search.iter_project(visitor.project.id, request, after=place):
        scan = _counted(scan, found.result, _sealed(visitor.project, found.place))
        if found.result.items:
            found.thread.project = visitor.project
            visitor.note([found.thread])
            lines += _lines(visitor.project, found.thread, found.result, None)
        enough = scan.found_in - before.found_in == FOUND_IN
        if enough or time.monotonic() - began > SECONDS:
            break
    else:
        scan = replace(scan, ended=True)
    shown = before.shown + len(lines)
    return lines, replace(
        scan,
        shown=shown,
        spent=scan.spent + round(1_000 * (time.monotonic() - began)),
        running=not scan.ended and shown // REST == before.shown // REST,
    )


def list_recalled(visitor: Visitor, result: SearchResult) -> list[Line]:
    """Word what was recalled of a subject; the threads that it is of are noted.

    About five queries for each of those.
    """
    found = dict[UUID, Iterator[Line]]()
    for hit in result.items:
        if hit.thread not in found:
            row = access.find_thread(visitor, hit.thread_name)
            own = tuple(each for each in result.items if each.thread == hit.thread)
            part = replace(result, items=own)
            found[hit.thread] = iter(_lines(visitor.project, row, part, None))
    return [next(found[hit.thread]) for hit in result.items]


def _counted(scan: Scan, result: SearchResult, cursor: str) -> Scan:
    return replace(
        scan,
        cursor=cursor,
        looked=scan.looked + 1,
        found_in=scan.found_in + bool(result.items),
        total=scan.total + result.total,
    )


def _lines(
    project: Project, row: Thread, result: SearchResult, at_seq: int | None
) -> list[Line]:
    pages = {hit.page for hit in result.items if hit.page}
    found = standings.get_standings(row, pages, seq=at_seq)
    base = reverse("thread", kwargs={"project": project.slug, "thread": row.name})
    return [
        _line(row, base, hit, found.get(hit.page or ""), at_seq) for hit in result.items
    ]


def _line(
    row: Thread, base: str, hit: Hit, standing: Standing | None, at_seq: int | None
) -> Line:
    fact = hit.kind == "fact"
    if hit.page:
        now = f"{base}/pages/{hit.page}"
    elif fact:
        now = _fact(base, hit.seq)
    else:
        now = f"{base}/{f'keys/{hit.key}' if hit.key else _screen(hit.kind)}"
    return Line(
        hit=hit,
        turns=row.turn_count,
        thread=row.name,
        who=hit.role or hit.kind,
        hue=hit.role if hit.role in _HUES else "system",
        marked=first_words.excerpt_pieces(hit.excerpt),
        now=now,
        # Facts are as of clocks of their own.
        then_seq=hit.seq if hit.thread == row.id and not fact else None,
        marks=tuple((each.words, _fact(base, each.by)) for each in hit.marked),
        chip=_chip(standing, live=at_seq is None) if standing else None,
        at_seq=at_seq,
    )


def _fact(base: str, seq: int | None) -> str:
    """Give where a fact is shown; all are, where none rests on it any more."""
    return f"{base}/facts" if seq is None else f"{base}/facts?fact={seq}"


def _screen(kind: str) -> str:
    """Find where what is no page is shown, behind its thread's address."""
    return next(each.name for each in NOUNS if each.name in (kind, f"{kind}s"))


def _chip(standing: Standing, *, live: bool) -> tuple[str, str]:
    kind, words = _CHIPS[standing.kind]
    if standing.kind == "in":
        return kind, "in now" if live else "in then"
    # Turn 0 is before the first, or not told.
    return kind, f"{words} at turn {standing.turn:,}" if standing.turn else words


def _sealed(project: Project, place: Place) -> str:
    return _listing(project).seal([place.listed_at.isoformat(), str(place.thread)])


def _opened(project: Project, cursor: str) -> Place | None:
    if not cursor:
        return None
    try:
        at, thread = _listing(project).open(cursor)
        return Place(datetime.fromisoformat(at), UUID(thread))
    except (TypeError, ValueError):
        raise BadCursorError from None


def _listing(project: Project) -> Listing:
    return Listing(name="said", project=project.id)


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
