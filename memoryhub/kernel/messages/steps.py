"""Steps of a message: its pieces in the order they were said, and calls with results.

Pure. An API may say thoughts, texts and calls of one message in any order, and wants
signed thoughts back in their places.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from memoryhub.kernel.messages.message import (
    Call,
    Message,
    MessagePart,
    Result,
    Thought,
)
from memoryhub.kernel.messages.pieces import dump_strict

UNNAMED = "tool"
#: Numbers of thoughts, parts, calls and results.
Lengths = tuple[int, int, int, int]
PieceT = TypeVar("PieceT", MessagePart, Call, Result, Thought)


@dataclass(slots=True)
class StepOrder:
    """Order of a message's pieces, noted while they are read.

    A step has thoughts, then parts, then calls and results; a piece that comes later
    than its rank begins the next step.
    """

    #: Lengths where each step but the first begins.
    cuts: list[Lengths] = field(default_factory=list)
    phases: list[str | None] = field(default_factory=lambda: [None])
    #: Rank of the newest piece: 0 for thoughts, 1 for parts, 2 for calls and results.
    rank: int = 0

    def note(self, before: Lengths, now: Lengths) -> None:
        """Note the pieces of one block, which came after `before`."""
        thoughts, parts, *others = (n > b for n, b in zip(now, before, strict=True))
        if thoughts or parts or any(others):
            # A hosted call may bring a part, and is a call still.
            rank = 0 if thoughts else 2 if any(others) else 1
            if rank < self.rank:
                self._begin_step(before)
            self.rank = rank

    def join(self, before: Lengths, other: StepOrder, lengths: Lengths) -> None:
        """Append the order of a message of `lengths`, whose pieces come after these."""
        thoughts, parts, *_ = lengths
        first = 0 if thoughts else 1 if parts else 2
        spoken = before[1] > (self.cuts[-1][1] if self.cuts else 0)
        other_phase = other.phases[0] != self.phases[-1] and spoken
        if any(lengths) and (first < self.rank or other_phase):
            self._begin_step(before)
        self.phases[-1:] = other.phases
        a, b, c, d = before
        self.cuts += [(a + e, b + f, c + g, d + h) for e, f, g, h in other.cuts]
        last = 2 if any(lengths[2:]) else 1 if parts else 0
        self.rank = other.rank if other.cuts else max(last, other.rank)

    def set_phase(self, phase: str) -> None:
        self.phases = [phase] * len(self.phases)

    def list_phases(self) -> tuple[str | None, ...]:
        """Return the phase of each step; empty for one step without a phase."""
        return tuple(self.phases) if self.cuts or any(self.phases) else ()

    def number_steps(self, pieces: Sequence[PieceT], kind: int) -> tuple[PieceT, ...]:
        """Give each piece the index of its step; `kind` is its place in `Lengths`."""
        cuts = [cut[kind] for cut in self.cuts]
        if not cuts:
            return tuple(pieces)
        numbers = (bisect_right(cuts, at) for at in range(len(pieces)))
        return tuple(
            replace(each, step=n) if n else each
            for each, n in zip(pieces, numbers, strict=True)
        )

    def _begin_step(self, before: Lengths) -> None:
        self.cuts.append(before)
        self.phases.append(None)


class OpenCalls:
    """Numbered calls that wait for their results.

    A result takes its call by id; without an id by name and order. Cost of a call and
    its result: constant, however many others wait.
    """

    def __init__(self, calls: Iterable[Call] = ()) -> None:
        #: Numbers of calls, first come first, by what a result may say of them. Numbers
        #: of answered calls leave a queue when they come to its front.
        self._queues = dict[Hashable, deque[int]]()
        self._open = set[int]()
        self._count = 0
        self.add(calls)

    def __bool__(self) -> bool:
        return bool(self._open)

    def add(self, calls: Iterable[Call]) -> None:
        """Add calls, whose numbers go on from those added before."""
        for each in calls:
            call_id, name = each.id or None, each.name
            for key in (("both", call_id, name), ("id", call_id), ("name", name)):
                self._queues.setdefault(key, deque()).append(self._count)
            self._open.add(self._count)
            self._count += 1

    def take(self, result: Result) -> int | None:
        """Remove the call that a result answers, and return its number, if any."""
        call_id, keys = result.id or None, list[Hashable]()
        if result.name:
            keys.append(("both", call_id, result.name))
        keys.append(("id", call_id))
        if result.name and not call_id:
            keys.append(("name", result.name))
        for key in keys:
            queue = self._queues.get(key, ())
            while queue and queue[0] not in self._open:
                queue.popleft()
            if queue:
                self._open.discard(queue[0])
                return queue.popleft()
        return None


@dataclass(slots=True)
class _MessageStep:
    """Pieces of one step."""

    thoughts: list[Thought] = field(default_factory=list)
    parts: list[MessagePart] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    open_calls: OpenCalls = field(default_factory=OpenCalls)

    def append(self, step: _MessageStep) -> None:
        """Append the pieces of a step without thoughts."""
        self.parts += step.parts
        self.calls += step.calls
        self.results += step.results
        self.open_calls.add(step.calls)
        for result in step.results:
            self.open_calls.take(result)


def split_message(message: Message) -> list[Message]:
    """Return the steps of an assistant's message as messages; alone if it has one.

    A result stands in the step of its call. Cost: linear.
    """
    if message.role != "assistant" or len(message.phases) < 2:
        return [message]
    phases = message.phases
    places: dict[str | None, int] = {each.id: each.step for each in message.calls}
    places[None] = -1
    found = [_MessageStep() for _ in phases]
    for thought in message.thoughts:
        found[thought.step].thoughts.append(thought)
    for part in message.parts:
        found[part.step].parts.append(part)
    for call in message.calls:
        found[call.step].calls.append(call)
    for result in message.results:
        at = places.get(result.id, -1)
        found[result.step if at < 0 else at].results.append(result)
    merged = list[tuple[str | None, _MessageStep]]()
    for phase, step in zip(phases, found, strict=True):
        # Some servers take no text between a call and its result.
        if step.thoughts or not (merged and merged[-1][1].open_calls):
            merged.append((phase, _MessageStep(thoughts=step.thoughts)))
        merged[-1][1].append(step)
    return [
        replace(
            message,
            thoughts=tuple(step.thoughts),
            parts=tuple(step.parts),
            calls=tuple(step.calls),
            results=tuple(step.results),
            refusal=message.refusal if number == len(merged) else None,
            phases=(phase,),
        )
        for number, (phase, step) in enumerate(merged, 1)
    ]


def open_documents(message: Message) -> Message:
    """Return a message with the texts and pictures of its documents as its own parts.

    The same message if none of its documents has pictures.
    """
    parts = _open_parts(message.parts)
    results = tuple(
        replace(each, parts=inner) if (inner := _open_parts(each.parts)) else each
        for each in message.results
    )
    if not parts and results == message.results:
        return message
    return replace(message, parts=parts or message.parts, results=results)


def _open_parts(parts: Sequence[MessagePart]) -> tuple[MessagePart, ...]:
    """Return parts with those of documents in place; none if no document has any."""
    if not any(part.inner for part in parts):
        return ()
    return tuple(
        replace(each, step=part.step)
        for part in parts
        for each in part.inner or (part,)
    )


def remove_details(message: Message) -> Message:
    """Return a message without the details that requests of `pack/2` lack.

    The same message if it has none of them.
    """
    own = message.role == "assistant"
    parts = tuple(
        _remove_part_details(part, own=own)
        for part in message.parts
        if not _is_detail(part)
    )
    thoughts = tuple(map(_remove_thought_details, message.thoughts))
    if (message.phases, message.parts, message.thoughts) == ((), parts, thoughts):
        return message
    return replace(message, phases=(), parts=parts, thoughts=thoughts)


def _is_detail(part: MessagePart) -> bool:
    """Tell whether requests of `pack/2` lack a part as a whole."""
    sent = part.sent if isinstance(part.sent, dict) else {}
    return sent.get("type") == "compaction" or (part.kind == "text" and not part.words)


def _remove_part_details(part: MessagePart, *, own: bool) -> MessagePart:
    """Return a part without what came with it; a model's `own` media are words."""
    drawn = own and part.kind != "text" and part.vendor == "gemini"
    if part.kind == "data" or drawn:
        return replace(part, sent=None, vendor=None)
    return part


def _remove_thought_details(thought: Thought) -> Thought:
    own = thought.vendor == "gemini"
    return replace(thought, sent=None, vendor=None) if own else thought


def divide_calls(
    message: Message,
) -> tuple[list[Call], list[Call], list[Result], list[Result]]:
    """Return a message's calls, calls to state, results, and results of earlier calls.

    A server's own call counts as a call only if its result is in the message; else it
    is stated in words, unless its like has a result. Cost: linear.
    """
    if message.role != "assistant":
        return [], [*message.calls], [], [*message.results]
    open_calls = OpenCalls(message.calls)
    own, others, answered = list[Result](), list[Result](), set[int]()
    for result in message.results:
        number = open_calls.take(result)
        if number is None:
            others.append(result)
        else:
            own.append(result)
            answered.add(number)
    calls, left = list[Call](), list[Call]()
    for number, each in enumerate(message.calls):
        is_call = each.kind != "server" or number in answered
        (calls if is_call else left).append(each)
    alike = {_get_likeness(each) for each in calls if left}
    stated = [each for each in left if _get_likeness(each) not in alike]
    return calls, stated, own, others


def _get_likeness(call: Call) -> Hashable:
    return call.kind, call.id, call.name, call.arguments


def build_called_line(call: Call) -> MessagePart:
    """Build a text part for a call that is not written as a call."""
    texts = [*(call.values or {"": None}).values()]
    query = dump_strict(texts[0]) if isinstance(texts[0], str) else call.arguments
    about = query if len(texts) == 1 else call.arguments
    words = f"[called {call.name or UNNAMED}: {about}]" if about else ""
    return MessagePart(kind="text", words=words or f"[called {call.name or UNNAMED}]")
