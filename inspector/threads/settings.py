from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access import access
from inspector.access.access import signed_in
from inspector.drawing import policy
from inspector.threads import lifetimes
from inspector.threads.lifetimes import Lifetimes
from inspector.web import refusals, shell
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, Refusal, StaleError
from memoryhub.models.projects import (
    MOST_IDLE_DAYS,
    MOST_INSTRUCTION_BYTES,
    MOST_THREADS,
    Project,
)
from memoryhub.models.server.clock import clock
from memoryhub.queries.episodes.backlog import Backlog, get_backlog
from memoryhub.queries.knowledge import model_use
from memoryhub.queries.threads import retention
from memoryhub.queries.threads.retention import Horizon
from memoryhub.services.access import projects

_MOVED = "What this would retire has changed since you looked. Here it is anew."
_MORE = "More exchanges wait by now than you agreed to. Here is their number."
_INSTRUCTIONS = "At most 8 KiB are wanted: a few sentences."
_THREADS = "A number of threads from 1 to 10,000,000 is wanted."


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Hold the form of the policy, and what its days would retire."""

    text: str
    days: int | None = None
    horizons: tuple[Horizon, ...] = ()
    #: Whether these are other days than the saved ones.
    changed: bool = False
    problem: str = ""
    most: int = MOST_IDLE_DAYS

    @property
    def due(self) -> Horizon | None:
        """Give what would be retired at once."""
        return self.horizons[0] if self.horizons else None

    @property
    def query(self) -> str:
        """Word what shows the list of threads by these days, if they are not saved."""
        return urlencode({policy.FIELD: self.text}) if self.changed else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Hold the form of what agents may make."""

    max_threads: str
    create_on_write: bool
    problem: str = ""
    most: int = MOST_THREADS


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """Hold the form of what the observer is asked besides."""

    text: str
    problem: str = ""
    most: int = MOST_INSTRUCTION_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """Hold what the form of the model shows besides: the backlog, once asked for."""

    backlog: Backlog | None = None
    problem: str = ""


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def show(request: HttpRequest, project: str) -> HttpResponse:
    """Show a project's settings; with days in the URL, what those would retire."""
    visitor = access.find_owner(request, project)
    if request.method != "POST":
        return _looked(request, visitor)
    access.require_recent_sign_in(request)
    save = next((s for name, s in _FORMS.items() if name in request.POST), _limit)
    here = reverse("settings", kwargs={"project": project})
    return save(request, visitor) or HttpResponseRedirect(here)


def _looked(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    if "backlog" in request.GET:
        counted = Learning(backlog=get_backlog(visitor.project))
        return _page(request, visitor, learning=counted)
    try:
        proposed = policy.assumed(request, visitor.project)
    except InvalidError as refusal:
        wrong = Idle(text=request.GET[policy.FIELD], problem=policy.DAYS_TEXT)
        return _page(request, visitor, idle=wrong, refusal=refusal)
    return _page(request, visitor, idle=_previewed(visitor.project, proposed))


def _previewed(saved: Project, proposed: Project, *, problem: str = "") -> Idle:
    return Idle(
        text=policy.text(proposed.retention_idle_days),
        days=proposed.retention_idle_days,
        horizons=retention.list_horizons(proposed, now=clock.now()),
        changed=proposed.retention_idle_days != saved.retention_idle_days,
        problem=problem,
    )


def _keep(request: HttpRequest, visitor: Visitor) -> HttpResponse | None:
    """Save the days as they were previewed; the page again if that can't be."""
    saved, text = visitor.project, request.POST[policy.FIELD]
    try:
        proposed = policy.with_days(saved, policy.read(text))
        fresh = _previewed(saved, proposed, problem=_MOVED)
        was, due = request.POST.get("was"), request.POST.get("due")
        now_is = policy.text(saved.retention_idle_days), str(fresh.horizons[0].count)
        if (was, due) != now_is:
            return _page(request, visitor, idle=fresh, refusal=StaleError())
        days = proposed.retention_idle_days
        projects.keep(saved, idle_days=days, actor=visitor.actor)
    except Refusal as refusal:
        problem = refusals.error_text(refusal, {InvalidError: policy.DAYS_TEXT})
        sent = Idle(text=text, problem=problem)
        return _page(request, visitor, idle=sent, refusal=refusal)
    return None


def _limit(request: HttpRequest, visitor: Visitor) -> HttpResponse | None:
    text, create = (
        request.POST.get("max_threads", ""),
        "create_on_write" in request.POST,
    )
    try:
        most = _number(text.strip())
        projects.configure(
            visitor.project,
            max_threads=most,
            create_on_write=create,
            actor=visitor.actor,
        )
    except Refusal as refusal:
        problem = refusals.error_text(refusal, {InvalidError: _THREADS})
        sent = Limits(max_threads=text, create_on_write=create, problem=problem)
        return _page(request, visitor, limits=sent, refusal=refusal)
    return None


def _expire(request: HttpRequest, visitor: Visitor) -> HttpResponse | None:
    again = lifetimes.keep(visitor.project, request.POST.dict(), actor=visitor.actor)
    if again is None:
        return None
    return _page(request, visitor, lasting=again, refusal=again.refusal)


def _consolidate(request: HttpRequest, visitor: Visitor) -> HttpResponse | None:
    project, auto = visitor.project, request.POST["consolidate"] == "auto"
    text = request.POST.get("backlog")
    backlog = None if text is None else _number(text, loc="backlog")
    try:
        projects.consolidate(project, auto=auto, backlog=backlog, actor=visitor.actor)
    except InvalidError as refusal:
        fresh = Learning(backlog=get_backlog(project), problem=_MORE)
        return _page(request, visitor, learning=fresh, refusal=refusal)
    return None


def _instruct(request: HttpRequest, visitor: Visitor) -> HttpResponse | None:
    text = request.POST["observer_instructions"]
    try:
        projects.instruct(visitor.project, observer=text, actor=visitor.actor)
    except Refusal as refusal:
        problem = refusals.error_text(refusal, {InvalidError: _INSTRUCTIONS})
        sent = Instructions(text=text, problem=problem)
        return _page(request, visitor, instructions=sent, refusal=refusal)
    return None


#: What saves a form, by a field that it alone has.
_FORMS = {
    policy.FIELD: _keep,
    lifetimes.GRACE: _expire,
    "consolidate": _consolidate,
    "observer_instructions": _instruct,
}


def _number(text: str, *, loc: str = "max_threads") -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise InvalidError(loc=loc)
    return int(text)


def _page(
    request: HttpRequest,
    visitor: Visitor,
    *,
    idle: Idle | None = None,
    limits: Limits | None = None,
    lasting: Lifetimes | None = None,
    instructions: Instructions | None = None,
    learning: Learning | None = None,
    refusal: Refusal | None = None,
) -> HttpResponse:
    saved = visitor.project
    context = {
        "idle": idle or _previewed(saved, saved),
        "limits": limits
        or Limits(
            max_threads=str(saved.max_threads), create_on_write=saved.create_on_write
        ),
        "lasting": lasting or lifetimes.of(saved),
        "instructions": instructions or Instructions(text=saved.observer_instructions),
        "learning": learning or Learning(),
        "was": policy.text(saved.retention_idle_days),
        "model": settings.MODEL.host if settings.MODEL else "",
        "daily": settings.MODEL_DAILY_TOKENS,
        "used": model_use.get_use(saved.id, now=clock.now()),
    }
    return shell.page(
        request,
        "inspector/threads/settings/show.html",
        context,
        visitor=visitor,
        section="settings",
        status=refusals.status_of(refusal),
    )
