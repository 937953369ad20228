"""Acts of an operator on a fact: retract, end, set how many values hold at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
from inspector.lists import person_visits
from inspector.web import asof, refusals
from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.commands import Command
from memoryhub.kernel.knowledge.facts import Reason, RetractFacts
from memoryhub.models.server.clock import clock
from memoryhub.queries.knowledge import facts
from memoryhub.queries.knowledge.facts import FactStory
from memoryhub.queries.knowledge.timelines import Timeline
from memoryhub.services.knowledge import facts as writing
from memoryhub.services.knowledge import homes

REASONS = get_args(Reason)
#: Cardinalities that the form offers, with the kernel's value of each.
VALUES: Mapping[str, Any] = {"single": "single", "multi": "multi", "derived": None}
#: Command for the chosen change, and the timeline as it would be afterwards.
FactChange = tuple[Command, Timeline]


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def act(
    request: HttpRequest, project: str, subject: UUID, fact: int, verb: str
) -> HttpResponse:
    """Show what a change of a fact would lead to; a POST performs the change."""
    if verb not in VERBS:
        raise Http404
    visit = person_visits.require_editor(request, project, subject)
    row = visit.subject
    story = facts.get_fact(
        row, fact, now=clock.now(), nth=asof.read_number(request, "nth")
    )
    posted = request.method == "POST"
    sent = request.POST if posted else request.GET
    problem: Refusal | None = None
    change: FactChange | None = None
    try:
        change = VERBS[verb](story, sent)
        if posted and change is not None:
            (command, _), actor = change, visit.visitor.actor
            receipt = homes.perform(row, command, actor=actor, epoch=row.epoch)
            query = {"done": receipt.events[-1].seq} if receipt.events else {}
            return person_visits.redirect_to_page("facts", visit.names, query)
    except Refusal as refusal:
        problem = refusal
    return person_visits.render_page(
        request,
        "inspector/knowledge/facts/act.html",
        visit,
        _build_context(story, verb, sent, change, problem),
        status=refusals.get_status(problem),
    )


def _build_context(
    story: FactStory,
    verb: str,
    sent: Mapping[str, str],
    change: FactChange | None,
    problem: Refusal | None,
) -> dict[str, Any]:
    after = None
    if change is not None:
        _, timeline = change
        derived = [(timeline, fact) for fact in timeline.facts]
        after = [*facts.iter_fact_lines(story.home, derived)]
    text = problem.sentence if problem else ""
    if isinstance(problem, InvalidError) and problem.loc == "at":
        text = "Give a time after the fact began to be true."
    return {
        "verb": verb,
        "fact": story.fact,
        # Facts that follow from one statement share their id.
        "nth": story.timeline.index(story.fact),
        "reasons": REASONS,
        "values": [*VALUES],
        "reason": sent.get("reason", REASONS[0]),
        "ends_at": sent.get("at", ""),
        "cardinality": sent.get("cardinality", ""),
        "before": story.timeline,
        "after": after,
        "problem": text,
    }


def _plan_retraction(story: FactStory, sent: Mapping[str, str]) -> FactChange:
    reason = sent.get("reason", REASONS[0])
    if reason not in REASONS:
        raise InvalidError(loc="reason")
    seqs, wrong = story.rests_on, reason == "wrong"
    after = story.unopened.retract_assertions(seqs, wrong=wrong)
    return RetractFacts(seqs=seqs, reason=reason), after


def _plan_end(story: FactStory, sent: Mapping[str, str]) -> FactChange | None:
    if not sent.get("at"):
        return None
    at, now = asof.parse_instant(sent["at"], "at"), clock.now()
    subject, seq = story.home.subject, story.fact.id
    command = writing.build_ending(subject, seq, at=at, origin="operator", now=now)
    held = facts.choose_fact(story.unopened, seq, at=at)
    assert held is not None
    return command, story.unopened.end_fact(held, at)


def _plan_cardinality(story: FactStory, sent: Mapping[str, str]) -> FactChange | None:
    word = sent.get("cardinality", "")
    if not word:
        return None
    if word not in VALUES:
        raise InvalidError(loc="cardinality")
    fact, value = story.fact, VALUES[word]
    command = writing.build_configuration(fact.entity, fact.predicate, value)
    return command, story.unopened.set_cardinality(value)


#: Planners by the verb in the address; None while the form is empty.
VERBS: Mapping[str, Callable[[FactStory, Mapping[str, str]], FactChange | None]] = {
    "retract": _plan_retraction,
    "end": _plan_end,
    "cardinality": _plan_cardinality,
}
