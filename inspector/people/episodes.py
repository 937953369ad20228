"""Screen of episodes: a subject's exchanges over all its threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from inspector.access.access import (
    require_person,
    require_signed_in,
    require_visitor,
)
from inspector.drawing import chat
from inspector.drawing.chat import Bubble, PageRoom
from inspector.lists import person_visits
from inspector.web import asof, shell
from inspector.web.methods import require_post
from memoryhub.errors import InvalidError
from memoryhub.kernel.text.times import YEARS
from memoryhub.models.access.operators import Membership
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.episodes import episodes, pending
from memoryhub.queries.episodes.episodes import EpisodeFilter, EpisodeView
from memoryhub.queries.episodes.pending import EpisodeOutcome
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.people import subject_lists
from memoryhub.queries.threads import threads
from memoryhub.services.knowledge import consolidations

#: Characters shown of a message; a link leads to the whole message.
_SHOWN = 4_096
_DAY = timedelta(days=1)
#: Exchanges that one press of the button requests.
REQUESTED: Final = 10
#: Text and colour of an exchange, by the state of its consolidation.
_STATES: Final[Mapping[str, tuple[str, str]]] = {
    "pending": ("not searched for facts yet", ""),
    "consolidated": ("searched for facts: none found", ""),
    "failed": ("search for facts failed, tried again soon", "attn"),
    "given_up": ("search for facts failed for good", "bad"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEpisode:
    """Episode with its question and its answer as bubbles."""

    episode: EpisodeView
    question: Bubble
    answer: Bubble | None
    outcome: EpisodeOutcome

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the called tools, each once, in order of the first call."""
        return tuple(dict.fromkeys(call.name for _, call in self.episode.tool_calls))


@require_safe
@require_signed_in
def index(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """List a subject's episodes, newest first, filtered by thread or days."""
    visitor = require_visitor(request, project)
    row = require_person(visitor, subject)
    wanted = {name: request.GET.get(name, "") for name in ("thread", "from", "to")}
    chosen = {name: word for name, word in wanted.items() if word}
    found = episodes.list_episodes(
        row,
        _parse_filter(row, wanted),
        now=clock.now(),
        after=request.GET.get("after") or None,
        limit=asof.read_limit(request),
    )
    home, outcomes = find_home(row), pending.list_outcomes(row, found.items)
    visitor.note_threads(each.thread for each in found.items)
    if home is not None and any(each.facts for each in outcomes):
        visitor.note_threads([home])
    requests = pending.get_knowledge(row).requested.items()
    context = {
        "subject": row,
        "hint": person_visits.find_hint(visitor, row.id),
        "listed": _build_shown(found.items, outcomes),
        "pending": pending.count(row),
        "requested": sum(len(of) for _, of in requests),
        "states": _STATES,
        "model": settings.MODEL is not None,
        "most": REQUESTED,
        "asks": settings.MODEL is not None and visitor.project.consolidate == "auto",
        "wanted": wanted,
        "chosen": chosen,
        "names": subject_lists.list_thread_names(row),
        "more": urlencode({**chosen, "after": found.next}) if found.next else "",
    }
    template = "inspector/people/episodes/index.html"
    return shell.render_page(
        request, template, context, visitor=visitor, section="subjects"
    )


@require_post
@require_signed_in
def consolidate(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Have the model asked about the newest pending exchanges now."""
    visitor = require_visitor(request, project)
    row = require_person(visitor, subject)
    visitor.require_role(Membership.Role.EDITOR)
    consolidations.request_exchanges(row, limit=REQUESTED, actor=visitor.actor)
    where = {"project": project, "subject": subject}
    return HttpResponseRedirect(reverse("episodes", kwargs=where))


@require_post
@require_signed_in
def retry(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Queue an exchange whose consolidation failed for another try."""
    visitor = require_visitor(request, project)
    row = require_person(visitor, subject)
    visitor.require_role(Membership.Role.EDITOR)
    thread, _, begin = request.POST.get("exchange", "").partition(" ")
    try:
        place = UUID(thread), int(begin)
    except ValueError:
        raise InvalidError(loc="exchange") from None
    consolidations.retry_exchange(row, *place, now=clock.now(), actor=visitor.actor)
    where = {"project": project, "subject": subject}
    return HttpResponseRedirect(reverse("episodes", kwargs=where))


def _parse_filter(row: Subject, wanted: dict[str, str]) -> EpisodeFilter:
    """Parse the filter. Raises InvalidError; NotFoundError for an unknown thread."""
    last = _parse_day(wanted["to"], "to")
    return EpisodeFilter(
        thread=_get_thread(row, wanted["thread"]) if wanted["thread"] else None,
        begin=_parse_day(wanted["from"], "from"),
        end=last and last + _DAY,
    )


def _get_thread(row: Subject, name: str) -> Thread:
    return threads.get_thread(row.project_id, name, subject=row.id)


def _parse_day(text: str, loc: str) -> datetime | None:
    """Parse a day to its beginning in UTC. Raises InvalidError."""
    if not text:
        return None
    try:
        found = datetime.combine(date.fromisoformat(text), time(), tzinfo=UTC)
    except ValueError:
        raise InvalidError(loc=loc) from None
    if found.year not in YEARS:
        raise InvalidError(loc=loc)
    return found


def _build_shown(
    found: Sequence[EpisodeView], outcomes: Sequence[EpisodeOutcome]
) -> list[ShownEpisode]:
    room = PageRoom(per_payload=_SHOWN)
    return [
        ShownEpisode(
            episode=each,
            question=chat.build_bubble(each.input, room),
            answer=chat.build_bubble(each.output, room) if each.output else None,
            outcome=outcome,
        )
        for each, outcome in zip(found, outcomes, strict=True)
    ]
