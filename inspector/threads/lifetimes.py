"""Form of the lifetimes of keys and of expired values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from memoryhub.errors import InvalidError, Refusal, StaleError
from memoryhub.models.projects import MOST_TTL_SECONDS, Project
from memoryhub.models.server.clock import clock
from memoryhub.queries.forget import expiry
from memoryhub.queries.forget.expiry import DoomedValues
from memoryhub.services.access import projects

TTL, GRACE = "default_ttl_seconds", "expired_value_grace_seconds"
_TEXTS = {
    TTL: "A key's seconds are a number from 1 to 31,536,000; leave them out for ever.",
    GRACE: "A value's seconds are a number from 0 to 31,536,000; leave them out to keep"
    " it.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LifetimesForm:
    """Form of lifetimes, with the values that saving it would erase."""

    ttl: str
    grace: str
    problem: str = ""
    #: Values that a shorter grace erases at once; None before a try to save.
    doomed: DoomedValues | None = None
    refusal: Refusal | None = None
    most: int = MOST_TTL_SECONDS


def build_form(project: Project) -> LifetimesForm:
    return LifetimesForm(
        ttl=_render_seconds(project.default_ttl_seconds),
        grace=_render_seconds(project.expired_value_grace_seconds),
    )


def save_form(
    project: Project, sent: Mapping[str, str], *, actor: str
) -> LifetimesForm | None:
    """Save the form; return the form if the operator must confirm or correct it.

    A grace that erases values is saved only once `sure` holds exactly that grace.
    """
    form = LifetimesForm(ttl=sent.get(TTL, ""), grace=sent.get(GRACE, ""))
    try:
        ttl, grace = _parse_seconds(TTL, form.ttl), _parse_seconds(GRACE, form.grace)
        projects.require_lifetimes(default_ttl_seconds=ttl, grace_seconds=grace)
        doomed = expiry.count_doomed(project, grace_seconds=grace, now=clock.now())
        if doomed.count and sent.get("sure") != form.grace:
            return replace(form, doomed=doomed, refusal=StaleError())
        projects.set_lifetimes(
            project, default_ttl_seconds=ttl, grace_seconds=grace, actor=actor
        )
    except Refusal as refusal:
        problem = refusal.message
        if isinstance(refusal, InvalidError):
            problem = _TEXTS[refusal.loc]
        return replace(form, problem=problem, refusal=refusal)
    return None


def _parse_seconds(name: str, text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise InvalidError(loc=name)
    return int(text)


def _render_seconds(seconds: int | None) -> str:
    return "" if seconds is None else str(seconds)
