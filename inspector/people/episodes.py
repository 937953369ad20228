"""Episodes: what happened to a subject, an exchange at a time, over all its threads."""

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

from inspector.access.access import find_visitor, signed_in
from inspector.drawing import chat
from inspector.drawing.chat import Bubble, Room
from inspector.forget import privacy_pages
from inspector.web import asof, shell
from inspector.web.methods import require_post
from memoryhub.errors import InvalidError
from memoryhub.kernel.text.times import YEARS
from memoryhub.models.access.operators import Membership
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.episodes import episodes, pending
from memoryhub.queries.episodes.episodes import Episode, EpisodeFilter
from memoryhub.queries.episodes.pending import Outcome
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.people import subject_lists
from memoryhub.queries.threads import threads
from memoryhub.services.knowledge import consolidations

#: Characters shown of a message; all of it is a click away.
_SHOWN = 4_096
_DAY = timedelta(days=1)
#: What is said of an exchange, by what became of it, and how it is coloured.
_STATES: Final[Mapping[str, tuple[str, str]]] = {
    "pending": ("not asked for facts yet", ""),
    "consolidated": ("asked for facts: nothing to remember", ""),
    "failed": ("asked in vain, asked again soon", "attn"),
    "given_up": ("asked in vain, given up", "bad"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Hold an episode with its question and its answer in words."""

    episode: Episode
    question: Bubble
    answer: Bubble | None
    outcome: Outcome

    @property
    def tools(self) -> tuple[str, ...]:
        """Name the tools that were called, each once, in the order of its first."""
        return tuple(dict.fromkeys(call.name for _, call in self.episode.tool_calls))


@require_safe
@signed_in
def index(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """List its episodes, newest first, of one thread or some days if wanted."""
    visitor = find_visitor(request, project)
    row = privacy_pages.find_subject(visitor, subject)
    wanted = {name: request.GET.get(name, "") for name in ("thread", "from", "to")}
    chosen = {name: word for name, word in wanted.items() if word}
    found = episodes.list_episodes(
        row,
        _filter(row, wanted),
        now=clock.now(),
        after=request.GET.get("after") or None,
        limit=asof.limit(request),
    )
    home, outcomes = find_home(row), pending.list_outcomes(row, found.items)
    visitor.note(each.thread for each in found.items)
    if home is not None and any(each.facts for each in outcomes):
        visitor.note([home])
    context = {
        "subject": row,
        "listed": _drawn(found.items, outcomes),
        "pending": pending.count(row),
        "home": home,
        "states": _STATES,
        "asks": settings.MODEL is not None and visitor.project.consolidate == "auto",
        "wanted": wanted,
        "chosen": chosen,
        "names": subject_lists.list_thread_names(row),
        "more": urlencode({**chosen, "after": found.next}) if found.next else "",
    }
    template = "inspector/people/episodes/index.html"
    return shell.page(request, template, context, visitor=visitor, section="subjects")


@require_post
@signed_in
def retry(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Have the model asked once more for an exchange that failed."""
    visitor = find_visitor(request, project)
    row = privacy_pages.find_subject(visitor, subject)
    visitor.require(Membership.Role.EDITOR)
    thread, _, begin = request.POST.get("exchange", "").partition(" ")
    try:
        place = UUID(thread), int(begin)
    except ValueError:
        raise InvalidError(loc="exchange") from None
    consolidations.retry(row, *place, now=clock.now(), actor=visitor.actor)
    where = {"project": project, "subject": subject}
    return HttpResponseRedirect(reverse("episodes", kwargs=where))


def _filter(row: Subject, wanted: dict[str, str]) -> EpisodeFilter:
    """Read what is wanted. Raises InvalidError, and NotFoundError for a thread."""
    last = _day(wanted["to"], "to")
    return EpisodeFilter(
        thread=_thread(row, wanted["thread"]) if wanted["thread"] else None,
        begin=_day(wanted["from"], "from"),
        end=last and last + _DAY,
    )


def _thread(row: Subject, name: str) -> Thread:
    return threads.get_thread(row.project_id, name, subject=row.id)


def _day(text: str, loc: str) -> datetime | None:
    """Read where a day begins, by UTC."""
    if not text:
        return None
    try:
        found = datetime.combine(date.fromisoformat(text), time(), tzinfo=UTC)
    except ValueError:
        raise InvalidError(loc=loc) from None
    if found.year not in YEARS:
        raise InvalidError(loc=loc)
    return found


def _drawn(found: Sequence[Episode], outcomes: Sequence[Outcome]) -> list[Drawn]:
    room = Room(per_payload=_SHOWN)
    return [
        Drawn(
            episode=each,
            question=chat.bubble(each.input, room),
            answer=chat.bubble(each.output, room) if each.output else None,
            outcome=outcome,
        )
        for each, outcome in zip(found, outcomes, strict=True)
    ]
