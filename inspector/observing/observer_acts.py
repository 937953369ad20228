"""Acts of an operator on the observer, each previewed as a sentence first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from inspector.access.access import require_signed_in
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

#: Labels of the buttons, by the verb in the address.
TITLES: Mapping[str, str] = {
    "observe": "Observe now",
    "activate": "Use in requests now",
    "reflect": "Reflect now",
    "pause": "Pause",
    "resume": "Resume",
}
_PROBLEMS: refusals.Texts = {
    StaleError: "The effect has changed since you looked. Here is a new preview."
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _ObserverPlan:
    """Sentence that tells what an act would do; no command if it has no effect."""

    sentence: str
    command: Command | None = None


@require_http_methods(["GET", "HEAD", "POST"])
@require_signed_in
def act(request: HttpRequest, project: str, thread: str, verb: str) -> HttpResponse:
    """Show what an act would do; a POST performs it if the sentence is unchanged."""
    if verb not in _PLANS:
        raise Http404
    visitor, row = editing.require_editor(request, project, thread)
    plan, problem = _build_plan(row, verb), None
    if request.method == "POST":
        try:
            _perform_plan(row, plan, request.POST.get("seen", ""), actor=visitor.actor)
        except Refusal as refusal:
            plan, problem = _build_plan(row, verb), refusal
        else:
            where = {"project": project, "thread": row.name}
            return HttpResponseRedirect(reverse("observer", kwargs=where))
    context = {
        "verb": verb,
        "title": TITLES[verb],
        "plan": plan,
        "problem": refusals.get_error_text(problem, _PROBLEMS, numbers=True),
    }
    return visits.render_thread_page(
        request,
        "inspector/observing/observer/act.html",
        visitor,
        row,
        context,
        status=refusals.get_status(problem),
    )


def _perform_plan(row: Thread, plan: _ObserverPlan, seen: str, *, actor: str) -> None:
    if plan.command is None or plan.sentence != seen:
        raise StaleError
    observers.perform_command(row, plan.command, actor=actor)


def _build_plan(row: Thread, verb: str) -> _ObserverPlan:
    try:
        if not states.load_state(row).paging.settings.observe:
            raise ObserverOffError
        return _PLANS[verb](row)
    except Refusal as refusal:
        return _ObserverPlan(sentence=refusal.sentence)


def _plan_observe(row: Thread) -> _ObserverPlan:
    command = observers.build_next_observation(row)
    if command.made is None:
        return _ObserverPlan(
            sentence="There is nothing to observe: every message is observed, or "
            "calls wait for their results."
        )
    body = command.made.observed
    messages = _render_range(body.begin, body.end)
    return _ObserverPlan(
        sentence=f"Messages {messages}, {body.raw:,} tokens, are "
        f"condensed to {body.shown:,} tokens without a language model. Requests do not "
        "change until the observation is used in them.",
        command=command,
    )


def _plan_activate(row: Thread) -> _ObserverPlan:
    state = states.load_state(row)
    to = formulas.find_activation_end(state)
    if to is None:
        return _ObserverPlan(sentence="No observation is ready to use.")
    come = [each for each in state.observing.chunks if each.end <= to]
    tokens, raw = sum(each.tokens for each in come), sum(each.raw for each in come)
    messages = _render_range(come[0].begin, come[-1].end)
    return _ObserverPlan(
        sentence=f"Messages {messages} leave requests: "
        f"{tokens:,} tokens of observations replace their {raw:,}. The newest "
        "user message and pinned pages stay.",
        command=ActivateObservations(),
    )


def _plan_reflect(row: Thread) -> _ObserverPlan:
    command = observers.build_reflection(row)
    if command.made is None:
        return _ObserverPlan(sentence="The log has nothing to condense.")
    body = command.made.observed
    log = states.load_state(row).observing.log
    entries = len(body.covers or ())
    before = sum(each.tokens for each in log[:entries])
    return _ObserverPlan(
        sentence=f"{before:,} tokens of the log, {entries:,} of its entries, are "
        f"replaced by a reflection of {body.shown:,}, made without a language model. "
        "The entries stay readable under generations, but leave requests.",
        command=command,
    )


def _plan_pause(row: Thread) -> _ObserverPlan:
    if states.load_state(row).observing.paused:
        return _ObserverPlan(sentence="Observing is already paused.")
    return _ObserverPlan(
        sentence="From now on no model is asked to observe, and a pending answer is "
        "discarded. Observations stay. A turn without room still condenses older "
        "messages without a model.",
        command=PauseObserver(),
    )


def _plan_resume(row: Thread) -> _ObserverPlan:
    if not states.load_state(row).observing.paused:
        return _ObserverPlan(sentence="Observing is not paused.")
    return _ObserverPlan(
        sentence="Observing resumes, and its count of failures is reset.",
        command=ResumeObserver(),
    )


def _render_range(begin: int, end: int) -> str:
    return f"{begin:,} to {end - 1:,}"


_PLANS: Mapping[str, Callable[[Thread], _ObserverPlan]] = {
    "observe": _plan_observe,
    "activate": _plan_activate,
    "reflect": _plan_reflect,
    "pause": _plan_pause,
    "resume": _plan_resume,
}
