"""Form by which an operator corrects a fact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
from inspector.lists import person_visits
from inspector.web import asof, refusals
from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.knowledge.facts import MAX_VALUE, is_valid_text
from memoryhub.models.server.clock import clock
from memoryhub.queries.knowledge import facts
from memoryhub.services.knowledge import corrections, homes
from memoryhub.services.knowledge.corrections import Correction

#: What was wrong with the value: it was never true, or it is no longer.
WRONG, CHANGED = "wrong", "changed"
_TEXTS: Final = {
    "value": f"Give another value, in at most {MAX_VALUE:,} characters.",
    "since": "Choose a day after the old value began to be true, until 2200.",
    "how": "Choose whether the value was never true or has changed.",
}


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def correct(
    request: HttpRequest, project: str, subject: UUID, fact: int
) -> HttpResponse:
    """Correct a fact, and redirect to the new fact, where the edit can be undone."""
    visit = person_visits.require_editor(request, project, subject)
    row = visit.subject
    now, posted = clock.now(), request.method == "POST"
    story = facts.get_fact(row, fact, now=now)
    first = {"value": story.fact.value, "how": WRONG, "since": ""}
    sent = {name: request.POST.get(name, "") for name in first} if posted else first
    problem: Refusal | None = None
    if posted:
        try:
            correction = _parse_correction(sent)
            command = corrections.build_correction(row, story, correction, now=now)
            actor, epoch = visit.visitor.actor, row.epoch
            receipt = homes.perform(row, command, actor=actor, epoch=epoch)
        except Refusal as refusal:
            problem = refusal
        else:
            seq = receipt.events[-1].seq
            query = {"fact": seq, "saved": seq}
            return person_visits.redirect_to_page("facts", visit.names, query)
    loc = problem.loc if isinstance(problem, InvalidError) else ""
    return person_visits.render_page(
        request,
        "inspector/knowledge/facts/correct.html",
        visit,
        {
            "fact": story.fact,
            "sent": sent,
            "most": MAX_VALUE,
            "loc": loc,
            "problem": _TEXTS.get(loc)
            or refusals.get_error_text(problem, numbers=True),
        },
        status=refusals.get_status(problem),
    )


def _parse_correction(sent: Mapping[str, str]) -> Correction:
    """Parse the form. Raises InvalidError, which names the field."""
    # Browsers send CRLF line ends.
    value = sent["value"].replace("\r\n", "\n").strip()
    if not is_valid_text(value, MAX_VALUE, lines=True):
        raise InvalidError(loc="value")
    if sent["how"] not in (WRONG, CHANGED):
        raise InvalidError(loc="how")
    if sent["how"] == WRONG:
        return Correction(value=value, since=None)
    text = sent["since"]
    since = asof.parse_instant(text, "since") if text else clock.now()
    return Correction(value=value, since=since)
