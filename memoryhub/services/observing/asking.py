"""Requests to a model to observe messages, and to condense the log.

Reading, asking and writing are separate: nothing is locked while the model answers. A
write names its first slot and its epoch, so a slower process writes nothing. After
three useless answers at one place the extractive observer replaces the model there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from memoryhub import journal
from memoryhub.errors import (
    LogChangedError,
    LogFullError,
    NothingToDoError,
    ObserverOffError,
    RangeOpenError,
    RangeTakenError,
    StaleEpochError,
    StaleError,
)
from memoryhub.errors.trouble import ModelError
from memoryhub.journal import Address, Order, OrderReceipt
from memoryhub.kernel.commands import Command
from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.observing import (
    answers,
    formulas,
    lines,
    making,
    prompts,
    reflecting,
)
from memoryhub.kernel.observing.answers import ObserverAnswer
from memoryhub.kernel.observing.observing import (
    CreateObservation,
    CreateReflection,
    FailObserver,
)
from memoryhub.kernel.observing.prompts import ObserverPrompt
from memoryhub.kernel.paging.page_commands import NewObservation
from memoryhub.kernel.state.observing import FailureStreak, ObserverRole
from memoryhub.kernel.state.observing_events import Failure
from memoryhub.kernel.state.page_events import ObservedBody
from memoryhub.models.threads import Thread
from memoryhub.queries.observing import instructions, ranges
from memoryhub.queries.observing.instructions import RoleInstructions
from memoryhub.queries.observing.ranges import LogExcerpt, ObservationRange, ReadTail
from memoryhub.queries.replay import states, tokenizers
from memoryhub.services.model_calls import (
    Ask,
    Message,
    add_costs,
    build_message,
    quote_useless,
)
from memoryhub.services.observing import extraction

#: Seconds until a failed request is repeated: doubled each time, up to the most.
FIRST, MOST = 10, 600
#: Useless answers after which the extractive observer replaces the model.
USELESS: Final = 3
#: Most tokens of the log that an observer is shown; at most this part of a window.
TAIL: Final = 2_000
TAIL_SHARE: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverRequest:
    """Due request to the model, with the state it was found in."""

    thread: Thread
    role: ObserverRole
    epoch: int
    #: Epoch of the subject when the state was read.
    subject_epoch: int
    failing: FailureStreak
    count: Count
    instructions: RoleInstructions
    #: The range to observe, or the log to condense.
    found: ObservationRange | LogExcerpt
    #: What was noted before the range, for a model to go on from.
    tail: ReadTail = ReadTail()  # noqa: RUF009  # a tuple
    #: Instant at which the request was due.
    at: datetime
    #: Whether a reflection replaces the log at once.
    at_once: bool = True


@dataclass(slots=True)
class _CallCosts:
    """Sum of tokens and cost of several calls."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None

    @property
    def figures(self) -> dict[str, Any]:
        """The sums, as arguments of a command."""
        return {
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "cost": self.cost,
        }


class _UselessError(Exception):
    """The model's answer is useless, for this reason."""

    def __init__(self, failure: Failure) -> None:
        self.failure: Failure = failure


def find_due_request(
    thread: Thread, *, window: int | None, now: datetime
) -> ObserverRequest | None:
    """Find the request that is due for the thread; None if there is none.

    `thread` comes with its project and its subject, whose epoch is read first; `window`
    is the model's. The queries of a state, and of the content read.
    """
    epoch = thread.subject.epoch
    state = states.load_state(thread)
    seen = state.observing
    if not formulas.can_be_due(state):
        return None
    due = partial(
        ObserverRequest,
        thread=thread,
        epoch=seen.epoch,
        subject_epoch=epoch,
        count=tokenizers.get_for_thread(thread).count,
        at=now,
    )
    if not seen.observer.is_waiting(now) and formulas.is_behind(state, window):
        count = tokenizers.get_for_thread(thread).count
        # A model reads whole messages, the extractive observer shortened ones.
        whole = seen.observer.useless < USELESS
        found = ranges.read_next(thread, state, count=count, model=window, whole=whole)
        if found is not None:
            most = TAIL if window is None else min(TAIL, window // TAIL_SHARE)
            return due(
                role="observer",
                failing=seen.observer,
                instructions=instructions.get_instructions(thread, state, "observer"),
                found=found,
                tail=ranges.read_tail(
                    thread, state, found.begin, most=most, count=count
                )
                if whole
                else ReadTail(),
            )
    when = formulas.find_due_reflection(state, window)
    log = ranges.read_log(thread, state) if when else None
    if log is None or seen.reflector.is_waiting(now):
        return None
    return due(
        role="reflector",
        failing=seen.reflector,
        instructions=instructions.get_instructions(thread, state, "reflector"),
        found=log,
        at_once=when == "now",
    )


def find_retry_time(thread: Thread, *, now: datetime) -> datetime | None:
    """Find when a failed request is due again, if nothing else happens."""
    seen = states.load_state(thread).observing
    again = (seen.observer.retry_at, seen.reflector.retry_at)
    return min((at for at in again if at is not None and at > now), default=None)


def run_request(
    due: ObserverRequest, ask: Ask, *, host: str | None = None
) -> OrderReceipt | None:
    """Ask the model, and write its observation or reflection, or the failure.

    None if another process was quicker, or something was erased or paused meanwhile:
    then nothing is written. Raises SubjectErasedError, SubjectRestrictedError, and what
    the journal raises. `host` is the model's, which is recorded as a recipient.
    """
    spent = _CallCosts()
    command: Command
    try:
        if due.failing.useless >= USELESS:
            command = _build_extractive(due)
        else:
            command = _ask_for_command(due, ask, spent, host)
    except ModelError:
        command = _build_failure(due, "no_model", spent, host)
    except _UselessError as wrong:
        command = _build_failure(due, wrong.failure, spent, host)
    order = Order(
        address=Address(project=due.thread.project_id, name=due.thread.name),
        command=command,
        actor=extraction.ACTOR,
        epoch=due.subject_epoch,
    )
    try:
        return journal.perform(order)
    except (
        LogChangedError,
        LogFullError,
        NothingToDoError,
        ObserverOffError,
        RangeOpenError,
        RangeTakenError,
        StaleEpochError,
        StaleError,
    ):
        return None


def _build_extractive(due: ObserverRequest) -> Command:
    """Build the command without a model."""
    if isinstance(due.found, ObservationRange):
        made = extraction.observe_range(due.found, due.count)
        return CreateObservation(made=made, epoch=due.epoch)
    tokens = _count_log_tokens(due.found)
    return _build_reflecting(
        due, due.found, extraction.fold_log(due.found, tokens // 2, due.count)
    )


def _ask_for_command(
    due: ObserverRequest, ask: Ask, spent: _CallCosts, host: str | None
) -> Command:
    """Ask the model and build the command of its answer.

    Raises ModelError, _UselessError.
    """
    if isinstance(due.found, ObservationRange):
        made = _ask_observation(due, due.found, ask, spent, host)
        return CreateObservation(made=made, epoch=due.epoch)
    made = _ask_reflection(due, due.found, ask, spent, host)
    return _build_reflecting(due, due.found, made)


def _build_reflecting(
    due: ObserverRequest, found: LogExcerpt, made: NewObservation
) -> CreateReflection:
    """Build the command of a reflection.

    Raises _UselessError for a reflection, its hints included, that saves no tokens.
    """
    if made.observed.shown >= _count_log_tokens(found):
        raise _UselessError("too_large")
    return CreateReflection(made=made, epoch=due.epoch, now=due.at_once)


def _count_log_tokens(found: LogExcerpt) -> int:
    """Count the tokens of the log."""
    return sum(each.tokens for each in found.entries)


def _ask_observation(
    due: ObserverRequest,
    found: ObservationRange,
    ask: Ask,
    spent: _CallCosts,
    host: str | None,
) -> NewObservation:
    """Ask for an observation, at most twice; the second try names the error.

    Raises _UselessError.
    """
    prompt = _build_prompt(due, prompts.OBSERVER)
    messages = [
        build_message("system", prompt.text),
        build_message("user", prompts.render_question(found.spoken, due.tail.text)),
    ]
    failure: Failure = "empty"
    for _ in range(2):
        text = _ask_once(ask, messages, spent)
        answer = answers.read(text, first=found.begin, end=found.end)
        if isinstance(answer, str):
            refusal = answer
        elif answers.is_too_large(answer.lines, found.raw, due.count):
            refusal = "too_large"
        else:
            body = ObservedBody(
                begin=found.begin,
                end=found.end,
                raw=found.raw,
                shown=0,
                method="model",
                prompt=prompt.name,
                host=host,
                **spent.figures,
            )
            # What the tail says may be in the answer, and has to go with its sources.
            return _build_made(due, answer, body, (*found.places, *due.tail.places))
        failure = refusal
        again = build_message("user", prompts.AGAIN[refusal])
        messages = [*messages, quote_useless(text), again]
    raise _UselessError(failure)


def _ask_reflection(
    due: ObserverRequest,
    found: LogExcerpt,
    ask: Ask,
    spent: _CallCosts,
    host: str | None,
) -> NewObservation:
    """Ask for a reflection twice; the smallest valid answer wins.

    Raises _UselessError.
    """
    begin, end = found.entries[0].begin, found.entries[-1].end
    prompt = _build_prompt(due, prompts.REFLECTOR)
    messages = [
        build_message("system", prompt.text),
        build_message("user", prompts.quote_lines(lines.render_lines(found.lines))),
    ]
    tried = list[ObserverAnswer]()
    for more in (prompts.SHORTER, ""):
        text = _ask_once(ask, messages, spent)
        answer = answers.read(text, first=begin, end=end)
        if isinstance(answer, str):
            quoted = quote_useless(text)
        else:
            tried.append(answer)
            quoted = build_message("assistant", text)
        messages = [*messages, quoted, build_message("user", more)]
    chosen = reflecting.find_smallest_valid(
        found.lines,
        [each.lines for each in tried],
        before_tokens=_count_log_tokens(found),
        count=due.count,
    )
    if chosen is None:
        raise _UselessError("lossy" if tried else "no_json")
    kept = next(each for each in tried if each.lines == chosen)
    body = ObservedBody(
        begin=begin,
        end=end,
        raw=sum(each.raw for each in found.entries),
        shown=0,
        method="model",
        covers=[each.page_id for each in found.entries],
        prompt=prompt.name,
        host=host,
        **spent.figures,
    )
    return _build_made(due, kept, body, found.places)


def _build_prompt(due: ObserverRequest, version: str) -> ObserverPrompt:
    """Build a prompt with the instructions that hold for the role."""
    return prompts.build_prompt(version, due.instructions.text, due.instructions.digest)


def _ask_once(ask: Ask, messages: Sequence[Message], spent: _CallCosts) -> str:
    """Ask the model once, and add the cost."""
    reply = ask(messages)
    spent.tokens_in += reply.tokens_in
    spent.tokens_out += reply.tokens_out
    spent.cost = add_costs(spent.cost, reply.cost)
    return reply.text


def _build_made(
    due: ObserverRequest,
    answer: ObserverAnswer,
    body: ObservedBody,
    places: Sequence[Any],
) -> NewObservation:
    """Build the observation of an answer.

    The answer may repeat the thread's own instructions, and goes with these.
    """
    own = due.instructions.place
    return making.build_observation(
        answer.lines,
        body,
        sources=places if own is None else (*places, own),
        count=due.count,
        current_task=answer.current_task,
        suggested_response=answer.suggested_response,
    )


def _build_failure(
    due: ObserverRequest, failure: Failure, spent: _CallCosts, host: str | None
) -> FailObserver:
    """Build the command that records a failure and the time of the next try."""
    found = due.found
    if isinstance(found, ObservationRange):
        begin, end = found.begin, found.end
    else:
        begin, end = found.entries[0].begin, found.entries[-1].end
    seconds = min(MOST, FIRST * 2**due.failing.times)
    return FailObserver(
        role=due.role,
        begin=begin,
        end=end,
        epoch=due.epoch,
        failure=failure,
        retry_at=due.at + timedelta(seconds=seconds),
        host=host,
        **spent.figures,
    )
