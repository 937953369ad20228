"""Writer of a list of messages in the shape that a request's API takes.

Pure. The messages may come in any order and with any contents. In the output each call
has its one result next to it, ids and names are valid for the API, and no message has
another's role.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

from memoryhub.kernel.messages import server_tools
from memoryhub.kernel.messages.anthropic import ANTHROPIC
from memoryhub.kernel.messages.chat import CHAT
from memoryhub.kernel.messages.gemini import GEMINI
from memoryhub.kernel.messages.ids import RequestIds
from memoryhub.kernel.messages.message import Call, Message, MessagePart, Result, Vendor
from memoryhub.kernel.messages.pieces import (
    CallAnswer,
    Json,
    MessageFormat,
    MessageSpeech,
    NamedCall,
    build_stub,
    dump_strict,
    get_sent,
    render_object,
    replace_media,
)
from memoryhub.kernel.messages.responses import RESPONSES
from memoryhub.kernel.messages.steps import (
    UNNAMED,
    OpenCalls,
    build_called_line,
    divide_calls,
    open_documents,
    remove_details,
    split_message,
)

FORMATS: dict[Vendor, MessageFormat] = {
    "chat": CHAT,
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
}

#: First message of a request that must begin with its user.
EARLIER = "Earlier messages, if there are any, are left out."
_UNANSWERED = (MessagePart(kind="text", words="[no result was recorded]"),)
#: Most cache points that Anthropic takes in a request.
_MOST_POINTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """A message as shown in a request."""

    #: A message of a user, an assistant or a tool; without a role it is none.
    message: Message
    #: Constant in every request; ids of calls are made from the seed.
    seed: str
    #: Text that replaces the results, or the parts of a message without results.
    text: str | None = None
    #: Whether the message's exchange is running: signed thoughts and cache points are
    #: kept.
    thoughts: bool = False
    #: False: media are written as lines of words.
    media: bool = True
    #: False: without the details that requests of `pack/2` lack.
    detailed: bool = True

    @property
    def is_as_said(self) -> bool:
        """Whether the message is written alike in any request, except names and ids."""
        plain = self.text is None and not self.thoughts
        return plain and self.media and self.detailed


class PlainMessage(NamedTuple):
    """A message of one text, as it stands in a request of most APIs."""

    role: Literal["user", "assistant"]
    #: Empty for a message without text.
    text: str

    def write(self, form: MessageFormat) -> list[str]:
        """Return the message's text in a request; none for a message without text."""
        if form.plain is None or not self.text:
            return [self.text] if self.text else []
        quoted = self.text[len(f'{{"role":"{self.role}","content":') : -1]
        return [form.plain(self.role, quoted)]


class _WrittenRun(NamedTuple):
    """Cached texts of a message in a run: calls, and the answers right after them.

    Each message has its own entry, so that no entry outlives its message's text.
    """

    #: Identity of the run, shared by all its messages.
    run: object
    #: Index of the message in the run, and the run's length.
    place: int
    length: int
    #: Texts of the message by API, with ids and names of the run's calls.
    texts: dict[Vendor, tuple[list[str], list[tuple[str, str]]]]


class _Step(NamedTuple):
    """One act of a message: speech and calls, answers, or both."""

    at: int
    shown: ShownMessage
    speech: MessageSpeech
    calls: Sequence[Call] = ()
    results: Sequence[Result] = ()
    #: Cached run that begins here; the step then has no speech, calls or results.
    kept: Sequence[_WrittenRun] = ()

    @property
    def last(self) -> int:
        return self.at + max(len(self.kept) - 1, 0)

    @property
    def is_silent(self) -> bool:
        speech = self.speech
        return not (speech.parts or speech.refusal or speech.thoughts)

    @property
    def has_only_thoughts(self) -> bool:
        speech = self.speech
        others = self.calls or self.results or speech.parts or speech.refusal
        return bool(speech.thoughts and not others)


class _Group(NamedTuple):
    """Steps of one message, mostly with calls, and the messages that answer at once."""

    heads: list[_Step]
    #: Answering steps, with the number of the call that each result answers.
    followers: list[tuple[_Step, list[int | None]]]

    @property
    def last(self) -> int:
        return (self.followers[-1][0] if self.followers else self.heads[-1]).last

    @property
    def messages(self) -> list[_Step]:
        return [*self.heads, *(step for step, _ in self.followers)]


def write(
    shown: Sequence[ShownMessage | PlainMessage],
    vendor: Vendor,
    *,
    ids: RequestIds,
    detailed: bool = True,
) -> list[list[str]]:
    """Return each message's texts; joined by commas, the texts make the request's.

    Several messages may make one of the request's. Not `detailed`: without the details
    that requests of `pack/2` lack. Cost: linear.
    """
    shown = [
        each
        if isinstance(each, PlainMessage)
        else write_plain(each.message, each.text)
        or _prepare(each, vendor, ids, detailed=detailed)
        for each in shown
    ]
    form = FORMATS[vendor]
    found = [
        each.write(form) if isinstance(each, PlainMessage) else [] for each in shown
    ]
    writer = _Writer(shown, vendor, ids, found)
    for group in _iter_step_groups(_drop_unfollowed(_list_steps(shown, vendor, ids))):
        writer.write(group)
    return found


def iter_groups(
    messages: Sequence[Message | PlainMessage],
) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each group of messages that must stay together."""
    shown = [
        each
        if isinstance(each, PlainMessage)
        else write_plain(each) or ShownMessage(message=each, seed="")
        for each in messages
    ]
    start = end = 0
    for group in _iter_step_groups(_list_steps(shown, "chat", RequestIds())):
        at = group.heads[0].at
        if at >= end:
            # A message that answers and calls joins two groups into one.
            if end > start:
                yield start, end
            yield from ((n, n + 1) for n in range(end, at))
            start = at
        end = group.last + 1
    if end > start:
        yield start, end
    yield from ((n, n + 1) for n in range(end, len(messages)))


def write_call(
    name: str,
    arguments: dict[str, Any],
    content: str,
    *,
    seed: str,
    vendor: Vendor,
    ids: RequestIds,
    thoughts: Sequence[Json] = (),
) -> list[str]:
    """Write a call of ours and its result; the call's id follows from the seed.

    `thoughts` are the signed thoughts that led to the call.
    """
    form, made = FORMATS[vendor], Call(name=name, arguments=dump_strict(arguments))
    ids.called.add(name)
    use = NamedCall(ids.claim_id(None, seed, form), name, made, made.arguments)
    answer = CallAnswer(use, (MessagePart(kind="text", words=content),))
    speech = MessageSpeech("assistant", thoughts=thoughts)
    return [*form.uses([(speech, [use])]), *form.answers([answer])]


def list_signed_thoughts(message: Message, vendor: Vendor) -> list[Json]:
    """Return the signed thoughts of a message that this API takes back, unchanged."""
    form = FORMATS[vendor]
    return [
        thought
        for each in message.thoughts
        if message.role == "assistant"
        and each.vendor == vendor
        and (thought := form.thought(each.sent))
    ]


def build_leading(form: MessageFormat, texts: Iterable[str]) -> list[str]:
    """Return the messages that the format requires before these texts."""
    if not form.apart or next(iter(texts), "").startswith('{"role":"user"'):
        return []
    notice = MessagePart(kind="text", words=EARLIER)
    return [form.message(MessageSpeech("user", [notice]))]


def write_tools(form: MessageFormat, text: str, ids: RequestIds) -> str:
    """Write the definitions listed in a text, with stubs where the API needs them."""
    given = {each["function"]["name"]: each for each in json.loads(text or "[]")}
    named = {ids.names.to_written(name): each for name, each in given.items()}
    called = sorted(ids.called - named.keys()) if form.stubs else ()
    named |= {name: build_stub(name) for name in called}
    defined = [
        form.tool({**each, "function": {**each["function"], "name": name}})
        for name, each in named.items()
    ]
    listed = [{form.tools: defined}] if form.tools else defined
    return dump_strict(listed) if defined else ""


def _prepare(
    shown: ShownMessage, vendor: Vendor, ids: RequestIds, *, detailed: bool
) -> ShownMessage:
    """Return a message with the details that its request has."""
    message = (open_documents if detailed else remove_details)(shown.message)
    if detailed and vendor == "anthropic":
        whole = shown.text is None and shown.media
        message = server_tools.keep_blocks(message, ids, shown.seed, whole=whole)
    return replace(shown, message=message, detailed=detailed)


_NOTHING = MessageSpeech("user")
#: Message of a step that is already written.
_NOBODY = ShownMessage(message=Message(), seed="")


def _drop_unfollowed(steps: Sequence[_Step]) -> list[_Step]:
    """Drop steps that only have thoughts and that no step of the same turn follows."""
    return [
        each
        for each, after in zip_longest(steps, steps[1:])
        if not each.has_only_thoughts or (after and _is_followed(each, after))
    ]


def _is_followed(step: _Step, after: _Step) -> bool:
    speaks = after.speech.role == "assistant" and not after.results
    return speaks or step.at == after.at


def write_plain(message: Message, text: str | None = None) -> PlainMessage | None:
    """Write a message that has a text and nothing else; return None for others.

    `text` replaces the message's own text.
    """
    parts = message.parts
    if (
        len(parts) != 1
        or parts[0].kind != "text"
        or message.role not in ("user", "assistant")
        or not message.is_plain
        or message.name
        or message.refusal
        or message.phases
        or isinstance(parts[0].sent, dict)
    ):
        return None
    role = message.role
    text = parts[0].words if text is None else text
    if role == "assistant":
        text = text.rstrip()
    if not text or text.isspace():
        return PlainMessage(role, "")
    return PlainMessage(role, f'{{"role":"{role}","content":{dump_strict(text)}}}')


def _list_steps(
    shown: Sequence[ShownMessage | PlainMessage], vendor: Vendor, ids: RequestIds
) -> list[_Step]:
    """Return the steps of messages, in order; of adjacent plain ones only the first.

    The first plain message is enough to part groups.
    """
    steps = list[_Step]()
    cached, parted, done = None, False, 0
    for at, each in enumerate(shown):
        if at < done:
            continue
        if not isinstance(each, PlainMessage):
            # Behind calls this message may be one of several that are answered
            # together.
            kept = () if steps and steps[-1].calls else _list_kept(shown, at)
            if kept:
                steps.append(_Step(at, each, MessageSpeech("assistant"), kept=kept))
                parted, done = True, steps[-1].last + 1
                continue
            cached = _find_cached_from(shown) if cached is None else cached
            made = [*_iter_steps(at, each, vendor, ids, cached=at >= cached)]
            steps += made
            parted = parted and not made
        elif each.text and not parted:
            steps.append(_Step(at, _NOBODY, MessageSpeech(each.role)))
            parted = True
    return steps


def _list_kept(
    shown: Sequence[ShownMessage | PlainMessage], at: int
) -> list[_WrittenRun]:
    """Return the cached texts of a whole run that stands here again; else empty."""
    run = list[_WrittenRun]()
    for place in range(len(shown) - at):
        each = shown[at + place]
        if (
            isinstance(each, PlainMessage)
            or not each.is_as_said
            or not each.message.kept
        ):
            return []
        found: _WrittenRun = each.message.kept[0]
        if found.place != place or (run and found.run is not run[0].run):
            return []
        run.append(found)
        if len(run) == found.length:
            return run
    return []


def _iter_steps(
    at: int, shown: ShownMessage, vendor: Vendor, ids: RequestIds, *, cached: bool
) -> Iterator[_Step]:
    # Chat completions have no thoughts, and speech only before calls.
    whole = vendor == "chat" or shown.text is not None
    steps = [shown.message] if whole else split_message(shown.message)
    for number, message in enumerate(steps):
        seed = f"{shown.seed} step {number}" if number else shown.seed
        step = replace(shown, message=message, seed=seed) if len(steps) > 1 else shown
        yield from _iter_acts(at, step, vendor, ids, cached=cached)


def _iter_acts(
    at: int, shown: ShownMessage, vendor: Vendor, ids: RequestIds, *, cached: bool
) -> Iterator[_Step]:
    message = shown.message
    role = message.role
    assert role in ("user", "assistant", "tool"), "what is of no one is no message"
    calls, stated, own, results = divide_calls(message)
    parts = (*message.parts, *map(build_called_line, stated))
    if role == "tool":
        if message.refusal:
            parts = (*parts, MessagePart(kind="text", words=message.refusal))
        *before, last = results or [Result()]
        results, parts = [*before, replace(last, parts=(*last.parts, *parts))], ()
    if shown.text is not None:
        shortened = (MessagePart(kind="text", words=shown.text),)
        every = [*results, *own]
        emptied = [replace(each, parts=()) for each in every]
        if emptied:
            emptied[0] = replace(emptied[0], parts=shortened)
            results, own = emptied[: len(results)], emptied[len(results) :]
        else:
            parts = shortened
    speech = _build_speech(shown, parts, vendor, ids, cached=cached)
    if results and calls:
        yield _Step(at, shown, _NOTHING, results=results)
        results = []
    step = _Step(at, shown, speech, calls, [*results, *own])
    if step.calls or step.results or not step.is_silent:
        yield step


def _build_speech(
    shown: ShownMessage,
    parts: Sequence[MessagePart],
    vendor: Vendor,
    ids: RequestIds,
    *,
    cached: bool,
) -> MessageSpeech:
    message = shown.message
    if not shown.media:
        parts = replace_media(parts)
    refusal = (message.refusal or "").rstrip() if shown.text is None else ""
    if message.role == "user" and refusal:
        parts = (*parts, MessagePart(kind="text", words=refusal))
    return MessageSpeech(
        "assistant" if message.role == "assistant" else "user",
        [
            each
            for each in parts
            if each.kind != "text" or _has_words_or_signature(each)
        ],
        ids.people.to_written(message.name) if message.name else None,
        refusal if refusal and message.role == "assistant" else None,
        list_signed_thoughts(message, vendor) if shown.thoughts else [],
        cached,
        message.phases[0] if message.phases else None,
    )


def _has_words_or_signature(part: MessagePart) -> bool:
    return bool(part.words.strip()) or part.vendor == "gemini"


def _iter_step_groups(steps: Sequence[_Step]) -> Iterator[_Group]:
    """Yield each step alone, but calls with all steps that answer them immediately.

    Steps of one message stay together up to the next whose calls have results there.
    """
    at = 0
    while at < len(steps):
        end = _find_end_of_heads(steps, at)
        group, at = _Group([*steps[at:end]], []), end
        open_calls = OpenCalls(each for step in group.heads for each in step.calls)
        for step in group.heads:
            if step.calls and step.results:
                _add_answers(group, step, open_calls)
        while (
            open_calls
            and at < len(steps)
            and not steps[at].calls
            and _add_answers(group, steps[at], open_calls)
        ):
            at += 1
        yield group


def _find_end_of_heads(steps: Sequence[_Step], start: int) -> int:
    """Return the end of the steps that are written in one message with the first."""
    called = answered = 0
    for at in range(start, len(steps)):
        step, after = steps[at], steps[at + 1 : at + 2]
        if at > start and not _is_head(steps[start], called, answered, step, after):
            return at
        called += len(step.calls)
        answered += len(step.results)
    return len(steps)


def _is_head(
    head: _Step, called: int, answered: int, step: _Step, after: Sequence[_Step]
) -> bool:
    """Return whether a step is one message with its head, after these many pieces."""
    if step.at != head.at or head.kept:
        # Some APIs write each of parallel calls as a message.
        more_calls = called and step.calls and step.is_silent
        return bool(more_calls) and not (answered or step.results)
    begins = bool(step.calls) or not step.results
    ends = step.has_only_thoughts and not any(each.at == step.at for each in after)
    is_open = called > answered or not (called or answered)
    return is_open and begins and not ends and head.speech.role == "assistant"


def _add_answers(group: _Group, step: _Step, open_calls: OpenCalls) -> bool:
    """Add a step to the group if any of its results answers one of these calls."""
    numbers = [open_calls.take(result) for result in step.results]
    if all(number is None for number in numbers):
        return False
    group.followers.append((step, numbers))
    return True


class _Writer:
    """Writer of groups, each text into the list of its message."""

    def __init__(
        self,
        shown: Sequence[ShownMessage | PlainMessage],
        vendor: Vendor,
        ids: RequestIds,
        found: list[list[str]],
    ) -> None:
        self._shown, self._vendor, self._form = shown, vendor, FORMATS[vendor]
        self._ids, self._found = ids, found

    def write(self, group: _Group) -> None:
        head = group.heads[0]
        if head.kept:
            self._write_kept(head)
            return
        if len(group.heads) > 1:
            group = group._replace(heads=[*filter(self._has_words, group.heads)])
            if not group.heads:
                return
        if any(step.calls for step in group.heads) or len(group.heads) > 1:
            self._write_calls(group)
            return
        head = group.heads[0]
        self._found[head.at] += self._write_alone(head, head.results)
        self._found[head.at] += self._write_speech(head.speech)

    def _has_words(self, step: _Step) -> bool:
        """Return whether the API has a text for a step."""
        pieces = step.calls or step.speech.thoughts
        return bool(pieces or self._form.message(step.speech))

    def _write_kept(self, head: _Step) -> None:
        """Write the cached texts if the ids and names are equal; else write anew."""
        # A server's own call stands in words, and claims no name.
        named = self._claim_names(head, divide_calls(head.shown.message)[0])
        run = [each.texts.get(self._vendor) for each in head.kept]
        if all(made is not None and made[1] == named for made in run):
            for at, made in enumerate(run, head.at):
                self._found[at] += made[0] if made else ()
            return
        again = [
            step
            for at in range(head.at, head.last + 1)
            if isinstance(each := self._shown[at], ShownMessage)
            for step in _iter_steps(at, each, self._vendor, self._ids, cached=False)
        ]
        for group in _iter_step_groups(again):
            self.write(group)

    def _keep_written(self, group: _Group, uses: Sequence[NamedCall]) -> None:
        """Cache the texts of a message with calls and of all answers right after it."""
        steps = group.messages
        head, messages = steps[0], [step.shown.message for step in steps]
        if (
            len(group.heads) > 1
            or head.results
            or not all(step.shown.is_as_said for step in steps)
            # A message in several steps is written anew each time.
            or not all(step.shown is self._shown[step.at] for step in steps)
            or any(None in numbers for _, numbers in group.followers)
            or any(message.calls for message in messages[1:])
        ):
            return
        named = [(use.id, use.name) for use in uses]
        run, before = object(), _list_kept(self._shown, head.at)
        for place, (step, message) in enumerate(zip(steps, messages, strict=True)):
            if len(before) != len(steps):
                message.kept[:] = [_WrittenRun(run, place, len(steps), {})]
            message.kept[0].texts[self._vendor] = [*self._found[step.at]], named

    def _write_calls(self, group: _Group) -> None:
        heads = [(step.speech, self._build_uses(step)) for step in group.heads]
        for step, text in zip(group.heads, self._form.uses(heads), strict=True):
            self._found[step.at].append(text)
        uses = [use for _, part in heads for use in part]
        answers, after = list[tuple[int, CallAnswer]](), list[str]()
        for step, numbers in group.followers:
            pairs = [*zip(numbers, step.results, strict=True)]
            own = [
                self._build_answer(uses[number], step, result)
                for number, result in pairs
                if number is not None
            ]
            answers += [(step.at, each) for each in own]
            left = [result for number, result in pairs if number is None]
            after += self._write_aside(own)
            after += self._write_alone(step, left)
            if not step.calls:
                after += self._write_speech(step.speech)
        answered = {each.use.id for _, each in answers}
        missing = [
            (group.heads[-1].at, CallAnswer(use, _UNANSWERED))
            for use in uses
            if use.id not in answered
        ]
        answers = missing + answers
        texts = self._form.answers([each for _, each in answers]) if answers else []
        for (at, _), text in zip(answers, texts, strict=True):
            self._found[at].append(text)
        # Written after all results: no speech may stand between them.
        self._found[group.last] += after
        if not missing and not after:
            self._keep_written(group, uses)

    def _build_uses(self, step: _Step) -> list[NamedCall]:
        named = self._claim_names(step, step.calls)
        return [
            self._build_use(each, step, *own)
            for each, own in zip(step.calls, named, strict=True)
        ]

    def _build_use(self, call: Call, step: _Step, call_id: str, name: str) -> NamedCall:
        arguments, thoughts = render_object(call.arguments), step.shown.thoughts
        return NamedCall(call_id, name, call, arguments, thoughts, step.speech.cached)

    def _claim_names(self, step: _Step, calls: Sequence[Call]) -> list[tuple[str, str]]:
        """Claim ids and names of calls as they stand in this request."""
        for each in calls:
            if each.id and each.name:
                self._ids.called_by_id[each.id] = each.name
        return [
            self._claim_name(each, f"{step.shown.seed} {number}")
            for number, each in enumerate(calls)
        ]

    def _claim_name(self, call: Call, place: str) -> tuple[str, str]:
        name = self._ids.names.to_written(call.name or UNNAMED)
        self._ids.called.add(name)
        return self._ids.claim_id(call.id, place, self._form), name

    def _write_alone(self, step: _Step, results: Sequence[Result]) -> list[str]:
        """Write results without a call, each below a made-up call with only a name."""
        if not results:
            return []
        uses = list[NamedCall]()
        for number, each in enumerate(results):
            place = f"{step.shown.seed} result {number}"
            tool = each.name or self._ids.called_by_id.get(each.id or "", UNNAMED)
            name = self._ids.called_at.setdefault(place, tool)
            call = Call(id=each.id, name=name)
            uses.append(self._build_use(call, step, *self._claim_name(call, place)))
        answers = [
            self._build_answer(use, step, each)
            for use, each in zip(uses, results, strict=True)
        ]
        return [
            *self._form.uses([(MessageSpeech("assistant"), uses)]),
            *self._form.answers(answers),
            *self._write_aside(answers),
        ]

    def _build_answer(self, use: NamedCall, step: _Step, result: Result) -> CallAnswer:
        parts = result.parts if step.shown.media else replace_media(result.parts)
        return CallAnswer(use, parts, result.failed, result, step.speech.cached)

    def _write_aside(self, answers: Iterable[CallAnswer]) -> list[str]:
        parts = [part for each in answers for part in self._form.aside(each)]
        return self._write_speech(MessageSpeech("user", parts))

    def _write_speech(self, speech: MessageSpeech) -> list[str]:
        text = self._form.message(speech)
        return [text] if text else []


def _find_cached_from(shown: Sequence[ShownMessage | PlainMessage]) -> int:
    """Return the first index from which on the cache points are within the limit."""
    points, at = 0, len(shown)
    while at:
        each = shown[at - 1]
        if isinstance(each, PlainMessage):
            at -= 1
            continue
        if not each.thoughts:
            break
        message = each.message
        parts = [part for each in message.results for part in each.parts]
        every = (message.parts, message.calls, message.results, parts)
        points += sum(
            "cache_control" in get_sent(piece, "anthropic")
            for pieces in every
            for piece in pieces
        )
        if points > _MOST_POINTS:
            break
        at -= 1
    return at
