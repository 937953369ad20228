"""Asking a model: to observe messages, and to condense the log.

Reading, asking and writing are apart: nothing is locked while the model answers, and
what is written names where it begins and the epoch it was begun in, so whoever was
slower writes nothing. A model that gives no use of its answers three times at one place
is not asked there any more: the extractive observer does it.
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
from memoryhub.journal import Address, Order, Receipt
from memoryhub.kernel.commands import Command
from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.observing import (
    answers,
    formulas,
    lines,
    making,
    prompts,
    reflecting,
)
from memoryhub.kernel.observing.answers import Answer
from memoryhub.kernel.observing.observing import (
    CreateObservation,
    CreateReflection,
    FailObserver,
)
from memoryhub.kernel.observing.prompts import Prompt
from memoryhub.kernel.paging.page_commands import NewObservation
from memoryhub.kernel.state.observing import Failing, ObserverRole
from memoryhub.kernel.state.observing_events import Failure
from memoryhub.kernel.state.page_events import ObservedBody
from memoryhub.models.threads import Thread
from memoryhub.queries.observing import ranges
from memoryhub.queries.observing.ranges import Logged, Range
from memoryhub.queries.replay import states, tokenizers
from memoryhub.services.model_calls import (
    Ask,
    Message,
    add_costs,
    message,
    quote_useless,
)
from memoryhub.services.observing import extraction

#: Seconds until one who failed is asked again: doubled each time, up to the most.
FIRST, MOST = 10, 600
#: Answers of no use after which the extractive observer does it.
USELESS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What is to be asked, and what that was found on."""

    thread: Thread
    role: ObserverRole
    epoch: int
    #: Of the subject, as it was read.
    subject_epoch: int
    failing: Failing
    count: Count
    #: What is to be observed, or condensed.
    found: Range | Logged
    #: By when it is due.
    at: datetime
    #: A reflection is to stand in the log at once.
    at_once: bool = True


@dataclass(slots=True)
class _Spent:
    """What calls took together."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None

    @property
    def figures(self) -> dict[str, Any]:
        return {
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "cost": self.cost,
        }


class _UselessError(Exception):
    """The model has answered, and it is of no use."""

    def __init__(self, failure: Failure) -> None:
        self.failure: Failure = failure


def find_due(thread: Thread, *, window: int | None, now: datetime) -> Due | None:
    """Return what is to be asked of the thread by now; None for nothing.

    `thread` comes with its project and its subject, whose epoch is read first;
    `window` is the model's. The queries of a state, and of what is read.
    """
    epoch = thread.subject.epoch
    state = states.state_of(thread)
    seen = state.observing
    if not formulas.may_be_due(state):
        return None
    due = partial(
        Due,
        thread=thread,
        epoch=seen.epoch,
        subject_epoch=epoch,
        count=tokenizers.of(thread).count,
        at=now,
    )
    if not seen.observer.waits(now) and formulas.is_behind(state, window):
        count = tokenizers.of(thread).count
        # A model reads messages whole, the extractive observer in short.
        whole = seen.observer.useless < USELESS
        found = ranges.read_next(thread, state, count=count, model=window, whole=whole)
        if found is not None:
            return due(role="observer", failing=seen.observer, found=found)
    when = formulas.reflecting(state, window)
    log = ranges.read_log(thread, state) if when else None
    if log is None or seen.reflector.waits(now):
        return None
    failing = seen.reflector
    return due(role="reflector", failing=failing, found=log, at_once=when == "now")


def find_next(thread: Thread, *, now: datetime) -> datetime | None:
    """Return when one who failed is due again, if nothing else happens."""
    seen = states.state_of(thread).observing
    again = (seen.observer.retry_at, seen.reflector.retry_at)
    return min((at for at in again if at is not None and at > now), default=None)


def observe(due: Due, ask: Ask, *, host: str | None = None) -> Receipt | None:
    """Ask the model for what is due, and write it or that nothing came of it.

    None if somebody else was quicker, or something was erased or paused meanwhile: then
    nothing is written. Raises SubjectErasedError, SubjectRestrictedError, and what the
    journal raises. `host` is the model's, which is noted as a recipient.
    """
    spent = _Spent()
    command: Command
    try:
        if due.failing.useless >= USELESS:
            command = _extractive(due)
        else:
            command = _answered(due, ask, spent, host)
    except ModelError:
        command = _failed(due, "no_model", spent, host)
    except _UselessError as wrong:
        command = _failed(due, wrong.failure, spent, host)
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


def _extractive(due: Due) -> Command:
    if isinstance(due.found, Range):
        made = extraction.observe(due.found, due.count)
        return CreateObservation(made=made, epoch=due.epoch)
    tokens = _log_tokens(due.found)
    return _reflecting(
        due, due.found, extraction.fold(due.found, tokens // 2, due.count)
    )


def _answered(due: Due, ask: Ask, spent: _Spent, host: str | None) -> Command:
    if isinstance(due.found, Range):
        made = _observation(due, due.found, ask, spent, host)
        return CreateObservation(made=made, epoch=due.epoch)
    made = _reflection(due, due.found, ask, spent, host)
    return _reflecting(due, due.found, made)


def _reflecting(due: Due, found: Logged, made: NewObservation) -> CreateReflection:
    """Raises _UselessError for one that saves nothing; its hints count, too."""
    if made.observed.shown >= _log_tokens(found):
        raise _UselessError("too_large")
    return CreateReflection(made=made, epoch=due.epoch, now=due.at_once)


def _log_tokens(found: Logged) -> int:
    return sum(each.tokens for each in found.entries)


def _observation(
    due: Due, found: Range, ask: Ask, spent: _Spent, host: str | None
) -> NewObservation:
    """One try, and one more that says what was wrong. Raises _UselessError."""
    prompt = _prompt(due, prompts.OBSERVER)
    messages = [
        message("system", prompt.text),
        message("user", prompts.transcript(found.spoken)),
    ]
    failure: Failure = "empty"
    for _ in range(2):
        text = _say(ask, messages, spent)
        answer = answers.read(text, first=found.begin, end=found.end)
        if isinstance(answer, str):
            refusal = answer
        elif answers.too_large(answer.lines, found.raw, due.count):
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
            return _made(due, answer, body, found.places)
        failure = refusal
        again = message("user", prompts.AGAIN[refusal])
        messages = [*messages, quote_useless(text), again]
    raise _UselessError(failure)


def _reflection(
    due: Due, found: Logged, ask: Ask, spent: _Spent, host: str | None
) -> NewObservation:
    """Two tries, the smallest that is valid. Raises _UselessError."""
    begin, end = found.entries[0].begin, found.entries[-1].end
    prompt = _prompt(due, prompts.REFLECTOR)
    messages = [
        message("system", prompt.text),
        message("user", prompts.barred(lines.written(found.lines))),
    ]
    tried = list[Answer]()
    for more in (prompts.SHORTER, ""):
        text = _say(ask, messages, spent)
        answer = answers.read(text, first=begin, end=end)
        if isinstance(answer, str):
            quoted = quote_useless(text)
        else:
            tried.append(answer)
            quoted = message("assistant", text)
        messages = [*messages, quoted, message("user", more)]
    chosen = reflecting.smallest_valid(
        found.lines,
        [each.lines for each in tried],
        before_tokens=_log_tokens(found),
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
    return _made(due, kept, body, found.places)


def _prompt(due: Due, version: str) -> Prompt:
    return prompts.prompt(version, due.thread.project.observer_instructions)


def _say(ask: Ask, messages: Sequence[Message], spent: _Spent) -> str:
    reply = ask(messages)
    spent.tokens_in += reply.tokens_in
    spent.tokens_out += reply.tokens_out
    spent.cost = add_costs(spent.cost, reply.cost)
    return reply.text


def _made(
    due: Due, answer: Answer, body: ObservedBody, places: Sequence[Any]
) -> NewObservation:
    return making.made(
        answer.lines,
        body,
        sources=places,
        count=due.count,
        current_task=answer.current_task,
        suggested_response=answer.suggested_response,
    )


def _failed(
    due: Due, failure: Failure, spent: _Spent, host: str | None
) -> FailObserver:
    found = due.found
    if isinstance(found, Range):
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
