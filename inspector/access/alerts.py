"""Alerts of a project: thresholds, receivers, silences and history, for owners."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.web import refusals, shell
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, Refusal
from memoryhub.models.alerts import Alert
from memoryhub.models.server.clock import clock
from memoryhub.queries.access import webhooks
from memoryhub.queries.overview import alerts as queries
from memoryhub.queries.threads.thresholds import BOUNDS
from memoryhub.services.access import alerts
from memoryhub.services.access.webhooks import ALERT_TYPES

#: Label, unit and explanation of each threshold, by the project's column.
_LABELS: Final[Mapping[str, tuple[str, str, str]]] = {
    "most_refaults": (
        "Thrashing",
        "fetches",
        "of pages that had just left, which a thread may have in its last 5 turns",
    ),
    "least_resident_percent": (
        "Resident rate",
        "or more",
        "of a thread's last 20 exchanges fetch nothing",
    ),
    "most_refused_fetches": (
        "Refused fetches",
        "fetches",
        "of a thread may be refused in this hour and the one before",
    ),
    "least_hit_percent": (
        "TLB hit rate",
        "or more",
        "of a thread's look-ups are answered without the page table",
    ),
    "most_refusals": (
        "Refused requests",
        "requests",
        "of the project may be refused in 10 minutes",
    ),
    "most_model_failures": (
        "Language model",
        "failed calls",
        "may happen in 24 hours, if fewer than half of all calls fail",
    ),
}


def _render(name: str, value: int, form: str = "d") -> str:
    """Render a threshold; percents as shares, `0.50`, as on all other pages."""
    return f"{value / 100:.2f}" if name.endswith("_percent") else format(value, form)


#: Lengths of a silence, in hours.
SILENCES: Final = (1, 8)
#: Formats of a threshold: a count, and a share of hundredths.
_COUNT, _SHARE = re.compile("[0-9]{1,9}"), re.compile(r"[0-9]{1,3}(?:\.[0-9]{0,2})?")
_UNTIL: Final = "Choose an instant that is still to come, in UTC."
_PROBLEMS: refusals.Texts = {
    "mail": "Enter one e-mail address, or none.",
    "until": _UNTIL,
    **{
        name: f"Enter a number from {_render(name, each.least)}"
        f" to {_render(name, each.most, ',')}."
        for name, each in BOUNDS.items()
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdField:
    """A threshold in the form: its words, bounds and text."""

    name: str
    label: str
    unit: str
    about: str
    #: The default, the least and the greatest value, and the step, as texts.
    default: str
    least: str
    most: str
    step: str
    text: str
    #: Whether an owner set the threshold.
    is_own: bool
    problem: str = ""


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def show(request: HttpRequest, project: str) -> HttpResponse:
    """Show thresholds, receivers, silences and the history of alerts; save a form."""
    visitor = access.require_owner(request, project)
    if request.method != "POST":
        return _render_page(request, visitor)
    access.require_recent_sign_in(request)
    try:
        anchor = _save_form(request, visitor)
    except Refusal as refusal:
        return _render_page(request, visitor, refusal=refusal)
    here = reverse("alerts", kwargs={"project": project})
    return HttpResponseRedirect(f"{here}?saved={anchor}#{anchor}")


def _save_form(request: HttpRequest, visitor: Visitor) -> str:
    """Save the form that was sent; return its anchor. Raises InvalidError."""
    sent, project, actor = request.POST, visitor.project, visitor.actor
    if "thresholds" in sent:
        reset = sent["thresholds"] in BOUNDS
        names = [sent["thresholds"]] if reset else [*BOUNDS]
        values = {
            name: None if reset else _parse_number(name, sent.get(name, ""))
            for name in names
        }
        alerts.set_thresholds(project, values, actor=actor)
        return "thresholds"
    if "check" in sent:
        until = _parse_until(sent.get("for", ""), sent.get("until", ""))
        alerts.set_silence(project, sent["check"], until=until, actor=actor)
        return "open"
    chosen = {each.id for each in webhooks.list_webhooks(project)}
    ids = {str(each): each for each in chosen}
    alerts.set_receivers(
        project,
        tone=sent.get("tone", ""),
        mail=sent.get("mail", "").strip(),
        webhooks={ids[each] for each in sent.getlist("webhooks") if each in ids},
        actor=actor,
    )
    return "receivers"


def _parse_number(name: str, text: str) -> int | None:
    """Parse a threshold; the default is stored as None, so that it stays a default."""
    text = text.strip()
    if not text:
        return None
    share = name.endswith("_percent")
    if not (_SHARE if share else _COUNT).fullmatch(text):
        raise InvalidError(loc=name)
    value = round(100 * float(text)) if share else int(text)
    return None if value == BOUNDS[name].default else value


def _parse_until(hours: str, text: str) -> datetime | None:
    """Parse the end of a silence: hours from now, an instant in UTC, or none."""
    if hours == "tell":
        return None
    if hours in {str(each) for each in SILENCES}:
        return clock.now() + timedelta(hours=int(hours))
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        raise InvalidError(loc="until") from None


def _render_page(
    request: HttpRequest, visitor: Visitor, *, refusal: Refusal | None = None
) -> HttpResponse:
    project, now = visitor.project, clock.now()
    problem = refusals.get_error_text(refusal, _PROBLEMS)
    loc = refusal.loc if isinstance(refusal, InvalidError) else ""
    silences = queries.get_silences(project, now=now)
    open_alerts = queries.list_open_alerts(project)
    flags = queries.list_thread_checks(project)
    context = {
        "fields": [
            _build_field(request, visitor, name, problem if name == loc else "")
            for name in BOUNDS
        ],
        "problem": "" if loc in BOUNDS else problem,
        "webhooks": [
            (each, {*each.types.split()} >= ALERT_TYPES)
            for each in webhooks.list_webhooks(project)
        ],
        "mail_host": settings.EMAIL_HOST,
        "open_alerts": [(each, silences.get(each.check_key)) for each in open_alerts],
        "flags": flags,
        "closed": _list_closed(visitor, open_alerts, flags, now=now),
        "named": queries.list_alert_threads(project, restricted=visitor.officer),
        "history": queries.list_ended_alerts(project),
        "titles": queries.TITLES,
        "tones": alerts.TONES,
        "hours": SILENCES,
        "silences": silences,
        "saved": request.GET.get("saved", ""),
        "least_until": now.strftime("%Y-%m-%dT%H:%M"),
    }
    return shell.render_page(
        request,
        "inspector/access/alerts/show.html",
        context,
        visitor=visitor,
        section="alerts",
        status=refusals.get_status(refusal),
    )


def _list_closed(
    visitor: Visitor, open_alerts: Iterable[Alert], flags: set[str], *, now: datetime
) -> dict[str, tuple[list[str], int]]:
    """List by check the threads that closed since, each under its first alert only.

    With the number of those that an earlier alert names. One query for each alert.
    """
    found: dict[str, tuple[list[str], int]] = {}
    named = set[str]()
    for alert in open_alerts:
        if alert.check_key in flags:
            names = queries.list_closed_threads(
                visitor.project, alert, now=now, restricted=visitor.officer
            )
            fresh = [name for name in names if name not in named]
            found[alert.check_key] = fresh, len(names) - len(fresh)
            named.update(fresh)
    return found


def _build_field(
    request: HttpRequest, visitor: Visitor, name: str, problem: str
) -> ThresholdField:
    label, unit, about = _LABELS[name]
    saved = getattr(visitor.project, name)
    default, least, most = (_render(name, each) for each in BOUNDS[name])
    text = default if saved is None else _render(name, saved)
    return ThresholdField(
        name=name,
        label=label,
        unit=unit,
        about=about,
        default=default,
        least=least,
        most=most,
        step="0.01" if name.endswith("_percent") else "1",
        text=request.POST.get(name, text)[:9] if problem else text,
        is_own=saved is not None,
        problem=problem,
    )
