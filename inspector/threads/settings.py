from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.drawing import policy
from inspector.threads import lifetimes, price_form
from inspector.threads.lifetimes import LifetimesForm
from inspector.threads.price_form import PriceForm
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

_MOVED = "The preview has changed since you looked. Here is a new one."
_MORE = "More exchanges wait now than you agreed to. Here is their new number."
_INSTRUCTIONS = "Enter at most 8 KiB: a few sentences."
_THREADS = "Enter a number of threads from 1 to 10,000,000."


@dataclass(frozen=True, slots=True, kw_only=True)
class IdlePolicyForm:
    """Form of the idle policy, with the threads that its days would retire."""

    text: str
    days: int | None = None
    horizons: tuple[Horizon, ...] = ()
    #: Whether the days differ from the saved days.
    changed: bool = False
    problem: str = ""
    most: int = MOST_IDLE_DAYS

    @property
    def due(self) -> Horizon | None:
        """Threads that would be retired at once."""
        return self.horizons[0] if self.horizons else None

    @property
    def query(self) -> str:
        """Query that lists threads by these days; empty if the days are saved."""
        return urlencode({policy.FIELD: self.text}) if self.changed else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimitsForm:
    """Form of the limits on what agents may create."""

    max_threads: str
    create_on_write: bool
    problem: str = ""
    most: int = MOST_THREADS


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionsForm:
    """Form of the project's additional instructions for observer and reflector."""

    observer: str
    reflector: str
    problem: str = ""
    most: int = MOST_INSTRUCTION_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogForm:
    """Form of consolidation, with the backlog once the operator asked for it."""

    backlog: Backlog | None = None
    problem: str = ""


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def show(request: HttpRequest, project: str) -> HttpResponse:
    """Show a project's settings; with days in the URL, what those days would retire."""
    visitor = access.require_owner(request, project)
    if request.method != "POST":
        return _render_requested(request, visitor)
    access.require_recent_sign_in(request)
    save, anchor = next(
        (form for name, form in _FORMS.items() if name in request.POST),
        (_save_limits, "limits"),
    )
    here = reverse("settings", kwargs={"project": project})
    saved = HttpResponseRedirect(f"{here}?saved={anchor}#{anchor}")
    return save(request, visitor) or saved


def _render_requested(request: HttpRequest, visitor: Visitor) -> HttpResponse:
    if "backlog" in request.GET:
        counted = BacklogForm(backlog=get_backlog(visitor.project))
        return _render_page(request, visitor, learning=counted)
    try:
        proposed = policy.build_assumed_project(request, visitor.project)
    except InvalidError as refusal:
        wrong = IdlePolicyForm(text=request.GET[policy.FIELD], problem=policy.DAYS_TEXT)
        return _render_page(request, visitor, idle=wrong, refusal=refusal)
    return _render_page(request, visitor, idle=_preview_idle(visitor.project, proposed))


def _preview_idle(
    saved: Project, proposed: Project, *, problem: str = ""
) -> IdlePolicyForm:
    return IdlePolicyForm(
        text=policy.render_days(proposed.retention_idle_days),
        days=proposed.retention_idle_days,
        horizons=retention.list_horizons(proposed, now=clock.now()),
        changed=proposed.retention_idle_days != saved.retention_idle_days,
        problem=problem,
    )


def _save_idle(request: HttpRequest, visitor: Visitor) -> HttpResponse | None:
    """Save the days as previewed; return the page if that is refused."""
    saved, text = visitor.project, request.POST[policy.FIELD]
    try:
        proposed = policy.copy_with_days(saved, policy.read(text))
        fresh = _preview_idle(saved, proposed, problem=_MOVED)
        was, due = request.POST.get("was"), request.POST.get("due")
        now_is = (
            policy.render_days(saved.retention_idle_days),
            str(fresh.horizons[0].count),
        )
        if (was, due) != now_is:
            return _render_page(request, visitor, idle=fresh, refusal=StaleError())
        days = proposed.retention_idle_days
        projects.set_retention(saved, idle_days=days, actor=visitor.actor)
    except Refusal as refusal:
        problem = refusals.get_error_text(refusal, {InvalidError: policy.DAYS_TEXT})
        sent = IdlePolicyForm(text=text, problem=problem)
        return _render_page(request, visitor, idle=sent, refusal=refusal)
    return None


def _save_limits(request: HttpRequest, visitor: Visitor) -> HttpResponse | None:
    text, create = (
        request.POST.get("max_threads", ""),
        "create_on_write" in request.POST,
    )
    try:
        most = _parse_number(text.strip())
        projects.configure(
            visitor.project,
            max_threads=most,
            create_on_write=create,
            actor=visitor.actor,
        )
    except Refusal as refusal:
        problem = refusals.get_error_text(refusal, {InvalidError: _THREADS})
        sent = AgentLimitsForm(
            max_threads=text, create_on_write=create, problem=problem
        )
        return _render_page(request, visitor, limits=sent, refusal=refusal)
    return None


def _save_lifetimes(request: HttpRequest, visitor: Visitor) -> HttpResponse | None:
    again = lifetimes.save_form(
        visitor.project, request.POST.dict(), actor=visitor.actor
    )
    if again is None:
        return None
    return _render_page(request, visitor, lasting=again, refusal=again.refusal)


def _save_consolidation(request: HttpRequest, visitor: Visitor) -> HttpResponse | None:
    project, auto = visitor.project, request.POST["consolidate"] == "auto"
    text = request.POST.get("backlog")
    backlog = None if text is None else _parse_number(text, loc="backlog")
    try:
        projects.set_consolidation(
            project, auto=auto, backlog=backlog, actor=visitor.actor
        )
    except InvalidError as refusal:
        fresh = BacklogForm(backlog=get_backlog(project), problem=_MORE)
        return _render_page(request, visitor, learning=fresh, refusal=refusal)
    return None


def _save_instructions(request: HttpRequest, visitor: Visitor) -> HttpResponse | None:
    observer = request.POST["observer_instructions"]
    reflector = request.POST.get("reflector_instructions", "")
    try:
        projects.set_observer_instructions(
            visitor.project, observer=observer, reflector=reflector, actor=visitor.actor
        )
    except Refusal as refusal:
        problem = refusals.get_error_text(refusal, {InvalidError: _INSTRUCTIONS})
        sent = InstructionsForm(observer=observer, reflector=reflector, problem=problem)
        return _render_page(request, visitor, instructions=sent, refusal=refusal)
    return None


def _save_prices(request: HttpRequest, visitor: Visitor) -> HttpResponse | None:
    project = visitor.project
    try:
        price_form.save_form(project, request.POST, actor=visitor.actor)
    except InvalidError as refusal:
        sent = price_form.build_refused_form(project, request.POST)
        return _render_page(request, visitor, pricing=sent, refusal=refusal)
    return None


#: Functions that save a form, and the anchor of the form, by a field that only this
#: form has.
_FORMS = {
    policy.FIELD: (_save_idle, "retention"),
    lifetimes.GRACE: (_save_lifetimes, "lifetimes"),
    "consolidate": (_save_consolidation, "consolidate"),
    "observer_instructions": (_save_instructions, "instructions"),
    price_form.FIELD: (_save_prices, "prices"),
}


def _parse_number(text: str, *, loc: str = "max_threads") -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise InvalidError(loc=loc)
    return int(text)


def _render_page(
    request: HttpRequest,
    visitor: Visitor,
    *,
    idle: IdlePolicyForm | None = None,
    limits: AgentLimitsForm | None = None,
    lasting: LifetimesForm | None = None,
    instructions: InstructionsForm | None = None,
    learning: BacklogForm | None = None,
    pricing: PriceForm | None = None,
    refusal: Refusal | None = None,
) -> HttpResponse:
    saved = visitor.project
    context = {
        "idle": idle or _preview_idle(saved, saved),
        "limits": limits
        or AgentLimitsForm(
            max_threads=str(saved.max_threads), create_on_write=saved.create_on_write
        ),
        "lasting": lasting or lifetimes.build_form(saved),
        "instructions": instructions
        or InstructionsForm(
            observer=saved.observer_instructions,
            reflector=saved.reflector_instructions,
        ),
        "learning": learning or BacklogForm(),
        "pricing": pricing or price_form.build_form(saved),
        "was": policy.render_days(saved.retention_idle_days),
        "saved": request.GET.get("saved", ""),
        "model": settings.MODEL.host if settings.MODEL else "",
        "daily": settings.MODEL_DAILY_TOKENS,
        "used": model_use.get_use(saved.id, now=clock.now()),
    }
    return shell.render_page(
        request,
        "inspector/threads/settings/show.html",
        context,
        visitor=visitor,
        section="settings",
        status=refusals.get_status(refusal),
    )
