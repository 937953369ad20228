"""Facts: a lane for each timeline, as of two clocks, with one of them at hand."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access.access import signed_in
from inspector.knowledge import fact_lanes, home_visits
from inspector.knowledge.fact_acts import VERBS
from inspector.knowledge.fact_lanes import Axis
from inspector.lists import visits
from inspector.web import asof
from memoryhub.errors import FactUnknownError, InvalidError
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge import facts, lanes
from memoryhub.queries.knowledge.facts import FactStory
from memoryhub.queries.knowledge.lanes import Lanes

#: A timeline's digest, and a fact: its id, and which of its timeline's it is, if that
#: is known.
_DIGEST = re.compile("[0-9a-f]{32}")
_FACT = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,6}))?")


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Show the facts of a thread's subject. Works as a form without any script."""
    visit = home_visits.find(request, project, thread)
    now, subject = clock.now(), visit.row.subject
    until, valid = asof.number(request, "known"), asof.number(request, "valid")
    found = lanes.get_lanes(subject, known_at=until, since=_digest(request))
    axis = fact_lanes.axis_of(found, now=now)
    at = now if valid is None else axis.instant(valid)
    story = _story(request, subject, found, at)
    name = f"{story.fact.id}-{story.timeline.index(story.fact)}" if story else ""
    context = {
        "found": found,
        "lanes": fact_lanes.drawn(found, axis, at=at, chosen=name),
        "marks": fact_lanes.mark_places(found),
        "counts": _counts(found),
        "story": story,
        "acts": [*VERBS] if visit.editable else [],
        "chosen": name,
        "holding": [
            (lane, [fact for fact in lane.facts if fact.holds(at)])
            for lane in found.lanes
        ],
        "kept": _kept(until, valid),
        **_clocks(axis, at, now),
    }
    return visits.page(request, "inspector/knowledge/facts/show.html", visit, context)


def _clocks(axis: Axis, at: datetime, now: datetime) -> dict[str, Any]:
    return {
        "axis": axis,
        "ticks": [*axis.ticks()],
        "valid_at": at,
        "valid": int(at.timestamp() // 60),
        "valid_x": f"{axis.x(at):.2f}%",
        "today_x": f"{axis.x(now):.2f}%",
    }


def _kept(until: int | None, valid: int | None) -> str:
    """Word what keeps the clocks in a link to a fact, to be put before its name."""
    given = {"known": until, "valid": valid}
    return "".join(f"{name}={n}&" for name, n in given.items() if n is not None)


def _counts(found: Lanes) -> dict[str, int]:
    return {
        "facts": sum(len(lane.facts) for lane in found.lanes),
        "late": sum(mark.late for mark in found.marks),
        "retracted": sum(mark.retracted for mark in found.marks),
    }


def _story(
    request: HttpRequest, subject: Subject, found: Lanes, at: datetime
) -> FactStory | None:
    """Return the fact that the address names; None for none, or one that is gone."""
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


def _digest(request: HttpRequest) -> str:
    """Read where a further part of the lanes begins. Raises InvalidError."""
    text = request.GET.get("from", "")
    if text and not _DIGEST.fullmatch(text):
        raise InvalidError(loc="from")
    return text
