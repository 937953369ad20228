"""The conversation in a request: each message stays a message of who wrote it.

Pure. Slots of any shape are read as chat completions, and written in the request's. A
message keeps its role, calls keep their results. What comes out of memory, and what no
API would take as a message, stands as the result of a call of `page_fault`: it speaks
with a tool's authority, never with more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from string import ascii_lowercase, digits
from typing import Any, NamedTuple

from memoryhub.kernel.formats.transcripts import ROLES
from memoryhub.kernel.levels import message_shapes
from memoryhub.kernel.levels.exchange import called_name, plain_content
from memoryhub.kernel.levels.lines import CUT, shown_text
from memoryhub.kernel.levels.message_shapes import Chat
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.request_shapes import CHAT, Shape
from memoryhub.kernel.levels.tools import OWN, PAGE_FAULT
from memoryhub.kernel.state.pages import FULL
from memoryhub.kernel.text.json_text import dumped

LEVELS = ("full", "excerpt", "summary", "one line")
_ALPHABET = digits + ascii_lowercase
#: Some servers take ids of this length only.
_ID_LENGTH = 9
_TOOLS = ("tool", "function")
_SPEAKERS = ("user", "assistant")
#: Where an opened page keeps the message that it is, in `shown`.
_MESSAGE = -1


class _Read(NamedTuple):
    """A page as a message: the chat messages that it is, whose they are, its calls."""

    messages: Sequence[Chat] = ()
    role: str | None = None
    calls: Sequence[Any] = ()


_SILENT = _Read()


@dataclass(slots=True)
class ShownPage:
    """A page as it stands in a conversation."""

    #: At FULL, which tells who said it and which call it answers.
    opened: Opened
    #: Of the event that put it there: what makes ids of calls that are ours.
    seq: int
    level: int = FULL
    #: The same at its level, when that is not FULL.
    lower: Opened | None = None
    #: Characters kept; None for all.
    cut: int | None = None
    part: tuple[int, int] | None = None
    #: It came out of memory, whoever said it once.
    recalled: bool = False
    #: The chat messages that it is; none of what memory brings.
    messages: Sequence[Chat] = field(init=False)
    #: Whose they are; None for what memory brings.
    role: str | None = field(init=False)
    #: Of a message of the assistant.
    calls: Sequence[Any] = field(init=False)

    def __post_init__(self) -> None:
        read = _SILENT if _from_memory(self) else _read(self.opened)
        self.messages, self.role, self.calls = read

    @property
    def answers(self) -> list[str | None]:
        """Ids of the calls that it answers; None for one without."""
        return [_answer(each) for each in self.messages if each["role"] in _TOOLS]

    @property
    def text(self) -> str:
        """What is left of its text."""
        text = shown_text(self.lower or self.opened, level=self.level)
        if self.part is not None:
            return text[slice(*self.part)]
        return text if self.cut is None else text[: self.cut] + CUT

    @property
    def whole(self) -> bool:
        return self.level == FULL and self.cut is None and self.part is None


def messages(
    pages: Sequence[ShownPage], *, seen: set[str] | None = None, shape: Shape = CHAT
) -> list[list[str]]:
    """Return the messages' JSON, a list for each page; some pages have none.

    `seen` are ids of calls of the same request, and will be.
    """
    seen = set() if seen is None else seen
    written = (_written(group, seen, shape) for group in groups(pages))
    return list(chain.from_iterable(written))


def groups(pages: Sequence[ShownPage]) -> Iterator[Sequence[ShownPage]]:
    """Yield each page; calls of tools together with the results that follow at once."""
    start = 0
    while start < len(pages):
        end = start + 1
        calls = pages[start].calls
        open_ids = [_id(call) for call in calls] if calls else []
        while open_ids and end < len(pages) and pages[end].role == "tool":
            answers = pages[end].answers
            if not {*answers} <= {*open_ids}:
                break
            open_ids = [each for each in open_ids if each not in answers]
            end += 1
        yield pages[start:end]
        start = end


def called(pages: Sequence[ShownPage]) -> set[str]:
    """Return the names of the tools that messages call."""
    names = (called_name(call) for page in pages for call in page.calls)
    return {name for name in names if name}


def _id(call: Any) -> str | None:
    found = call.get("id") if isinstance(call, dict) else None
    return found if isinstance(found, str) else None


def is_self_contained(group: Sequence[ShownPage]) -> bool:
    """Return whether a group has no call of ours besides those that bring its pages."""
    first = group[0]
    if _from_memory(first):
        return True
    calls = _standing_calls(first, group[1:])
    if calls is None:
        return _message(first, CHAT) is not None
    return not calls or (first.whole and _all_answered(calls, group[1:]))


def fetched_text(page: ShownPage) -> str:
    """Write what a tool's message says of a page: a line about it, then its text."""
    opened = page.opened
    what = LEVELS[page.level]
    if page.part is not None:
        what = "characters {:,} to {:,}".format(*page.part)
    return f"page {opened.page_id} · {opened.type} · {what}\n\n{page.text}"


def _written(
    group: Sequence[ShownPage], seen: set[str], shape: Shape
) -> list[list[str]]:
    first, results = group[0], group[1:]
    calls = _standing_calls(first, results)
    if calls is None:
        message = _message(first, shape)
        return [_fetched(first, shape) if message is None else message]
    if not calls:
        alone = _without_calls(first, shape)
        return [alone, *(_fetched(each, shape) for each in results)]
    if not first.whole or not _all_answered(calls, results):
        return [_fetched(each, shape) for each in group]
    ids = [call["id"] for call in calls]
    named = {call_id: _unused(call_id, first, seen, shape) for call_id in ids}
    renamed = [{**call, "id": named[call["id"]]} for call in calls]
    content = {**first.messages[0], "tool_calls": renamed}
    return [[shape.calls(content)], *_results(results, named, shape)]


def _standing_calls(first: ShownPage, results: Sequence[ShownPage]) -> list[Any] | None:
    """The calls that stand in the conversation; None for what calls nothing.

    What calls of ours have brought is shown by itself, unless a message says it.
    """
    if not first.calls:
        return None
    answered = {answer for each in results for answer in each.answers if answer}
    return [
        call
        for call in first.calls
        if called_name(call) not in OWN
        or (isinstance(call, dict) and _id(call) in answered)
    ]


def _all_answered(calls: Sequence[Any], results: Sequence[ShownPage]) -> bool:
    """Whether each call has one result, and each result its call."""
    ids = [_id(call) for call in calls]
    answers = [answer for each in results for answer in each.answers]
    if not all(isinstance(call_id, str) and call_id for call_id in ids):
        return False
    return len({*ids}) == len(ids) == len(answers) and {*ids} == {*answers}


def _results(
    pages: Sequence[ShownPage], named: dict[Any, str], shape: Shape
) -> list[list[str]]:
    """What follows a message's calls; of one page several results may come."""
    parts = [list(_result_messages(page, named)) for page in pages]
    written = iter(shape.results([each for part in parts for each in part]))
    found = [[next(written) for _ in part] for part in parts]
    # What a user says beside results stands after all of them.
    for page, texts in zip(pages, found, strict=True):
        others = [each for each in page.messages if each["role"] not in _TOOLS]
        if page.whole and others:
            found[-1] += filter(None, map(shape.message, others))
            assert texts
    return found


def _result_messages(page: ShownPage, named: dict[Any, str]) -> Iterator[Chat]:
    """The results of a page; of one that is shortened the first says what is left."""
    for number, message in enumerate(
        each for each in page.messages if each["role"] in _TOOLS
    ):
        call_id = named[message["tool_call_id"]]
        if page.whole:
            yield {**message, "tool_call_id": call_id}
        else:
            text = "" if number else _shortened(page)
            yield {"role": "tool", "tool_call_id": call_id, "content": text}


def _message(page: ShownPage, shape: Shape) -> list[str] | None:
    """Write the message that it is; None for what can't be one."""
    if page.role not in _SPEAKERS:
        return None
    shown, kept = page.opened.shown, shape is CHAT and page.whole
    if kept and _MESSAGE in shown:
        return [shown[_MESSAGE]]
    if not page.messages:
        return []
    message = page.messages[0]
    if not plain_content(message):
        return None
    if not page.whole:
        message = {"role": page.role, "content": _shortened(page)}
    # Some servers refuse a message that says nothing.
    written = shape.message(message) if message["content"] else ""
    if written and kept:
        shown[_MESSAGE] = written
    return [written] if written else []


def _without_calls(page: ShownPage, shape: Shape) -> list[str]:
    """What an assistant said beside calls of ours."""
    content = page.messages[0].get("content")
    text = content if isinstance(content, str) and content else None
    return [shape.message({"role": "assistant", "content": text})] if text else []


def _shortened(page: ShownPage) -> str:
    return f"[{page.opened.page_id}, shortened]\n{page.text}"


def _fetched(page: ShownPage, shape: Shape) -> list[str]:
    arguments = {"page_id": page.opened.page_id, "target_level": page.level}
    seed = f"{page.seq} {page.level} {page.part}"
    return call(PAGE_FAULT, arguments, fetched_text(page), seed=seed, shape=shape)


def call(
    name: str,
    arguments: dict[str, Any],
    content: str,
    *,
    seed: str,
    shape: Shape = CHAT,
) -> list[str]:
    """Return a call of ours and its result; the call's id follows from the seed."""
    call_id = _digest(seed)
    function = {"name": name, "arguments": dumped(arguments)}
    called = {"id": call_id, "type": "function", "function": function}
    result = {"role": "tool", "tool_call_id": call_id, "content": content}
    message = {"role": "assistant", "content": None, "tool_calls": [called]}
    return [shape.calls(message), *shape.results([result])]


def _read(opened: Opened) -> _Read:
    if not opened.read:
        messages = _messages(opened)
        role = _role(opened, messages)
        opened.read.append(_Read(messages, role, _calls(role, messages)))
    found: _Read = opened.read[0]
    return found


def _calls(role: str | None, messages: Sequence[Chat]) -> Sequence[Any]:
    if role != "assistant" or not messages:
        return ()
    calls = messages[0].get("tool_calls")
    return calls if isinstance(calls, list) else ()


def _messages(opened: Opened) -> Sequence[Chat]:
    if isinstance(opened.content, str):
        speaks = opened.role in _SPEAKERS
        return [{"role": opened.role, "content": opened.content}] if speaks else ()
    return message_shapes.read(opened.content) or ()


def _role(opened: Opened, messages: Sequence[Chat]) -> str | None:
    """Of the slot, if its messages are of that role, too."""
    if not messages:
        # Of thoughts nothing is left to say.
        thought = message_shapes.read(opened.content) == []
        return "assistant" if thought and opened.role in (None, "assistant") else None
    sent = messages[0]["role"]
    role = ROLES[sent][0] if sent in ROLES else None
    # What was not recorded as the system's must not speak as the system.
    return None if role == "system" or opened.role not in (None, role) else role


def _answer(message: Chat) -> str | None:
    found = message.get("tool_call_id")
    taken = isinstance(found, str) and message["role"] == "tool"
    readable = isinstance(message.get("content"), str | list)
    return found if taken and readable else None


def _from_memory(page: ShownPage) -> bool:
    return page.recalled or page.part is not None or page.opened.slot is None


def _unused(call_id: str, page: ShownPage, seen: set[str], shape: Shape) -> str:
    """The id as it came, unless it is taken already, or is none for this server."""
    if call_id in seen or not shape.call_id.fullmatch(call_id):
        call_id = _digest(f"{page.seq} {call_id}")
    seen.add(call_id)
    return call_id


def _digest(seed: str) -> str:
    raw = hashlib.blake2b(seed.encode(), digest_size=8).digest()
    number, found = int.from_bytes(raw), ""
    for _ in range(_ID_LENGTH):
        number, rest = divmod(number, len(_ALPHABET))
        found += _ALPHABET[rest]
    return found
