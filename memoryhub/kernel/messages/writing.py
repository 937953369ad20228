"""Writing: messages in a row become those of a request that its API takes.

Pure. Whatever stands in whatever order: each call has its one result next to it, ids
and names are such as the API takes, and nobody speaks in another's role.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from memoryhub.kernel.messages.anthropic import ANTHROPIC
from memoryhub.kernel.messages.chat import CHAT
from memoryhub.kernel.messages.ids import Ids
from memoryhub.kernel.messages.message import Call, Message, Part, Result, Vendor
from memoryhub.kernel.messages.pieces import (
    Answer,
    Format,
    Json,
    Speech,
    Use,
    line,
    sent_in,
    stub,
    written,
)
from memoryhub.kernel.messages.responses import RESPONSES
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.strict_json import JsonRefusedError, Limits

FORMATS: dict[Vendor, Format] = {
    "chat": CHAT,
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
}

#: What a request begins with that must begin with its user.
EARLIER = "Earlier messages, if there are any, are left out."
_UNANSWERED = (Part(kind="text", words="[no result was recorded]"),)
_UNNAMED = "tool"
#: As many cache points as Anthropic takes in a request.
_MOST_POINTS = 4
#: Arguments are a text, which may be longer than what comes in as content itself.
_ARGUMENTS = Limits(
    max_bytes=64 << 20,
    max_depth=64,
    max_nodes=1_000_000,
    max_key_bytes=1 << 16,
    content=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A message as it stands in a request."""

    #: Of a user, an assistant or a tool; what is of no one is no message.
    message: Message
    #: The same in every request: what ids follow from that are made.
    seed: str
    #: What stands in place of its results, or without any in place of its parts.
    text: str | None = None
    #: Its exchange runs: signed thoughts and cache points stand.
    thoughts: bool = False
    #: Without, media are lines of words.
    media: bool = True

    @property
    def as_said(self) -> bool:
        """Whether it is written the same in any request, but for names and ids."""
        return self.text is None and self.media and not self.thoughts


class Plain(NamedTuple):
    """What nearly all messages are, as it stands in a request of any API."""

    role: Literal["user", "assistant"]
    #: Empty where nothing is said.
    text: str


class _Kept(NamedTuple):
    """How a message was written of a run: calls, and what answers them right after.

    Each message has its own, so that none outlives its text.
    """

    #: The same of all messages of the run.
    run: object
    #: The place of this one, and how many they are.
    place: int
    length: int
    #: By whose API it is: what it has become, and ids and names of the run's calls.
    texts: dict[Vendor, tuple[list[str], list[tuple[str, str]]]]


class _Step(NamedTuple):
    """What one message does at once: says and calls, answers, or both."""

    at: int
    shown: Shown
    speech: Speech
    calls: Sequence[Call] = ()
    results: Sequence[Result] = ()
    #: Without all of these: the run that it begins, as it was written before.
    kept: Sequence[_Kept] = ()

    @property
    def last(self) -> int:
        return self.at + max(len(self.kept) - 1, 0)

    @property
    def silent(self) -> bool:
        speech = self.speech
        return not (speech.parts or speech.refusal or speech.thoughts)


class _Group(NamedTuple):
    """Calls, and the messages that answer them at once."""

    heads: list[_Step]
    #: For each result the number of the call that it answers.
    followers: list[tuple[_Step, list[int | None]]]

    @property
    def last(self) -> int:
        return (self.followers[-1][0] if self.followers else self.heads[-1]).last

    @property
    def messages(self) -> list[_Step]:
        return [*self.heads, *(step for step, _ in self.followers)]


def write(
    shown: Sequence[Shown | Plain], vendor: Vendor, *, ids: Ids
) -> list[list[str]]:
    """Return the texts of each message; all of them, joined by commas, are a request's.

    Several messages may make one of the request's. Cost: linear.
    """
    shown = [
        each if isinstance(each, Plain) else plain(each.message, each.text) or each
        for each in shown
    ]
    found = [
        [each.text] if isinstance(each, Plain) and each.text else [] for each in shown
    ]
    writer = _Writer(shown, vendor, ids, found)
    for group in _grouped(_followed(_all_steps(shown, vendor, ids))):
        writer.write(group)
    return found


def groups(messages: Sequence[Message | Plain]) -> Iterator[tuple[int, int]]:
    """Yield where what must stand together begins, and its end; of all, in order."""
    shown = [
        each if isinstance(each, Plain) else plain(each) or Shown(message=each, seed="")
        for each in messages
    ]
    start = end = 0
    for group in _grouped(_all_steps(shown, "chat", Ids())):
        at = group.heads[0].at
        if at >= end:
            # One that answers and calls stands between two, and keeps them together.
            if end > start:
                yield start, end
            yield from ((n, n + 1) for n in range(end, at))
            start = at
        end = group.last + 1
    if end > start:
        yield start, end
    yield from ((n, n + 1) for n in range(end, len(messages)))


def call(
    name: str,
    arguments: dict[str, Any],
    content: str,
    *,
    seed: str,
    vendor: Vendor,
    ids: Ids,
    thoughts: Sequence[Json] = (),
) -> list[str]:
    """Return a call of ours and its result; the call's id follows from the seed.

    `thoughts` are those that have led to it, as they were signed.
    """
    form, made = FORMATS[vendor], Call(name=name, arguments=written(arguments))
    ids.called.add(name)
    use = Use(ids.claim(None, seed, form), name, made, made.arguments)
    answer = Answer(use, (Part(kind="text", words=content),))
    speech = Speech("assistant", thoughts=thoughts)
    return [*form.uses([(speech, [use])]), *form.answers([answer])]


def signed(message: Message, vendor: Vendor) -> list[Json]:
    """Return the thoughts that this API takes back, as they were signed."""
    form = FORMATS[vendor]
    return [
        thought
        for each in message.thoughts
        if message.role == "assistant"
        and each.vendor == vendor
        and (thought := form.thought(each.sent))
    ]


def first(form: Format, texts: Iterable[str]) -> list[str]:
    """Return the messages that must stand before these."""
    if not form.apart or next(iter(texts), "").startswith('{"role":"user"'):
        return []
    return [written({"role": "user", "content": EARLIER})]


def tools(form: Format, text: str, ids: Ids) -> str:
    """Return the definitions that a text lists, with stubs where the API needs them."""
    listed = {each["function"]["name"]: each for each in json.loads(text or "[]")}
    named = {ids.names.written(name): each for name, each in listed.items()}
    called = sorted(ids.called - named.keys()) if form.apart else ()
    named |= {name: stub(name) for name in called}
    defined = [
        form.tool({**each, "function": {**each["function"], "name": name}})
        for name, each in named.items()
    ]
    return written(defined) if defined else ""


_NOTHING = Speech("user")
#: Of a step that is written already.
_NOBODY = Shown(message=Message(), seed="")


def _followed(steps: Sequence[_Step]) -> list[_Step]:
    """Steps without thoughts that nothing of the same turn follows."""
    return [
        each
        for each, after in zip_longest(steps, steps[1:])
        if each.calls
        or each.results
        or not each.speech.thoughts
        or each.speech.parts
        or each.speech.refusal
        or (after and after.speech.role == "assistant" and not after.results)
    ]


def plain(message: Message, text: str | None = None) -> Plain | None:
    """Return how a message stands that says a text and nothing else; None of others.

    `text` is what stands in place of its own.
    """
    parts = message.parts
    if (
        len(parts) != 1
        or parts[0].kind != "text"
        or message.role not in ("user", "assistant")
        or not message.is_plain
        or message.name
        or message.refusal
        or isinstance(parts[0].sent, dict)
    ):
        return None
    role = message.role
    text = parts[0].words if text is None else text
    if role == "assistant":
        text = text.rstrip()
    if not text or text.isspace():
        return Plain(role, "")
    return Plain(role, f'{{"role":"{role}","content":{written(text)}}}')


def _all_steps(shown: Sequence[Shown | Plain], vendor: Vendor, ids: Ids) -> list[_Step]:
    """What they do, in order; of plain ones in a row the first, which parts groups."""
    steps = list[_Step]()
    cached, parted, done = None, False, 0
    for at, each in enumerate(shown):
        if at < done:
            continue
        if not isinstance(each, Plain):
            # Behind calls it may be one of several that are answered together.
            kept = () if steps and steps[-1].calls else _kept(shown, at)
            if kept:
                steps.append(_Step(at, each, Speech("assistant"), kept=kept))
                parted, done = True, steps[-1].last + 1
                continue
            cached = _cached_from(shown) if cached is None else cached
            made = [*_steps(at, each, vendor, ids, cached=at >= cached)]
            steps += made
            parted = parted and not made
        elif each.text and not parted:
            steps.append(_Step(at, _NOBODY, Speech(each.role)))
            parted = True
    return steps


def _kept(shown: Sequence[Shown | Plain], at: int) -> list[_Kept]:
    """What was written before of a run that stands here again; of others nothing."""
    run = list[_Kept]()
    for place in range(len(shown) - at):
        each = shown[at + place]
        if isinstance(each, Plain) or not each.as_said or not each.message.kept:
            return []
        found: _Kept = each.message.kept[0]
        if found.place != place or (run and found.run is not run[0].run):
            return []
        run.append(found)
        if len(run) == found.length:
            return run
    return []


def _steps(
    at: int, shown: Shown, vendor: Vendor, ids: Ids, *, cached: bool
) -> Iterator[_Step]:
    message = shown.message
    role = message.role
    assert role in ("user", "assistant", "tool"), "what is of no one is no message"
    calls, own, results = _divided(message)
    stated = tuple(each for each in message.calls if each not in calls)
    parts = (*message.parts, *map(_called_line, stated))
    if role == "tool":
        if message.refusal:
            parts = (*parts, Part(kind="text", words=message.refusal))
        *before, last = results or [Result()]
        results, parts = [*before, replace(last, parts=(*last.parts, *parts))], ()
    if shown.text is not None:
        shortened = (Part(kind="text", words=shown.text),)
        every = [*results, *own]
        emptied = [replace(each, parts=()) for each in every]
        if emptied:
            emptied[0] = replace(emptied[0], parts=shortened)
            results, own = emptied[: len(results)], emptied[len(results) :]
        else:
            parts = shortened
    speech = _speech(shown, parts, vendor, ids, cached=cached)
    if results and calls:
        yield _Step(at, shown, _NOTHING, results=results)
        results = []
    step = _Step(at, shown, speech, calls, [*results, *own])
    if step.calls or step.results or not step.silent:
        yield step


def _divided(message: Message) -> tuple[list[Call], list[Result], list[Result]]:
    """Its calls, results of them, and results of calls before.

    What a server called itself is a call only if its result is there.
    """
    if message.role != "assistant":
        return [], [], [*message.results]
    open_calls: list[Call | None] = [*message.calls]
    own, others, answered = list[Result](), list[Result](), set[int]()
    for result in message.results:
        number = _match(result, open_calls)
        if number is None:
            others.append(result)
        else:
            own.append(result)
            answered.add(number)
            open_calls[number] = None
    calls = [
        each
        for number, each in enumerate(message.calls)
        if each.kind != "server" or number in answered
    ]
    return calls, own, others


def _match(result: Result, calls: Sequence[Call | None]) -> int | None:
    """The call that it answers: by its id, without one by name and order."""
    fits = [
        (number, each)
        for number, each in enumerate(calls)
        if each is not None and (each.id or None) == (result.id or None)
    ]
    if not fits and not result.id and result.name:
        fits = [(n, each) for n, each in enumerate(calls) if each is not None]
        fits = [(n, each) for n, each in fits if each.name == result.name]
    named = (n for n, each in fits if result.name and each.name == result.name)
    return next(named, fits[0][0] if fits else None)


def _called_line(call: Call) -> Part:
    """A call that stands in no place of its own, in words."""
    texts = [*(call.values or {"": None}).values()]
    query = written(texts[0]) if isinstance(texts[0], str) else call.arguments
    about = query if len(texts) == 1 else call.arguments
    words = f"[called {call.name or _UNNAMED}: {about}]" if about else ""
    return Part(kind="text", words=words or f"[called {call.name or _UNNAMED}]")


def _speech(
    shown: Shown, parts: Sequence[Part], vendor: Vendor, ids: Ids, *, cached: bool
) -> Speech:
    message = shown.message
    if not shown.media:
        parts = _in_lines(parts)
    refusal = (message.refusal or "").rstrip() if shown.text is None else ""
    if message.role == "user" and refusal:
        parts = (*parts, Part(kind="text", words=refusal))
    return Speech(
        "assistant" if message.role == "assistant" else "user",
        [each for each in parts if each.kind != "text" or each.words.strip()],
        ids.people.written(message.name) if message.name else None,
        refusal if refusal and message.role == "assistant" else None,
        signed(message, vendor) if shown.thoughts else [],
        cached,
    )


def _in_lines(parts: Iterable[Part]) -> list[Part]:
    """Parts whose media are lines."""
    return [
        each if each.kind in ("text", "data") else Part(kind="text", words=line(each))
        for each in parts
    ]


def _grouped(steps: Sequence[_Step]) -> Iterator[_Group]:
    """Yield each step alone, but calls with all that answers them at once."""
    at = 0
    while at < len(steps):
        head = steps[at]
        at += 1
        group = _Group([head], [])
        if head.calls and not head.results:
            # Some write each of parallel calls as a message.
            while at < len(steps) and _only_calls(steps[at]):
                group.heads.append(steps[at])
                at += 1
        open_calls: list[Call | None] = [
            each for step in group.heads for each in step.calls
        ]
        if head.calls and head.results:
            _answer(group, head, open_calls)
        while (
            any(open_calls)
            and at < len(steps)
            and not steps[at].calls
            and _answer(group, steps[at], open_calls)
        ):
            at += 1
        yield group


def _only_calls(step: _Step) -> bool:
    return bool(step.calls) and not step.results and step.silent


def _answer(group: _Group, step: _Step, open_calls: list[Call | None]) -> bool:
    """Add a step if a result of it answers one of these calls."""
    numbers = list[int | None]()
    for result in step.results:
        number = _match(result, open_calls)
        numbers.append(number)
        if number is not None:
            open_calls[number] = None
    if all(number is None for number in numbers):
        return False
    group.followers.append((step, numbers))
    return True


class _Writer:
    """Writes groups, each text into the list of whose message it is."""

    def __init__(
        self,
        shown: Sequence[Shown | Plain],
        vendor: Vendor,
        ids: Ids,
        found: list[list[str]],
    ) -> None:
        self._shown, self._vendor, self._form = shown, vendor, FORMATS[vendor]
        self._ids, self._found = ids, found

    def write(self, group: _Group) -> None:
        head = group.heads[0]
        if head.kept:
            self._write_kept(head)
            return
        if head.calls:
            self._write_calls(group)
            return
        self._found[head.at] += self._alone(head, head.results)
        self._found[head.at] += self._says(head.speech)

    def _write_kept(self, head: _Step) -> None:
        """As it was written before, if it has the same ids and names here as there."""
        # What a server called itself stands in words, and claims no name.
        named = self._named(head, _divided(head.shown.message)[0])
        run = [each.texts.get(self._vendor) for each in head.kept]
        if all(made is not None and made[1] == named for made in run):
            for at, made in enumerate(run, head.at):
                self._found[at] += made[0] if made else ()
            return
        again = [
            step
            for at in range(head.at, head.last + 1)
            if isinstance(each := self._shown[at], Shown)
            for step in _steps(at, each, self._vendor, self._ids, cached=False)
        ]
        for group in _grouped(again):
            self.write(group)

    def _keep(self, group: _Group, uses: Sequence[Use]) -> None:
        """Keep what was written of a message with all the answers right after it."""
        steps = group.messages
        head, messages = steps[0], [step.shown.message for step in steps]
        if (
            len(group.heads) > 1
            or head.results
            or not all(step.shown.as_said for step in steps)
            or any(None in numbers for _, numbers in group.followers)
            or any(message.calls for message in messages[1:])
        ):
            return
        named = [(use.id, use.name) for use in uses]
        run, before = object(), _kept(self._shown, head.at)
        for place, (step, message) in enumerate(zip(steps, messages, strict=True)):
            if len(before) != len(steps):
                message.kept[:] = [_Kept(run, place, len(steps), {})]
            message.kept[0].texts[self._vendor] = [*self._found[step.at]], named

    def _write_calls(self, group: _Group) -> None:
        heads = [(step.speech, self._uses(step)) for step in group.heads]
        for step, text in zip(group.heads, self._form.uses(heads), strict=True):
            self._found[step.at].append(text)
        uses = [use for _, part in heads for use in part]
        answers, after = list[tuple[int, Answer]](), list[str]()
        for step, numbers in group.followers:
            for number, result in zip(numbers, step.results, strict=True):
                if number is not None:
                    answers.append((step.at, self._answer(uses[number], step, result)))
            left = [
                result
                for number, result in zip(numbers, step.results, strict=True)
                if number is None
            ]
            after += self._aside([each for at, each in answers if at == step.at])
            after += self._alone(step, left)
            if step not in group.heads:
                after += self._says(step.speech)
        answered = {each.use.id for _, each in answers}
        missing = [
            (group.heads[-1].at, Answer(use, _UNANSWERED))
            for use in uses
            if use.id not in answered
        ]
        answers = missing + answers
        texts = self._form.answers([each for _, each in answers])
        for (at, _), text in zip(answers, texts, strict=True):
            self._found[at].append(text)
        # After all results: between them nobody may speak.
        self._found[group.last] += after
        if not missing and not after:
            self._keep(group, uses)

    def _uses(self, step: _Step) -> list[Use]:
        named = self._named(step, step.calls)
        return [
            self._use(each, step, *own)
            for each, own in zip(step.calls, named, strict=True)
        ]

    def _use(self, call: Call, step: _Step, call_id: str, name: str) -> Use:
        arguments, thoughts = _object(call.arguments), step.shown.thoughts
        return Use(call_id, name, call, arguments, thoughts, step.speech.cached)

    def _named(self, step: _Step, calls: Sequence[Call]) -> list[tuple[str, str]]:
        """Return ids and names of calls as they stand in this request."""
        for each in calls:
            if each.id and each.name:
                self._ids.called_by_id[each.id] = each.name
        return [
            self._claimed(each, f"{step.shown.seed} {number}")
            for number, each in enumerate(calls)
        ]

    def _claimed(self, call: Call, place: str) -> tuple[str, str]:
        name = self._ids.names.written(call.name or _UNNAMED)
        self._ids.called.add(name)
        return self._ids.claim(call.id, place, self._form), name

    def _alone(self, step: _Step, results: Sequence[Result]) -> list[str]:
        """Results without their calls, with calls that say no more than a name."""
        if not results:
            return []
        uses = list[Use]()
        for number, each in enumerate(results):
            place = f"{step.shown.seed} result {number}"
            tool = each.name or self._ids.called_by_id.get(each.id or "", _UNNAMED)
            name = self._ids.called_at.setdefault(place, tool)
            call = Call(id=each.id, name=name)
            uses.append(self._use(call, step, *self._claimed(call, place)))
        answers = [
            self._answer(use, step, each)
            for use, each in zip(uses, results, strict=True)
        ]
        return [
            *self._form.uses([(Speech("assistant"), uses)]),
            *self._form.answers(answers),
            *self._aside(answers),
        ]

    def _answer(self, use: Use, step: _Step, result: Result) -> Answer:
        parts = result.parts if step.shown.media else _in_lines(result.parts)
        return Answer(use, parts, result.failed, result, step.speech.cached)

    def _aside(self, answers: Iterable[Answer]) -> list[str]:
        parts = [part for each in answers for part in self._form.aside(each)]
        return self._says(Speech("user", parts))

    def _says(self, speech: Speech) -> list[str]:
        text = self._form.message(speech)
        return [text] if text else []


def _object(arguments: str) -> str:
    """Arguments as the text of an object, whatever a model wrote; none of it is lost.

    Of an object it is the text as it came, to the last digit.
    """
    if arguments.strip() in ("", "null", "{}"):
        return "{}"
    try:
        found = strict_json.parse(arguments.encode(), _ARGUMENTS)
    except (JsonRefusedError, UnicodeEncodeError, RecursionError):
        found = None
    return arguments if isinstance(found, dict) else written({"input": arguments})


def _cached_from(shown: Sequence[Shown | Plain]) -> int:
    """Return from which message on no more cache points stand than may."""
    points, at = 0, len(shown)
    while at:
        each = shown[at - 1]
        if isinstance(each, Plain):
            at -= 1
            continue
        if not each.thoughts:
            break
        message = each.message
        parts = [part for each in message.results for part in each.parts]
        every = (message.parts, message.calls, message.results, parts)
        points += sum(
            "cache_control" in sent_in(piece, "anthropic")
            for pieces in every
            for piece in pieces
        )
        if points > _MOST_POINTS:
            break
        at -= 1
    return at
