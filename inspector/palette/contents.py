"""Search of contents: in a thread, or in a project a few threads at a time.

Nothing runs between two responses: the page asks a project's search to go on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse

from inspector.access import access
from inspector.drawing import first_words
from inspector.drawing.first_words import Pieces
from inspector.nouns import NOUNS
from inspector.palette.project_scans import ProjectScan
from inspector.web import stored_searches
from inspector.web.visitors import Visitor
from memoryhub.errors import BadCursorError
from memoryhub.kernel.observing.lines import find_signs
from memoryhub.kernel.search import excerpts
from memoryhub.kernel.search.contents import OBSERVATION
from memoryhub.kernel.search.excerpts import Excerpt
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import ListScope
from memoryhub.queries.paging import standings
from memoryhub.queries.paging.standings import PageStanding, StandingKind
from memoryhub.queries.search import closest, project_search
from memoryhub.queries.search.hits import Closeness, SearchHit
from memoryhub.queries.search.project_search import SearchPosition
from memoryhub.queries.search.searching import SearchRequest, SearchResult

#: Most hits shown of a single thread, and of each of several threads.
SHOWN, EACH = 8, 3
#: Most characters of a hit's text: so many are seen in the two lines of its row.
ROW = 110
#: One response for a project ends after so many seconds, or threads with hits.
SECONDS, FOUND_IN = 0.4, 5
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
class HitLine:
    """A search hit as the palette shows it."""

    hit: SearchHit
    #: Turns that the thread has begun; a message may belong to the next turn.
    turns: int
    #: The thread in which the hit was found, even if an ancestor has the record.
    thread: str
    #: Role or kind of the record, and the colour.
    who: str
    hue: str
    marked: Pieces
    #: URL of the message in its conversation; empty for other records.
    spoken: str
    #: URL of the record now; its event, if the event is the thread's own.
    now: str
    then_seq: int | None
    #: Words that the record no longer holds, each with the URL of the fact.
    marks: tuple[tuple[str, str], ...]
    #: Standing in the working set as class and words; None unless a page.
    chip: tuple[str, str] | None
    #: The moment of the search; None is now.
    at_seq: int | None
    closeness: Closeness = "phrase"

    @property
    def then(self) -> str:
        """Return the URL of the record as of its event."""
        return (
            self.now if self.then_seq is None else f"{self.now}?at_seq={self.then_seq}"
        )

    @property
    def href(self) -> str:
        """Return the URL that the hit opens: the message, or the record."""
        return self.spoken or self.then

    @property
    def name(self) -> str:
        """Return the record's name: its page, its key, or its kind."""
        return self.hit.page or self.hit.key or self.hit.kind


def search_threads(
    visitor: Visitor,
    rows: Sequence[Thread],
    request: SearchRequest,
    *,
    at_seq: int | None = None,
    address: str = "",
) -> tuple[list[HitLine], SearchResult]:
    """Search threads one by one; each thread is audited as read, with hits or not.

    Returns the last thread's result, with the total of all. About ten queries a thread.
    """
    lines, result = list[HitLine](), SearchResult(reason="no_match")
    for row in rows:
        visitor.note_threads([row])
        found = closest.search_closest(row, request, seq=at_seq)
        lines += _build_lines(visitor.project, row, found, at_seq, address)
        result = replace(found, total=found.total + result.total)
    return lines, result


def search_project(
    visitor: Visitor, request: SearchRequest, scan: ProjectScan, *, address: str = ""
) -> tuple[list[HitLine], ProjectScan]:
    """Search the next threads of a project; threads with hits are audited as read.

    Hits that are not shown are counted. About ten queries for each thread with shown
    hits, of which there are at most five. Raises BadCursorError.
    """
    if not scan.running:
        return [], scan
    began, lines, shown_in, full = time.monotonic(), list[HitLine](), 0, False
    place = _open_cursor(visitor.project, scan.cursor)
    if place is None:
        threads = project_search.count_threads(visitor.project.id)
        scan = replace(scan, threads=threads)
    for found in project_search.iter_project(visitor.project.id, request, after=place):
        new = scan.add_thread(found, _seal_cursor(visitor.project, found.place))
        # A thread whose pass may show nothing more waits for the operator.
        full = not new.can_go_on
        if full:
            break
        scan = new
        if found.result.items:
            found.thread.project = visitor.project
            visitor.note_threads([found.thread])
        if result := _select_shown(found.result, request, scan):
            of_thread = _build_lines(
                visitor.project, found.thread, result, None, address
            )
            scan = scan.add_hits(line.closeness for line in of_thread)
            lines, shown_in = [*lines, *of_thread], shown_in + 1
        # A thread that was skipped took no time: its hundred was read before.
        paused = found.result.searched or found.looked % project_search.CHUNK == 0
        slow = paused and time.monotonic() - began > SECONDS
        if shown_in == FOUND_IN or slow:
            break
    else:
        scan = replace(scan, ended=True)
    spent = scan.spent + int((time.monotonic() - began) * 1_000)
    scan = replace(scan, spent=spent)
    goes_on = scan.can_go_on and not full and not scan.ended
    return lines, replace(scan, running=goes_on)


def _select_shown(
    result: SearchResult, request: SearchRequest, scan: ProjectScan
) -> SearchResult | None:
    """Leave the hits that the scan may still show; None without any."""
    hits = [
        replace(hit, closeness=_find_closeness(hit, request)) for hit in result.items
    ]
    items = [hit for hit in hits if scan.can_show(hit.closeness or "phrase")]
    return replace(result, items=(*items,)) if items else None


def _find_closeness(hit: SearchHit, request: SearchRequest) -> Closeness:
    """Find how close a hit is to the typed words; in an order by time all are equal."""
    if request.order != "best":
        return "phrase"
    return hit.closeness or hit.find_closeness(request.query)


def list_recalled_hits(visitor: Visitor, result: SearchResult) -> list[HitLine]:
    """List the hits recalled of a subject; their threads are audited as read.

    About five queries for each thread.
    """
    found = dict[UUID, Iterator[HitLine]]()
    for hit in result.items:
        if hit.thread not in found:
            row = access.require_thread(visitor, hit.thread_name)
            own = tuple(each for each in result.items if each.thread == hit.thread)
            part = replace(result, items=own)
            found[hit.thread] = iter(_build_lines(visitor.project, row, part, None))
    return [next(found[hit.thread]) for hit in result.items]


def _build_lines(
    project: Project,
    row: Thread,
    result: SearchResult,
    at_seq: int | None,
    address: str = "",
) -> list[HitLine]:
    pages = {hit.page for hit in result.items if hit.page}
    found = standings.get_standings(row, pages, seq=at_seq)
    base = reverse("thread", kwargs={"project": project.slug, "thread": row.name})
    return [
        _build_line(row, base, hit, found.get(hit.page or ""), at_seq, address=address)
        for hit in result.items
    ]


def _build_line(
    row: Thread,
    base: str,
    hit: SearchHit,
    standing: PageStanding | None,
    at_seq: int | None,
    *,
    address: str,
) -> HitLine:
    fact = hit.kind == "fact"
    if hit.page:
        now = f"{base}/pages/{hit.page}"
    elif fact:
        now = _build_fact_url(row, hit.seq)
    else:
        now = f"{base}/{f'keys/{hit.key}' if hit.key else _find_screen(hit.kind)}"
    return HitLine(
        hit=hit,
        turns=row.turn_count,
        thread=row.name,
        who=hit.role or hit.kind,
        hue=hit.role if hit.role in _HUES else "system",
        marked=first_words.split_excerpt(
            excerpts.narrow_excerpt(_build_shown_excerpt(hit), ROW)
        ),
        spoken=_build_spoken_url(base, hit, at_seq, address),
        now=now,
        # A fact has a clock of its own, so it has no moment of the thread.
        then_seq=hit.seq if hit.thread == row.id and not fact else None,
        marks=tuple((each.words, _build_fact_url(row, each.by)) for each in hit.marked),
        chip=_build_chip(standing, live=at_seq is None) if standing else None,
        at_seq=at_seq,
        closeness=hit.closeness or "phrase",
    )


def _build_shown_excerpt(hit: SearchHit) -> Excerpt:
    """Build a hit's excerpt; of an observation without the signs of its log."""
    if hit.kind != OBSERVATION:
        return hit.excerpt
    return excerpts.cut_out(hit.excerpt, find_signs(hit.excerpt.text))


def _build_spoken_url(
    base: str, hit: SearchHit, at_seq: int | None, address: str
) -> str:
    """Build the URL of a message in its conversation; empty for other records."""
    if hit.slot is None:
        return ""
    parameters = {
        "index": hit.slot,
        "at_seq": at_seq,
        stored_searches.PARAMETER: address,
    }
    query = urlencode(
        {name: n for name, n in parameters.items() if n not in (None, "")}
    )
    return f"{base}/slots?{query}#slot-{hit.slot}"


def _build_fact_url(row: Thread, seq: int | None) -> str:
    """Build the URL of a fact of the thread's person; without a seq, of all facts."""
    names = {"project": row.project.slug, "subject": row.subject_id}
    facts = reverse("facts", kwargs=names)
    return facts if seq is None else f"{facts}?fact={seq}"


def _find_screen(kind: str) -> str:
    """Find the screen that lists records of a kind other than pages."""
    return next(each.name for each in NOUNS if each.name in (kind, f"{kind}s"))


def _build_chip(standing: PageStanding, *, live: bool) -> tuple[str, str]:
    kind, words = _CHIPS[standing.kind]
    if standing.kind == "in":
        return kind, "in now" if live else "in then"
    # Turn 0 is before the first turn, or unknown.
    return kind, f"{words} at turn {standing.turn:,}" if standing.turn else words


def _seal_cursor(project: Project, place: SearchPosition) -> str:
    return _build_listing(project).seal(
        [place.created_at.isoformat(), str(place.thread), *place[2:]]
    )


def _open_cursor(project: Project, cursor: str) -> SearchPosition | None:
    if not cursor:
        return None
    try:
        at, thread, pass_at, to_come = _build_listing(project).open(cursor)
        at = datetime.fromisoformat(at)
        return SearchPosition(at, UUID(thread), pass_at, (*to_come,))
    except (TypeError, ValueError):
        raise BadCursorError from None


def _build_listing(project: Project) -> ListScope:
    return ListScope(name="said", project=project.id)
