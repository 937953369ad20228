"""Form by which an operator asserts a fact."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
from inspector.lists import person_visits
from inspector.web import asof, refusals
from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.knowledge.facts import (
    MAX_ENTITY,
    MAX_PREDICATE,
    MAX_VALUE,
    NewFact,
    is_valid_text,
)
from memoryhub.models.server.clock import clock
from memoryhub.queries.knowledge import predicates
from memoryhub.services.knowledge import facts, homes

#: Fields of the form with their first values.
_FIELDS: Final[Mapping[str, str]] = {
    "entity": "user",
    "predicate": "",
    "value": "",
    "valid_from": "",
    "valid_until": "",
    "many": "",
}
_LIMITS = {"entity": MAX_ENTITY, "predicate": MAX_PREDICATE, "value": MAX_VALUE}
#: Texts by field; looked up before codes, since one field shares a code's name.
_TEXTS = {
    "entity": f"Say who or what the fact is about, in at most {MAX_ENTITY} characters.",
    "predicate": f"Give the property, in at most {MAX_PREDICATE} characters.",
    "value": f"Give the value, in at most {MAX_VALUE:,} characters.",
    "valid_from": "Choose a first day from 1970 to 2200.",
    "valid_until": "Choose an end after the first day, from 1970 to 2200.",
}


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def add(request: HttpRequest, project: str, subject: UUID) -> HttpResponse:
    """Assert a fact, and redirect to the facts with this fact open.

    A property that is nearly one in use is not written: the form asks which is meant.
    `use` and `keep` answer for the property that the form shows, and for no other.
    """
    visit = person_visits.require_editor(request, project, subject)
    posted = request.method == "POST"
    sent = {name: request.POST.get(name, "") for name in _FIELDS} if posted else _FIELDS
    used = predicates.list_predicates(visit.subject)
    problem: Refusal | None = None
    near: str | None = None
    if posted:
        try:
            claim = _parse_claim(sent)
            near = predicates.find_near_predicate(claim.predicate, used)
            if near is not None and request.POST.get("use") == near:
                claim, near = claim._replace(predicate=near), None
            elif request.POST.get("keep") == claim.predicate:
                near = None
            if near is None:
                command = facts.build_assertion(
                    visit.subject, [(claim, None)], now=clock.now()
                )
                actor = visit.visitor.actor
                receipt = homes.perform(visit.subject, command, actor=actor)
                seq = receipt.events[-1].seq
                query = {"fact": seq, "saved": seq}
                return person_visits.redirect_to_page("facts", visit.names, query)
        except Refusal as refusal:
            problem = refusal
    loc = problem.loc if isinstance(problem, InvalidError) else ""
    return person_visits.render_page(
        request,
        "inspector/knowledge/facts/add.html",
        visit,
        {
            "sent": sent,
            "used": used,
            "near": near,
            "limits": _LIMITS,
            "loc": loc,
            "problem": _TEXTS.get(loc)
            or refusals.get_error_text(problem, numbers=True),
        },
        status=refusals.get_status(problem),
    )


def _parse_claim(sent: Mapping[str, str]) -> NewFact:
    """Parse the form. Raises InvalidError, which names the field."""
    # Browsers send CRLF line ends.
    texts = {name: sent[name].replace("\r\n", "\n").strip() for name in _LIMITS}
    for name, most in _LIMITS.items():
        if not is_valid_text(texts[name], most, lines=name == "value"):
            raise InvalidError(loc=name)
    return NewFact(
        entity=texts["entity"],
        predicate=texts["predicate"],
        value=texts["value"],
        origin="operator",
        valid_from=_parse_day(sent, "valid_from"),
        valid_until=_parse_day(sent, "valid_until"),
        many=bool(sent["many"]),
    )


def _parse_day(sent: Mapping[str, str], name: str) -> datetime | None:
    return asof.parse_instant(sent[name], name) if sent[name] else None
