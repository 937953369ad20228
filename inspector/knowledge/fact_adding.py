"""A fact that an operator asserts by hand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access.access import signed_in
from inspector.knowledge import home_visits
from inspector.lists import visits
from inspector.web import asof, refusals
from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.knowledge.facts import (
    MAX_ENTITY,
    MAX_PREDICATE,
    MAX_VALUE,
    fits,
)
from memoryhub.models.server.clock import clock
from memoryhub.services.knowledge import facts, homes
from memoryhub.services.knowledge.facts import FactDraft

#: What the form has, and what stands there at first.
_FIELDS: Final[Mapping[str, str]] = {
    "entity": "user",
    "predicate": "",
    "value": "",
    "valid_from": "",
    "valid_until": "",
    "many": "",
}
_LIMITS = {"entity": MAX_ENTITY, "predicate": MAX_PREDICATE, "value": MAX_VALUE}
#: What is said of a field: one of them is called as a code is.
_TEXTS = {
    "entity": f"Say who or what it is about, in at most {MAX_ENTITY} characters.",
    "predicate": f"Say what about it, in at most {MAX_PREDICATE} characters.",
    "value": f"Say what holds, in at most {MAX_VALUE:,} characters.",
    "valid_from": "That is no day from which it can hold: 1970 to 2200.",
    "valid_until": "Say until when it held: a day after it began, 1970 to 2200.",
}


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def add(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Assert a fact, and go to where it is shown."""
    visitor, row = home_visits.find_editing(request, project, thread)
    posted = request.method == "POST"
    sent = {name: request.POST.get(name, "") for name in _FIELDS} if posted else _FIELDS
    problem: Refusal | None = None
    if posted:
        try:
            drafts, now = [_draft(sent)], clock.now()
            command = facts.assertion(row.subject, drafts, now=now)
            receipt = homes.perform(row.subject, command, actor=visitor.actor)
        except Refusal as refusal:
            problem = refusal
        else:
            where = {"project": project, "thread": receipt.name}
            query = urlencode({"fact": receipt.events[-1].seq})
            return HttpResponseRedirect(f"{reverse('facts', kwargs=where)}?{query}")
    loc = problem.loc if isinstance(problem, InvalidError) else ""
    return visits.thread_page(
        request,
        "inspector/knowledge/facts/add.html",
        visitor,
        row,
        {
            "sent": sent,
            "limits": _LIMITS,
            "loc": loc,
            "problem": _TEXTS.get(loc) or refusals.error_text(problem, numbers=True),
        },
        status=refusals.status_of(problem),
    )


def _draft(sent: Mapping[str, str]) -> FactDraft:
    """Read the form. Raises InvalidError, which names the field."""
    # Browsers end the lines of a form their own way.
    texts = {name: sent[name].replace("\r\n", "\n").strip() for name in _LIMITS}
    for name, most in _LIMITS.items():
        if not fits(texts[name], most, lines=name == "value"):
            raise InvalidError(loc=name)
    return FactDraft(
        entity=texts["entity"],
        predicate=texts["predicate"],
        value=texts["value"],
        origin="operator",
        valid_from=_day(sent, "valid_from"),
        valid_until=_day(sent, "valid_until"),
        many=bool(sent["many"]),
    )


def _day(sent: Mapping[str, str], name: str) -> datetime | None:
    return asof.instant(sent[name], name) if sent[name] else None
