"""What an operator does to a fact: retracts, ends it, says how many values hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access.access import signed_in
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
#: What the form offers, and what it means.
VALUES: Mapping[str, Any] = {"single": "single", "multi": "multi", "derived": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class _AtHand:
    """A fact with its timeline."""

    subject: Subject
    home: Thread
    timeline: Timeline
    story: FactStory


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A change as it was chosen, and the facts of its timeline with it."""

    command: Command
    after: Timeline


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def act(
    request: HttpRequest, project: str, thread: str, fact: int, verb: str
) -> HttpResponse:
    """Show what a change of a fact would lead to; a POST makes it."""
    if verb not in VERBS:
        raise Http404
    visitor, row = home_visits.find_editing(request, project, thread)
    at_hand = _find(row.subject, fact)
    posted = request.method == "POST"
    sent = request.POST if posted else request.GET
    problem: Refusal | None = None
    change: _Change | None = None
    try:
        change = VERBS[verb](at_hand, sent)
        if posted and change is not None:
            epoch, actor = row.subject.epoch, visitor.actor
            homes.perform(row.subject, change.command, actor=actor, epoch=epoch)
            where = {"project": project, "thread": row.name}
            return HttpResponseRedirect(reverse("facts", kwargs=where))
    except Refusal as refusal:
        problem = refusal
    return visits.thread_page(
        request,
        "inspector/knowledge/facts/act.html",
        visitor,
        row,
        _context(at_hand, verb, sent, change, problem),
        status=refusals.status_of(problem),
    )


def _find(subject: Subject, seq: int) -> _AtHand:
    story = facts.get_fact(subject, seq, now=clock.now())
    home = find_home(subject)
    timeline = None if home is None else find_timeline(home, seq)
    if home is None or timeline is None:
        raise FactUnknownError
    return _AtHand(subject=subject, home=home, timeline=timeline, story=story)


def _context(
    at_hand: _AtHand,
    verb: str,
    sent: Mapping[str, str],
    change: _Change | None,
    problem: Refusal | None,
) -> dict[str, Any]:
    after = None
    if change is not None:
        derived = [(change.after, fact) for fact in change.after.facts]
        after = [*facts.lines(at_hand.home, derived)]
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
        "problem": _sentence(problem),
    }


def _retracting(at_hand: _AtHand, sent: Mapping[str, str]) -> _Change:
    reason = sent.get("reason", REASONS[0])
    if reason not in REASONS:
        raise InvalidError(loc="reason")
    seqs = at_hand.story.rests_on
    return _Change(
        command=RetractFacts(seqs=seqs, reason=reason),
        after=at_hand.timeline.retracting(seqs, wrong=reason == "wrong"),
    )


def _ending(at_hand: _AtHand, sent: Mapping[str, str]) -> _Change | None:
    if not sent.get("at"):
        return None
    at, now = asof.instant(sent["at"], "at"), clock.now()
    fact = at_hand.story.fact
    command = writing.ending(
        at_hand.subject, fact.id, at=at, origin="operator", now=now
    )
    held = facts.chosen(at_hand.timeline, fact.id, at=at)
    assert held is not None
    return _Change(command=command, after=at_hand.timeline.ending(held, at))


def _configuring(at_hand: _AtHand, sent: Mapping[str, str]) -> _Change | None:
    word = sent.get("cardinality", "")
    if not word:
        return None
    if word not in VALUES:
        raise InvalidError(loc="cardinality")
    fact, value = at_hand.story.fact, VALUES[word]
    return _Change(
        command=writing.configuration(fact.entity, fact.predicate, value),
        after=at_hand.timeline.configuring(value),
    )


#: By what stands in the address; None while the form says nothing yet.
VERBS: Mapping[str, Callable[[_AtHand, Mapping[str, str]], _Change | None]] = {
    "retract": _retracting,
    "end": _ending,
    "cardinality": _configuring,
}


def _sentence(problem: Refusal | None) -> str:
    if isinstance(problem, InvalidError) and problem.loc == "at":
        return "Say when it ceased to hold: a time after it began."
    return problem.sentence if problem else ""
