"""Chat: a slot's content as a conversation shows it. Pure.

Reads chat-completions messages; any other JSON is shown as JSON. What comes out is
plain text in pieces that templates escape, never markup.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from memoryhub.kernel.text import numbers, strict_json
from memoryhub.kernel.text.strict_json import JsonRefusedError
from memoryhub.queries.threads.slots import SlotLine

#: Characters shown of one payload, and of all on one page.
PAYLOAD_CHARS, PAGE_CHARS = 65_536, 262_144
#: More than any payload has.
_ALL = 1 << 30
#: Text with more lines than this is folded where it is not what people read first.
_OPEN_LINES = 14
_TALL_LINES, _TALL_CHARS = 60, 6_000
_NESTED = strict_json.Limits(max_bytes=PAYLOAD_CHARS * 4, max_depth=64, content=True)
_SHOWN_FIELDS = (
    "role",
    "content",
    "tool_calls",
    "function_call",
    "name",
    "tool_call_id",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A stretch of text: what someone said, a call, or JSON."""

    kind: str
    text: str
    #: The name of a tool, or of what the text is.
    title: str = ""
    #: Links a call to its result.
    call: str = ""
    #: Said beside the title when the block is folded.
    hint: str = ""
    folded: bool = False
    #: Characters there are, when fewer are shown.
    cut: int = 0

    @property
    def tall(self) -> bool:
        """So long that it scrolls in a frame of its own."""
        return len(self.text) > _TALL_CHARS or self.text.count("\n") > _TALL_LINES


@dataclass(slots=True, kw_only=True)
class Room:
    """What may still be shown on a page."""

    left: int = PAGE_CHARS
    per_payload: int = PAYLOAD_CHARS

    @classmethod
    def boundless(cls) -> Self:
        """For the one message that is asked for whole."""
        return cls(left=_ALL, per_payload=_ALL)

    def take(self, text: str) -> str:
        shown = text[: max(0, min(self.left, self.per_payload))]
        self.left -= len(shown)
        return shown

    def raw(self, value: Any) -> Block:
        """A record as JSON, within the room for one payload."""
        text = pretty(value)
        shown = text[: self.per_payload]
        cut = len(text) if len(shown) < len(text) else 0
        return Block(kind="json", text=shown, cut=cut)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubble:
    """A slot with its blocks, ready to be shown."""

    slot: SlotLine
    blocks: tuple[Block, ...] = ()
    cut: bool = field(default=False)

    @property
    def side(self) -> str:
        """Who speaks: a role, or `other`."""
        return self.slot.role or "other"


def bubble(slot: SlotLine, room: Room) -> Bubble:
    """The slot as a bubble, within the room that is left on the page."""
    if slot.erased:
        return Bubble(slot=slot)
    blocks = tuple(_fitted(each, room) for each in _blocks(slot.content, slot.role))
    return Bubble(slot=slot, blocks=blocks, cut=any(block.cut for block in blocks))


def pretty(value: Any) -> str:
    """JSON for people: two spaces a level, key order and digits as sent."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=numbers.marked)
    return numbers.restored(text)


def opening(content: Any, role: str | None) -> Block | None:
    """The first block of a message; None for one without content."""
    return next(_blocks(content, role), None)


def _blocks(content: Any, role: str | None) -> Iterator[Block]:
    if isinstance(content, str):
        yield _text_block(content, role)
    elif isinstance(content, dict) and isinstance(content.get("role"), str):
        yield from _message(content, role)
    else:
        yield _json(content, kind="json", title="JSON")


def _message(message: Mapping[str, Any], role: str | None) -> Iterator[Block]:
    content = message.get("content")
    if isinstance(content, str) and content:
        yield (
            _result(message, content) if role == "tool" else _text_block(content, role)
        )
    elif isinstance(content, list):
        for part in content:
            yield _part(part, role)
    elif content is not None and content != "":
        yield _json(content, kind="json", title="content")
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        yield _call(call)
    if isinstance(message.get("function_call"), dict):
        yield _call({"function": message["function_call"]})
    rest = {key: message[key] for key in message if key not in _SHOWN_FIELDS}
    if rest:
        yield _json(rest, kind="json", title="other fields", folded=True)


def _text_block(text: str, role: str | None) -> Block:
    if role == "system" and text.count("\n") > _OPEN_LINES:
        hint = f"{text.count(chr(10)) + 1:,} lines"
        return Block(kind="text", text=text, title="prompt", hint=hint, folded=True)
    return Block(kind="text", text=text)


def _part(part: Any, role: str | None) -> Block:
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return _text_block(part["text"], role)
    kind = part.get("type") if isinstance(part, dict) else None
    return _json(part, kind="json", title=kind if isinstance(kind, str) else "part")


def _call(call: Any) -> Block:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return _json(call, kind="call", title="call")
    arguments = function.get("arguments")
    parsed = _parsed(arguments) if isinstance(arguments, str) else arguments
    text = arguments if isinstance(parsed, _Unread) else pretty(parsed)
    return Block(
        kind="call",
        text=text if isinstance(text, str) else "",
        title=str(function.get("name") or "call"),
        call=str(call.get("id") or ""),
        folded=isinstance(text, str) and text.count("\n") > 2 * _OPEN_LINES,
        hint=_measure(parsed),
    )


def _result(message: Mapping[str, Any], text: str) -> Block:
    parsed = _parsed(text)
    title, call = str(message.get("name") or ""), str(message.get("tool_call_id") or "")
    if isinstance(parsed, _Unread) or not isinstance(parsed, dict | list):
        return Block(kind="result", text=text, title=title, call=call)
    return Block(
        kind="result",
        text=pretty(parsed),
        title=title,
        call=call,
        hint=_measure(parsed),
        folded=True,
    )


def _json(value: Any, *, kind: str, title: str, folded: bool = False) -> Block:
    text = pretty(value)
    long = text.count("\n") > 2 * _OPEN_LINES
    return Block(
        kind=kind, text=text, title=title, hint=_measure(value), folded=folded or long
    )


class _Unread:
    """Text that is no JSON we would show otherwise than it is."""


def _parsed(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return _Unread()
    try:
        return strict_json.parse(text.encode(), _NESTED)
    except (JsonRefusedError, UnicodeEncodeError):
        return _Unread()


def _measure(value: Any) -> str:
    if isinstance(value, dict):
        return f"{len(value):,} field{'' if len(value) == 1 else 's'}"
    if isinstance(value, list):
        return f"{len(value):,} item{'' if len(value) == 1 else 's'}"
    return ""


def _fitted(block: Block, room: Room) -> Block:
    shown = room.take(block.text)
    if len(shown) == len(block.text):
        return block
    return Block(
        kind=block.kind,
        text=shown,
        title=block.title,
        call=block.call,
        hint=block.hint,
        folded=block.folded,
        cut=len(block.text),
    )
