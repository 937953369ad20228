"""How long keys live and their values stay, as a form words it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from memoryhub.errors import InvalidError, Refusal, StaleError
from memoryhub.models.projects import MOST_TTL_SECONDS, Project
from memoryhub.models.server.clock import clock
from memoryhub.queries.forget import expiry
from memoryhub.queries.forget.expiry import Doomed
from memoryhub.services.access import projects

TTL, GRACE = "default_ttl_seconds", "expired_value_grace_seconds"
_TEXTS = {
    TTL: "A key's seconds are a number from 1 to 31,536,000; leave them out for ever.",
    GRACE: "A value's seconds are a number from 0 to 31,536,000; leave them out to keep"
    " it.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """The form, and what saving it would erase."""

    ttl: str
    grace: str
    problem: str = ""
    #: Values that a shorter grace takes at once; None unless it was to be saved.
    doomed: Doomed | None = None
    refusal: Refusal | None = None
    most: int = MOST_TTL_SECONDS


def of(project: Project) -> Lifetimes:
    return Lifetimes(
        ttl=_text(project.default_ttl_seconds),
        grace=_text(project.expired_value_grace_seconds),
    )


def keep(project: Project, sent: Mapping[str, str], *, actor: str) -> Lifetimes | None:
    """Save what was sent; the form again while it must be confirmed or mended.

    What erases values is saved once the form says so in `sure`, for that very grace.
    """
    form = Lifetimes(ttl=sent.get(TTL, ""), grace=sent.get(GRACE, ""))
    try:
        ttl, grace = _seconds(TTL, form.ttl), _seconds(GRACE, form.grace)
        projects.require_lifetimes(default_ttl_seconds=ttl, grace_seconds=grace)
        doomed = expiry.count_doomed(project, grace_seconds=grace, now=clock.now())
        if doomed.count and sent.get("sure") != form.grace:
            return replace(form, doomed=doomed, refusal=StaleError())
        projects.let_expire(
            project, default_ttl_seconds=ttl, grace_seconds=grace, actor=actor
        )
    except Refusal as refusal:
        problem = refusal.message
        if isinstance(refusal, InvalidError):
            problem = _TEXTS[refusal.loc]
        return replace(form, problem=problem, refusal=refusal)
    return None


def _seconds(name: str, text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise InvalidError(loc=name)
    return int(text)


def _text(seconds: int | None) -> str:
    return "" if seconds is None else str(seconds)
