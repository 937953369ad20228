"""Guarded calls: a call of an own tool is checked, run, and recorded.

The thread's `guard` says how strictly. A blocked call does not run: the model reads why
and what to do next. A result that an equal call of this turn brought stands in for the
call, and is not recorded again. Results have a name for later calls, such as $v1.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from memoryhub_client import threads
from memoryhub_client import tools as tool_calls
from memoryhub_client.problems import Forbidden, Problem
from memoryhub_client.requests import Request
from memoryhub_client.tools import Outcome

Steps = Generator[Request[Any], Any, Any]
#: Bytes of an error that the hub takes are 16 KiB; a character has at most four.
_ERROR_CHARS = 4_000
#: Sentences for the model, by the reason of a block or a warning.
REASONS = {
    "ungrounded_args": "A number in the arguments is neither the user's nor a result.",
    "missing_refs": "A reference in the arguments stands for nothing.",
    "budget_exhausted": "No more calls are allowed for this message of the user.",
    "per_tool_limit": "This tool has reached its limit of calls, or nearly.",
    "missing_dependency": "The numbers that this tool needs are not computed yet.",
    "runaway": "The last results are tiny, equal, or only 0 and 1.",
}
#: Sentences for the model, by the next step that the guard proposes.
NEXT_STEPS = {
    "rebind_from_existing": "Use earlier results: write $v1 and the like.",
    "compute_missing": "Get the missing value from a tool first.",
    "rewrite_call": "Call another tool, or answer.",
    "symbolic_fallback": "Go on with symbols.",
    "ask_user": "Ask the user.",
}


class OwnCall(NamedTuple):
    """A call of an agent's own tool."""

    thread: str
    name: str
    #: Arguments as the model wrote them.
    given: Any
    #: Function that makes the step that runs the call with these arguments.
    step: Callable[[dict[str, Any]], Any]


class CallBlocked(Exception):
    """A guard blocked the call; the text is for the model."""


def is_guarded(thread: str) -> Steps:
    """Return whether calls of this thread are checked."""
    try:
        found = yield threads.get(thread)
    except Forbidden:
        # A key that may only write cannot check.
        return False
    return found["config"].get("guard", "off") != "off"


def run_guarded(call: OwnCall) -> Generator[Any, Any, str]:
    """Return the text of a call's result, with notes for the model.

    Raises CallBlocked, Problem if the call cannot be checked, and what the tool raises.
    """
    found = yield tool_calls.check(call.thread, call.name, call.given)
    warnings = found["warnings"]
    reason = found["reason"] or next((each["reason"] for each in warnings), None)
    judged = {"verdict": found["verdict"], "reason": reason}
    if found["verdict"] == "block":
        yield from _record(call, "cancelled", judged)
        raise CallBlocked(f"Blocked: {_explain(found)}")
    if found["cached"]:
        return render_result(found["cached"]["result"])
    began = time.monotonic()
    try:
        value = yield call.step(found["arguments"])
        text = render_result(value)
    except Exception as failure:
        outcome: Outcome = "failure"
        if isinstance(failure, TimeoutError):
            outcome = "timeout"
        error = clean_text(str(failure) or type(failure).__name__)[:_ERROR_CHARS]
        ended = {**judged, "error": error, "duration_ms": _measure(began)}
        yield from _record(call, outcome, ended)
        raise
    judged["duration_ms"] = _measure(began)
    with suppress(ValueError):
        judged["result"] = _build_stored(text, value)
    bound = yield from _record(call, "success", judged)
    notes = [f"Warning: {_explain(each)}" for each in warnings]
    for place, reference in found["repaired"].items():
        notes.append(f"Write {reference} instead of the number at {place}.")
    if bound:
        notes.append(f"Later calls can use this result as ${bound}.")
    return "\n".join([text, *notes])


def _record(
    call: OwnCall, outcome: Outcome, ended: dict[str, Any]
) -> Generator[Any, Any, str | None]:
    """Record a call that has ended; return the name of its result.

    The call has run: the model gets the result also if the hub cannot store the record.
    """
    for left_out in ("", "result"):
        sent = {name: value for name, value in ended.items() if name != left_out}
        with suppress(Problem):
            kept = yield tool_calls.record(
                call.thread, call.name, call.given, outcome, **sent
            )
            bound: str | None = kept["binding"]
            return bound
        if "result" not in ended:
            break
    return None


def _build_stored(text: str, value: Any) -> Any:
    """Build the result to store. Raises ValueError for NaN and infinity."""
    if isinstance(value, str):
        return clean_text(text)
    json.dumps(value, allow_nan=False)
    return json.loads(text)


def render_result(value: Any) -> str:
    """Render a tool's result for the model. Raises TypeError if it is no JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def clean_text(text: str) -> str:
    """Replace half surrogate pairs and U+0000, which the hub refuses."""
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")


def _explain(finding: Mapping[str, Any]) -> str:
    reason, step = finding["reason"], finding["next_step"]
    return f"{REASONS.get(reason, reason)} {NEXT_STEPS.get(step, step)}"


def _measure(began: float) -> int:
    """Return the milliseconds since then."""
    return min(10_000_000, round(1_000 * (time.monotonic() - began)))
