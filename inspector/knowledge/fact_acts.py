"""Acts of an operator on a fact: retract, end, set how many values hold at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
from inspector.knowledge import home_visits
from inspector.lists import visits
from inspector.web import asof, refusals
from memoryhub.errors import FactUnknownError, InvalidError, Refusal
from memoryhub.kernel.commands import Command
from memoryhub.kernel.knowledge.facts import Reason, RetractFacts
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import facts
from memoryhub.queries.knowledge.facts import FactStory
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.knowledge.timelines import Timeline, find_timeline
from memoryhub.services.knowledge import facts as writing
from memoryhub.services.knowledge import homes

REASONS = get_args(Reason)
#: Cardinalities that the form offers, with the kernel's value of each.
VALUES: Mapping[str, Any] = {"single": "single", "multi": "multi", "derived": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class _FactAtHand:
    """Fact of a subject with its home thread and its timeline."""

    subject: Subject
    home: Thread
    timeline: Timeline
    story: FactStory


@dataclass(frozen=True, slots=True, kw_only=True)
class _FactChange:
    """Command for the chosen change, and the timeline as it would be afterwards."""

    command: Command
    after: Timeline


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def act(
    request: HttpRequest, project: str, thread: str, fact: int, verb: str
) -> HttpResponse:
    """Show what a change of a fact would lead to; a POST performs the change."""
    if verb not in VERBS:
        raise Http404
    visitor, row = home_visits.require_editor(request, project, thread)
    at_hand = _require_fact(row.subject, fact)
    posted = request.method == "POST"
    sent = request.POST if posted else request.GET
    problem: Refusal | None = None
    change: _FactChange | None = None
    try:
        change = VERBS[verb](at_hand, sent)
        if posted and change is not None:
            epoch, actor = row.subject.epoch, visitor.actor
            homes.perform(row.subject, change.command, actor=actor, epoch=epoch)
            where = {"project": project, "thread": row.name}
            return HttpResponseRedirect(reverse("facts", kwargs=where))
    except Refusal as refusal:
        problem = refusal
    return visits.render_thread_page(
        request,
        "inspector/knowledge/facts/act.html",
        visitor,
        row,
        _build_context(at_hand, verb, sent, change, problem),
        status=refusals.get_status(problem),
    )


def _require_fact(subject: Subject, seq: int) -> _FactAtHand:
    story = facts.get_fact(subject, seq, now=clock.now())
    home = find_home(subject)
    timeline = None if home is None else find_timeline(home, seq)
    if home is None or timeline is None:
        raise FactUnknownError
    return _FactAtHand(subject=subject, home=home, timeline=timeline, story=story)


def _build_context(
    at_hand: _FactAtHand,
    verb: str,
    sent: Mapping[str, str],
    change: _FactChange | None,
    problem: Refusal | None,
) -> dict[str, Any]:
    after = None
    if change is not None:
        derived = [(change.after, fact) for fact in change.after.facts]
        after = [*facts.iter_fact_lines(at_hand.home, derived)]
    return {
        "verb": verb,
        "fact": at_hand.story.fact,
        "reasons": REASONS,
        "values": [*VALUES],
        "reason": sent.get("reason", REASONS[0]),
        "ends_at": sent.get("at", ""),
        "cardinality": sent.get("cardinality", ""),
        "before": at_hand.story.timeline,
        "after": after,
        "problem": _describe_problem(problem),
    }


def _plan_retraction(at_hand: _FactAtHand, sent: Mapping[str, str]) -> _FactChange:
    reason = sent.get("reason", REASONS[0])
    if reason not in REASONS:
        raise InvalidError(loc="reason")
    seqs = at_hand.story.rests_on
    return _FactChange(
        command=RetractFacts(seqs=seqs, reason=reason),
        after=at_hand.timeline.retract_assertions(seqs, wrong=reason == "wrong"),
    )


def _plan_end(at_hand: _FactAtHand, sent: Mapping[str, str]) -> _FactChange | None:
    if not sent.get("at"):
        return None
    at, now = asof.parse_instant(sent["at"], "at"), clock.now()
    fact = at_hand.story.fact
    command = writing.build_ending(
        at_hand.subject, fact.id, at=at, origin="operator", now=now
    )
    held = facts.choose_fact(at_hand.timeline, fact.id, at=at)
    assert held is not None
    return _FactChange(command=command, after=at_hand.timeline.end_fact(held, at))


def _plan_cardinality(
    at_hand: _FactAtHand, sent: Mapping[str, str]
) -> _FactChange | None:
    word = sent.get("cardinality", "")
    if not word:
        return None
    if word not in VALUES:
        raise InvalidError(loc="cardinality")
    fact, value = at_hand.story.fact, VALUES[word]
    return _FactChange(
        command=writing.build_configuration(fact.entity, fact.predicate, value),
        after=at_hand.timeline.set_cardinality(value),
    )


#: Planners by the verb in the address; None while the form is empty.
VERBS: Mapping[str, Callable[[_FactAtHand, Mapping[str, str]], _FactChange | None]] = {
    "retract": _plan_retraction,
    "end": _plan_end,
    "cardinality": _plan_cardinality,
}


def _describe_problem(problem: Refusal | None) -> str:
    if isinstance(problem, InvalidError) and problem.loc == "at":
        return "Give a time after the fact began to be true."
    return problem.sentence if problem else ""
