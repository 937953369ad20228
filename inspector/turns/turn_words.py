"""Words of a turn's page: the verdict, and why a page left or was refused. Pure."""

from __future__ import annotations

from memoryhub.queries.paging.lives import LifeStep
from memoryhub.queries.paging.newcomers import Newcomer
from memoryhub.queries.turns.matches import BEST, QuestionMatches
from memoryhub.queries.turns.own_calls import TurnCall
from memoryhub.queries.turns.turn_faults import TurnFault
from memoryhub.queries.turns.verdicts import TurnVerdict

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
#: Texts for why a fetch was refused, by the code in the model's answer.
REFUSALS = {
    "page_unknown": "there is no such page",
    "page_erased": "it was erased",
    "fault_confidence": "the model was not sure enough",
    "fault_budget": "the exchange had used up its fetches",
    "fault_tokens": "the exchange had used up its fetch tokens",
    "no_room": "there was no room for it",
}
#: Texts for what a guard found in a call of an own tool.
_GUARD_REASONS = {
    "ungrounded_args": "a number came neither from the user nor from a result",
    "missing_refs": "a reference names no earlier result",
    "budget_exhausted": "the exchange had used up its calls",
    "per_tool_limit": "this tool had reached its limit of calls, or nearly",
    "missing_dependency": "the numbers that the tool needs were not computed yet",
    "runaway": "the last results were tiny, equal, or only 0 and 1",
}
_REASONS = {
    "user_requested_recall": "because the user asked for it",
    "resolve_reference": "to resolve a reference",
    "tool_prereq": "before calling a tool",
    "speculative": "on a guess",
}
#: Texts for who asked for a page, by the fetch's own account.
_CALLERS = {
    "model": "by the model",
    "tool": "by the agent",
    "user": "by the user",
    "system": "by the server",
}
#: Texts for why a page left, other than for room.
_CAUSES = {
    "command": "by a command",
    "answered": "with a call that brought nothing",
    "shrink": "because the budget became smaller",
    "restore": "by a restore",
    "observed": "because an observation replaced it",
}
_HEADLINES = {
    "out": "The best match for this question was not in the request",
    "shortened": "The best match for this question was in, but shortened",
    "refused": "The model asked for what it needed and was refused",
    "complete": "All that matches the question's words was in the request",
    "unmatched": "Nothing that was said before matches this question's words",
}
#: Texts for why a request's beginning differs from the request before.
PREFIX_CAUSES = {
    "evicted": "a page left",
    "lowered": "a page was shortened",
    "upgraded": "a page came back in full",
    "updated": "a page was changed",
    "exchange": "a new exchange began",
    "entered": "a page came in",
    "budget": "a page found no room",
    "manifest": "the manifest offers something else",
    "recall": "the turn recalled other texts",
    "rules": "the rules of the mode changed",
    "blocks": "the person's blocks changed",
    "log": "the log of observations changed",
    "tools": "the tools changed",
}


def describe_verdict(verdict: TurnVerdict, matches: QuestionMatches) -> str:
    """Describe a verdict in one sentence without its full stop."""
    if verdict.kind == "partly":
        count, most = (
            len(matches.list_with_standing("out")),
            _render_best(len(matches.items)),
        )
        return f"{count} of the {most} {_choose_verb(count)} not in the request"
    if verdict.kind == "complete" and matches.list_with_standing("shortened"):
        return f"{_HEADLINES['complete']}, some of it shortened"
    if verdict.kind == "unmatched" and not matches.has_question:
        return "Nothing was asked before this turn"
    if verdict.kind == "unmatched" and not matches.complete:
        return "Nothing that is indexed so far matches this question"
    return _HEADLINES[verdict.kind]


def describe_guard(call: TurnCall) -> str:
    """Describe why the guard blocked or warned of a call; empty if it did neither."""
    if call.body.get("verdict") is None:
        return "not checked"
    if call.body["verdict"] == "repair" and call.body["reason"] is None:
        return "a number could have been a reference"
    return _GUARD_REASONS.get(call.body.get("reason") or "", "")


def describe_leaving(step: LifeStep | None, newcomer: Newcomer | None) -> str:
    """Describe why a page left or was shortened; the newcomer's name follows."""
    if step is None:
        return ""
    verb = "shortened" if step.kind == "shortened" else "evicted"
    cause, score = step.body.get("cause", "command"), step.body.get("score")
    if cause in _CAUSES:
        return f"{verb} {_CAUSES[cause]}"
    if newcomer is None:
        return f"{verb} for lack of room"
    # A page that no policy chose was evicted regardless of its worth.
    chosen = score is not None or "hand" in step.body
    return f"{verb} to make room for" if chosen else f"{verb} on the arrival of"


def describe_refusal(fault: TurnFault | LifeStep | None) -> str:
    """Describe why a page was refused; empty without a refusal."""
    if fault is None:
        return ""
    word: str = fault.body["refusal"]
    return REFUSALS.get(word, word)


def describe_fault(fault: TurnFault) -> str:
    """Describe who asked for a page, and why."""
    word: str = fault.body["reason"]
    return f"{_CALLERS[fault.body.get('by', 'tool')]} {_REASONS.get(word, word)}"


def render_ordinal(n: int) -> str:
    """Render an ordinal: first to sixth in words, then 7th, 12th."""
    if n <= len(_ORDINALS):
        return _ORDINALS[n - 1]
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{'th' if n % 100 in (11, 12, 13) else suffix}"


def describe_standing(matches: QuestionMatches) -> str:
    """Describe how many of the best matches the request held, and how many not."""
    counts = (
        len(matches.list_with_standing("in")),
        len(matches.list_with_standing("shortened")),
    )
    named = [f"{counts[0]} in", f"{counts[1]} shortened" if counts[1] else ""]
    named.append(f"{len(matches.list_with_standing('out'))} not in")
    words = ", ".join(each for each in named if each)
    return f"{_render_best(len(matches.items))}: {words}"


def _render_best(count: int) -> str:
    if count == 1:
        return "best match"
    return f"{'ten' if count == BEST else count} best matches"


def _choose_verb(count: int) -> str:
    return "was" if count == 1 else "were"
