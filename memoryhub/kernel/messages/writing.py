"""Writing: messages in a row become those of a request that its API takes.

Pure. Whatever stands in whatever order: each call has its one result next to it, ids
and names are such as the API takes, and nobody speaks in another's role.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from string import ascii_lowercase, digits
from typing import Any, Literal, NamedTuple

from memoryhub.kernel.messages.anthropic import ANTHROPIC
from memoryhub.kernel.messages.chat import CHAT
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
_NAME = re.compile("[A-Za-z0-9_-]{1,64}")
_OTHER = re.compile("[^A-Za-z0-9_-]")
_ALPHABET = digits + ascii_lowercase
#: Some servers take ids of this length only.
_ID_LENGTH = 9
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


class Plain(NamedTuple):
    """What nearly all messages are, as it stands in a request of any API."""

    role: Literal["user", "assistant"]
    #: Empty where nothing is said.
    text: str


class Names:
    """Names as a request may have them, and what each means. Those given go first."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._written = dict[str, str]()
        self._meant = dict[str, str]()
        listed = sorted({*names}, key=lambda name: (not _NAME.fullmatch(name), name))
        alike = Counter(_OTHER.sub("_", name) for name in listed)
        for name in listed:
            self._keep(name, ambiguous=alike[_OTHER.sub("_", name)] > 1)

    def written(self, name: str) -> str:
        """Return a name as it stands in the request."""
        return self._written.get(name) or self._keep(name, ambiguous=False)

    def meant(self, written: str) -> str:
        """Return the name that somebody means who has read the request."""
        return self._meant.get(written, written)

    def _keep(self, name: str, *, ambiguous: bool) -> str:
        found = name
        if not _NAME.fullmatch(name):
            found = _OTHER.sub("_", name)
            cut = len(found) > 64 or not found.strip("_-")
            if cut or ambiguous or found in self._meant:
                found = f"{found[:57]}_{_digest(name)[:6]}"
        self._written[name] = found
        self._meant.setdefault(found, name)
        return found


@dataclass(slots=True)
class Ids:
    """What is taken in one request: ids of calls, names of tools and people.

    Kept for longer, a message keeps its ids also when what was before it has left.
    """

    #: Of the tools that are defined, and of others that are called.
    names: Names = field(default_factory=Names)
    people: Names = field(default_factory=Names)
    #: Which place has an id: the seed of the message, and the number of the call.
    owners: dict[str, str] = field(default_factory=dict)
    #: Names, as written, of the tools that are called.
    called: set[str] = field(default_factory=set)
    #: Of calls by the ids that they came with, and of those made for results by place.
    called_by_id: dict[str, str] = field(default_factory=dict)
    called_at: dict[str, str] = field(default_factory=dict)

    def claim(self, sent: str | None, place: str, form: Format) -> str:
        """Return the id as it came, unless it is taken or none for this API."""
        if sent and form.call_id.fullmatch(sent) and self._own(sent, place):
            return sent
        made = _digest(f"{place} {sent or ''}")
        while not self._own(made, place):
            made = _digest(made)
        return made

    def _own(self, call_id: str, place: str) -> bool:
        return self.owners.setdefault(call_id, place) == place


class _Step(NamedTuple):
    """What one message does at once: says and calls, answers, or both."""

    at: int
    shown: Shown
    speech: Speech
    calls: Sequence[Call] = ()
    results: Sequence[Result] = ()

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
        return (self.followers[-1][0] if self.followers else self.heads[-1]).at


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
    writer = _Writer(FORMATS[vendor], ids, found)
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
    cached, parted = None, False
    for at, each in enumerate(shown):
        if not isinstance(each, Plain):
            cached = _cached_from(shown) if cached is None else cached
            made = [*_steps(at, each, vendor, ids, cached=at >= cached)]
            steps += made
            parted = parted and not made
        elif each.text and not parted:
            steps.append(_Step(at, _NOBODY, Speech(each.role)))
            parted = True
    return steps


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

    def __init__(self, form: Format, ids: Ids, found: list[list[str]]) -> None:
        self._form, self._ids, self._found = form, ids, found

    def write(self, group: _Group) -> None:
        head = group.heads[0]
        if head.calls:
            self._write_calls(group)
            return
        self._found[head.at] += self._alone(head, head.results)
        self._found[head.at] += self._says(head.speech)

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

    def _uses(self, step: _Step) -> list[Use]:
        for each in step.calls:
            if each.id and each.name:
                self._ids.called_by_id[each.id] = each.name
        return [
            self._use(each, step, f"{step.shown.seed} {number}")
            for number, each in enumerate(step.calls)
        ]

    def _use(self, call: Call, step: _Step, place: str) -> Use:
        name = self._ids.names.written(call.name or _UNNAMED)
        self._ids.called.add(name)
        return Use(
            self._ids.claim(call.id, place, self._form),
            name,
            call,
            _object(call.arguments),
            step.shown.thoughts,
            step.speech.cached,
        )

    def _alone(self, step: _Step, results: Sequence[Result]) -> list[str]:
        """Results without their calls, with calls that say no more than a name."""
        if not results:
            return []
        uses = list[Use]()
        for number, each in enumerate(results):
            place = f"{step.shown.seed} result {number}"
            tool = each.name or self._ids.called_by_id.get(each.id or "", _UNNAMED)
            name = self._ids.called_at.setdefault(place, tool)
            uses.append(self._use(Call(id=each.id, name=name), step, place))
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


def _digest(seed: str) -> str:
    raw = hashlib.blake2b(seed.encode(errors="replace"), digest_size=8).digest()
    number, found = int.from_bytes(raw), ""
    for _ in range(_ID_LENGTH):
        number, rest = divmod(number, len(_ALPHABET))
        found += _ALPHABET[rest]
    return found
