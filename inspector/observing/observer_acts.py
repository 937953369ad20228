"""What an operator does to how a thread is observed: said first, then done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access.access import signed_in
from inspector.lists import visits
from inspector.memory import editing
from inspector.web import refusals
from memoryhub.errors import ObserverOffError, Refusal, StaleError
from memoryhub.kernel.commands import Command
from memoryhub.kernel.observing import formulas
from memoryhub.kernel.observing.observing import (
    ActivateObservations,
    PauseObserver,
    ResumeObserver,
)
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import states
from memoryhub.services.observing import observers

#: What the buttons say, by what stands in the address.
TITLES: Mapping[str, str] = {
    "observe": "Observe now",
    "activate": "Take into requests now",
    "reflect": "Reflect now",
    "pause": "Pause",
    "resume": "Resume",
}
_PROBLEMS: refusals.Texts = {
    StaleError: "What this would do has changed since you looked. Here it is anew."
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What would be done, in words; without a command there is nothing to do."""

    sentence: str
    command: Command | None = None


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def act(request: HttpRequest, project: str, thread: str, verb: str) -> HttpResponse:
    """Say what an act would do; a POST does just that, or says it anew."""
    if verb not in _PLANS:
        raise Http404
    visitor, row = editing.find(request, project, thread)
    plan, problem = _plan(row, verb), None
    if request.method == "POST":
        try:
            _perform(row, plan, request.POST.get("seen", ""), actor=visitor.actor)
        except Refusal as refusal:
            plan, problem = _plan(row, verb), refusal
        else:
            where = {"project": project, "thread": row.name}
            return HttpResponseRedirect(reverse("observer", kwargs=where))
    context = {
        "verb": verb,
        "title": TITLES[verb],
        "plan": plan,
        "problem": refusals.error_text(problem, _PROBLEMS, numbers=True),
    }
    return visits.thread_page(
        request,
        "inspector/observing/observer/act.html",
        visitor,
        row,
        context,
        status=refusals.status_of(problem),
    )


def _perform(row: Thread, plan: _Plan, seen: str, *, actor: str) -> None:
    if plan.command is None or plan.sentence != seen:
        raise StaleError
    observers.perform(row, plan.command, actor=actor)


def _plan(row: Thread, verb: str) -> _Plan:
    try:
        if not states.state_of(row).paging.settings.observe:
            raise ObserverOffError
        return _PLANS[verb](row)
    except Refusal as refusal:
        return _Plan(sentence=refusal.sentence)


def _observing(row: Thread) -> _Plan:
    command = observers.observe_next(row)
    if command.made is None:
        return _Plan(
            sentence="There is nothing to observe: each message is observed, or calls "
            "wait for their results."
        )
    body = command.made.observed
    return _Plan(
        sentence=f"Messages {_range(body.begin, body.end)}, {body.raw:,} tokens, are "
        f"told in {body.shown:,} tokens without a language model. That waits beside "
        "them: requests stay as they are until it is taken into them.",
        command=command,
    )


def _activating(row: Thread) -> _Plan:
    state = states.state_of(row)
    to = formulas.activated_to(state)
    if to is None:
        return _Plan(sentence="No observation waits.")
    come = [each for each in state.observing.chunks if each.end <= to]
    tokens, raw = sum(each.tokens for each in come), sum(each.raw for each in come)
    return _Plan(
        sentence=f"Messages {_range(come[0].begin, come[-1].end)} leave requests, and "
        f"{tokens:,} tokens of observations stand there for their {raw:,}. The newest "
        "message of the user stays, and what is pinned.",
        command=ActivateObservations(),
    )


def _reflecting(row: Thread) -> _Plan:
    command = observers.reflect_now(row)
    if command.made is None:
        return _Plan(sentence="There is no log that could be condensed.")
    body = command.made.observed
    log = states.state_of(row).observing.log
    entries = len(body.covers or ())
    before = sum(each.tokens for each in log[:entries])
    return _Plan(
        sentence=f"{before:,} tokens of the log, {entries:,} of its entries, give way "
        f"to a reflection of {body.shown:,}, made without a language model. What it "
        "was made of stays readable under generations, but is in no request.",
        command=command,
    )


def _pausing(row: Thread) -> _Plan:
    if states.state_of(row).observing.paused:
        return _Plan(sentence="It is paused already.")
    return _Plan(
        sentence="No model is asked to observe from here on, and what one is asked now "
        "comes to nothing. What was observed stays; a turn without room still has "
        "older messages told without a model.",
        command=PauseObserver(),
    )


def _resuming(row: Thread) -> _Plan:
    if not states.state_of(row).observing.paused:
        return _Plan(sentence="It goes on already.")
    return _Plan(
        sentence="Observing goes on, and failures so far are forgotten.",
        command=ResumeObserver(),
    )


def _range(begin: int, end: int) -> str:
    return f"{begin:,} to {end - 1:,}"


_PLANS: Mapping[str, Callable[[Thread], _Plan]] = {
    "observe": _observing,
    "activate": _activating,
    "reflect": _reflecting,
    "pause": _pausing,
    "resume": _resuming,
}
