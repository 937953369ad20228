"""Chat: a slot's content as a conversation shows it. Pure.

Whatever shape it came in, it is shown as the one reading of messages has it. What comes
out is plain text in pieces that templates escape, never markup, and never base64.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Self

from inspector.drawing import hidden, pictures
from inspector.drawing.pictures import Picture
from memoryhub.kernel.messages import media
from memoryhub.kernel.messages.message import Call, Message, Part, Result, Thought
from memoryhub.kernel.messages.reading import ROLES, read
from memoryhub.kernel.messages.words import part_words
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
#: Characters of a name or an id, and of what a picture is called.
_TITLE_CHARS = 256
_UNSAID = frozenset({"thought", "sealed", "extras"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A stretch of text: what someone said, a call, a picture's caption, or JSON."""

    #: `text`, `call`, `result`, `refusal`, `picture`, `medium`, `json`, `thought`, or
    #: `sealed`, one that nobody reads, or `extras`: names of what no format knows.
    kind: str
    text: str
    #: The name of a tool, or of what the text is.
    title: str = ""
    #: Links a call to its result.
    call: str = ""
    #: Said beside the title when the block is folded.
    hint: str = ""
    folded: bool = False
    #: Of a result: the tool says so.
    failed: bool = False
    picture: Picture | None = None
    #: Characters there are, when fewer are shown.
    cut: int = 0

    @property
    def headed(self) -> bool:
        """Has a line above the text, by which it folds."""
        return bool(self.title or self.folded or self.kind == "result")

    @property
    def alt(self) -> str:
        """What is said of its picture to those who don't see it."""
        seen = "".join(each.text for each in hidden.pieces(self.text[:_TITLE_CHARS]))
        return seen or (self.picture.about if self.picture else "")

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

    def raw(self, text: str) -> Block:
        """A record's JSON, within the room for one payload."""
        shown = text[: self.per_payload]
        cut = len(text) if len(shown) < len(text) else 0
        return Block(kind="json", text=shown, cut=cut)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubble:
    """A slot with its blocks, ready to be shown."""

    slot: SlotLine
    #: Who speaks: a role, or `other`.
    side: str
    blocks: tuple[Block, ...] = ()
    cut: bool = field(default=False)


def bubble(slot: SlotLine, room: Room) -> Bubble:
    """The slot as a bubble, within the room that is left on the page."""
    if slot.erased:
        return Bubble(slot=slot, side=slot.role or "other")
    message = message_of(slot)
    blocks = tuple(_fitted(each, room) for each in _blocks(message))
    return Bubble(
        slot=slot,
        side=message.role or "other",
        blocks=blocks,
        cut=any(block.cut for block in blocks),
    )


def message_of(slot: SlotLine) -> Message:
    """Read what a slot says."""
    return read(slot.content, slot.type, ROLES.get(slot.role or ""))


def pretty(value: Any) -> str:
    """JSON for people: two spaces a level, key order and digits as sent."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=numbers.marked)
    return numbers.restored(text)


def readable(value: Any) -> str:
    """JSON with messages in it, for people: base64 and signatures are left out."""
    return pretty(strict_json.kept(media.json_words(value).encode()))


def opening(content: Any, role: str | None) -> Block | None:
    """The first block of what is said; a thought where nothing is, else None."""
    blocks = [*_blocks(read(content, role=ROLES.get(role or "")))]
    blocks.sort(key=lambda each: each.kind in _UNSAID)
    return blocks[0] if blocks else None


def _blocks(message: Message) -> Iterator[Block]:
    spoken = [_part(part, n, message) for n, part in enumerate(message.parts)]
    given = [*_results(message)]
    yield from map(_thought, message.thoughts)
    if not message.calls:
        # What tools gave back comes before what somebody says to it.
        yield from given
    yield from spoken
    if message.refusal:
        yield Block(kind="refusal", text=message.refusal, title="refused")
    yield from map(_call, message.calls)
    if message.calls:
        yield from given
    titles = {each.title for each in spoken}
    rest = [each for each in message.extras if each not in titles]
    if rest:
        yield Block(kind="extras", text=", ".join(rest))


def _results(message: Message) -> Iterator[Block]:
    """Results, each with the pictures that are in it."""
    numbered = count(len(message.parts))
    for result in message.results:
        yield _result(result)
        for part in result.parts:
            if picture := pictures.draw(part, next(numbered)):
                yield _picture(part, picture)


def _thought(thought: Thought) -> Block:
    if not thought.words:
        return Block(kind="sealed", text="")
    text = media.without_base64(thought.words)
    return Block(kind="thought", text=text, title="thought", folded=True)


def _part(part: Part, number: int, message: Message) -> Block:
    if part.kind == "text":
        return _text(part.words, message.role)
    if part.kind == "data":
        return _data(part.words, message.extras)
    if picture := pictures.draw(part, number):
        return _picture(part, picture)
    text = "\n".join(filter(None, [media.line(part), part.words]))
    lines = text.count("\n")
    if lines <= 2 * _OPEN_LINES:
        return Block(kind="medium", text=text)
    hint = f"{lines + 1:,} lines"
    return Block(kind="medium", text=text, title=part.kind, hint=hint, folded=True)


def _text(text: str, role: str | None) -> Block:
    if role == "system" and text.count("\n") > _OPEN_LINES:
        hint = f"{text.count(chr(10)) + 1:,} lines"
        return Block(kind="text", text=text, title="prompt", hint=hint, folded=True)
    return Block(kind="text", text=text)


def _picture(part: Part, picture: Picture) -> Block:
    """What is said of a picture, beside the picture."""
    medium = part.medium
    titles = [medium.name, medium.url] if medium else []
    text = "\n".join(filter(None, [*titles, part.words]))
    return Block(kind="picture", text=text, picture=picture)


def _data(words: str, extras: tuple[str, ...]) -> Block:
    """JSON, or a member that no format knows after its name."""
    name, _, rest = words.partition(": ")
    title, text = (name, rest) if rest and name in extras else ("", words)
    parsed = _parsed(text)
    if isinstance(parsed, _Unread):
        return Block(kind="json", text=text, title=title[:_TITLE_CHARS])
    kind = parsed.get("type") if isinstance(parsed, dict) else None
    pretty_text = pretty(parsed)
    return Block(
        kind="json",
        text=pretty_text,
        title=title or (kind if isinstance(kind, str) else "") or "JSON",
        hint=_measure(parsed),
        folded=bool(title) or pretty_text.count("\n") > 2 * _OPEN_LINES,
    )


def _call(call: Call) -> Block:
    arguments = media.without_base64(call.arguments)
    parsed = _parsed(arguments)
    text = arguments if isinstance(parsed, _Unread) else pretty(parsed)
    return Block(
        kind="call",
        text=text,
        title=call.name or "call",
        call=call.id or "",
        folded=text.count("\n") > 2 * _OPEN_LINES,
        hint=_measure(parsed),
    )


def _result(result: Result) -> Block:
    text = "\n".join(filter(None, map(part_words, result.parts)))
    parsed = _parsed(text)
    folded = isinstance(parsed, dict | list)
    return Block(
        kind="result",
        text=pretty(parsed) if folded else text,
        title=result.name or "",
        call=result.id or "",
        hint=_measure(parsed),
        folded=folded,
        failed=result.failed,
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
    """A block within the room that is left; names and ids are kept short."""
    shown = room.take(block.text)
    return replace(
        block,
        text=shown,
        title=block.title[:_TITLE_CHARS],
        call=block.call[:_TITLE_CHARS],
        cut=len(block.text) if len(shown) < len(block.text) else 0,
    )
