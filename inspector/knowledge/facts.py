"""Screen of facts: a lane for each timeline, as of two clocks, with one fact open."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access.access import require_signed_in
from inspector.drawing.first_words import cut_to_line
from inspector.knowledge import fact_lanes
from inspector.knowledge.fact_acts import VERBS
from inspector.lists import person_visits
from inspector.lists.person_visits import PersonVisit
from inspector.memory import editing
from inspector.web import asof
from memoryhub.errors import FactUnknownError, InvalidError
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge import (
    block_lines,
    blocks,
    corrected_lines,
    facts,
    lanes,
)
from memoryhub.queries.knowledge.corrected_lines import CorrectedLine
from memoryhub.queries.knowledge.facts import AssertionLine, FactStory
from memoryhub.queries.knowledge.lanes import Lanes
from memoryhub.queries.threads.edits import Edit

#: Formats of a timeline's digest, and of a fact: its id, and its place in the timeline
#: if that is known.
_DIGEST = re.compile("[0-9a-f]{32}")
_FACT = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,6}))?")


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Show the facts of a person. The page is a form that needs no script."""
    visit = person_visits.find(request, project, subject)
    now, row = clock.now(), visit.subject
    until = asof.read_number(request, "known")
    valid = asof.read_number(request, "valid")
    found = lanes.get_lanes(row, known_at=until, since=_parse_digest(request))
    whole = request.GET.get("whole") == "1"
    axis = fact_lanes.build_axis(found, now=now, chosen=valid, whole=whole)
    at = now if valid is None else axis.to_instant(valid)
    story = _find_story(request, row, found, at)
    nth = story.timeline.index(story.fact) if story else 0
    name = f"{story.fact.id}-{nth}" if story else ""
    clocks = (("known", until), ("valid", valid))
    saved = (
        editing.find_saved(request, visit.home, facts.find_edit) if visit.home else None
    )
    context = {
        "found": found,
        "lanes": fact_lanes.draw_lanes(found, axis, at=at, chosen=name),
        "marks": fact_lanes.list_slider_marks(found),
        "counts": {
            "facts": sum(len(lane.facts) for lane in found.lanes),
            "properties": sum(bool(lane.facts) for lane in found.lanes),
            "late": sum(mark.late for mark in found.marks),
            "retracted": sum(mark.retracted for mark in found.marks),
        },
        "story": story,
        "stated": _list_stated(story) if story else [],
        "counted": _count_statements(story, nth) if story else None,
        **_list_block_lines(story if until is None else None, now),
        "saved": saved,
        "corrected": _list_corrected(visit, saved.seq) if saved else [],
        **_build_undone(request, visit),
        "undoable": _find_undoable(visit, story) if saved is None else None,
        "done": asof.read_number(request, "done"),
        "acts": ["correct", *VERBS] if visit.editable else [],
        "chosen": name,
        "nth": nth,
        "past": found.home is not None and found.known_at < found.home.head_seq,
        "holding": [
            (lane, fact)
            for lane in found.lanes
            for fact in lane.facts
            if fact.is_valid_at(at)
        ],
        # Keeps the clocks in a link, before a fact's name.
        "kept": "".join(f"{name}={n}&" for name, n in clocks if n is not None)
        + ("whole=1&" if whole else ""),
        "axis": axis,
        "ticks": [*axis.iter_ticks()],
        "valid_at": at,
        "picked": valid is not None,
        "valid": int(at.timestamp() // 60),
        "valid_x": f"{axis.to_percent(at):.2f}%",
        "today_x": f"{axis.to_percent(now):.2f}%",
    }
    return person_visits.render_page(
        request, "inspector/knowledge/facts/show.html", visit, context
    )


def _find_story(
    request: HttpRequest, subject: Subject, found: Lanes, at: datetime
) -> FactStory | None:
    """Find the fact that the address names; None without one, or once it is gone."""
    text = request.GET.get("fact", "")
    if not text or found.home is None:
        return None
    named = _FACT.fullmatch(text)
    if named is None:
        raise InvalidError(loc="fact")
    try:
        return facts.get_fact(
            subject,
            int(named[1]),
            now=at,
            known_at=found.known_at,
            nth=int(named[2]) if named[2] else None,
        )
    except FactUnknownError:
        return None


def _find_undoable(visit: PersonVisit, story: FactStory | None) -> Edit | None:
    """Find the edit of an open fact's newest assertion, if it can be undone."""
    if story is None or not visit.editable:
        return None
    edit = facts.find_edit(story.home, story.assertions[0].seq)
    return edit if edit is not None and edit.standing else None


def _list_corrected(visit: PersonVisit, seq: int) -> list[CorrectedLine]:
    """List the lines of blocks that a correction changed."""
    if visit.home is None or not visit.editable:
        return []
    commit = corrected_lines.find_commit(visit.home.row, seq)
    if not commit.written:
        return []
    views = blocks.list_blocks(visit.home.row)
    return corrected_lines.list_corrected_lines(visit.home.row, commit, views)


def _build_undone(request: HttpRequest, visit: PersonVisit) -> dict[str, Any]:
    """Build what the address says of an undo: the undone event, and its lines.

    `back` counts the lines of blocks that read as before; `left` lists the others.
    """
    seq = asof.read_number(request, "left")
    lines = _list_corrected(visit, seq) if seq is not None else []
    left = [each for each in lines if not each.undone]
    return {"undone": seq, "back": len(lines) - len(left), "left": left}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedLine:
    """An assertion in the history of a fact."""

    line: AssertionLine
    #: The value that the assertion changed; empty if it changed none.
    was: str
    #: Whether an operator undid it, and whether an undo brought its value back.
    undone: bool
    back: bool
    #: Seq of the assertion by which an undo brought the retracted value back.
    restored_by: int | None


def _list_stated(story: FactStory) -> list[StatedLine]:
    """List a fact's assertions, each with the value that it changed. One query.

    That is the value stated for the same time, else for the time just before, as known
    when the assertion was recorded. None for one of several values that hold at once.
    """
    single = story.fact.cardinality == "single"
    undone, back = facts.find_undos(story.home, story.assertions)
    brought_back = {
        (each.value, each.valid_from, each.valid_until): each.seq
        for each in story.assertions
        if each.seq in back
    }
    return [
        StatedLine(
            line=each,
            was=_find_value_before(each, story) if single else "",
            undone=each.seq in undone,
            back=each.seq in back,
            restored_by=_find_restoring(each, brought_back),
        )
        for each in story.assertions
    ]


def _find_value_before(each: AssertionLine, story: FactStory) -> str:
    earlier = [
        older
        for older in story.assertions
        if older.seq < each.seq and older.valid_from <= each.valid_from
    ]
    # A correction retracts the value of the same time before it states another.
    same = [older for older in earlier if older.valid_from == each.valid_from]
    counted = [
        older
        for older in earlier
        if (older.counts and older.retracted_seq is None)
        or (older.retracted_seq or 0) > each.seq
    ]
    found = (
        same or sorted(counted, key=lambda older: (older.valid_from, older.seq))[::-1]
    )
    return "" if not found or found[0].value == each.value else found[0].value


def _find_restoring(
    each: AssertionLine, brought_back: dict[tuple[str, datetime, datetime | None], int]
) -> int | None:
    seq = brought_back.get((each.value, each.valid_from, each.valid_until), 0)
    return seq if each.retracted_seq is not None and seq > each.retracted_seq else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementCounts:
    """Numbers of assertions that a fact rests on."""

    #: Those that begin within the fact, and the different begins that they state.
    own: int
    begins: int
    #: Those of an earlier period of the value.
    earlier: int
    #: When the first that begins within the fact was recorded.
    recorded_at: datetime


def _count_statements(story: FactStory, nth: int) -> StatementCounts:
    """Count the assertions that a fact rests on. No query."""
    fact = story.unopened.facts[nth]
    supports = story.unopened.list_supports(fact)
    own = {each.seq: each for each in supports if each.valid_from >= fact.begin}
    times = [line.at for line in story.assertions if line.seq in own]
    return StatementCounts(
        own=len(own),
        begins=len({each.valid_from for each in own.values()}),
        earlier=len(supports) - len(own),
        recorded_at=min(times, default=story.fact.begin_recorded_at),
    )


def _list_block_lines(story: FactStory | None, now: datetime) -> dict[str, Any]:
    """List the lines of blocks about a fact's property, each with its text.

    `said` has the current values, where the line names the property, `earlier` the
    outdated ones, those that name the property first. `naming`: lines that name it,
    with no known value.
    """
    if story is None:
        return {"said": [], "earlier": [], "naming": []}
    views = blocks.list_blocks(story.home)
    found = block_lines.list_lines_of_fact(story.home, views, story.unopened, at=now)
    texts = {view.block: (view.text or "").splitlines() for view in views}
    lines = [(each, cut_to_line(texts[each.block][each.line - 1])) for each in found]
    earlier = [each for each in lines if each[0].outdated]
    earlier.sort(key=lambda each: not each[0].names_property)
    naming = block_lines.list_naming_lines(
        views if story.fact.cardinality == "single" else (),
        story.fact.predicate,
        {(each.block, each.line) for each in found},
    )
    return {
        # Without the property's name, the words may be about anything.
        "said": [
            each for each in lines if not each[0].outdated and each[0].names_property
        ],
        "earlier": earlier,
        "naming": naming,
    }


def _parse_digest(request: HttpRequest) -> str:
    """Parse the digest at which the next lanes begin. Raises InvalidError."""
    text = request.GET.get("from", "")
    if text and not _DIGEST.fullmatch(text):
        raise InvalidError(loc="from")
    return text
