"""Chat: a slot's content as a conversation shows it. Pure.

Messages of every format are shown as the kernel reads them. Blocks hold plain text
that templates escape, never markup, and never base64.
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
from memoryhub.kernel.messages.message import (
    Call,
    Message,
    MessagePart,
    Result,
    Thought,
)
from memoryhub.kernel.messages.reading import ROLES, read
from memoryhub.kernel.messages.words import render_part_words
from memoryhub.kernel.text import numbers, strict_json
from memoryhub.kernel.text.strict_json import JsonRefusedError
from memoryhub.queries.threads.slots import SlotLine

#: Characters shown of one payload, and of all on one page.
PAYLOAD_CHARS, PAGE_CHARS = 65_536, 262_144
#: Characters beyond the length of any payload.
_UNLIMITED_CHARS = 1 << 30
#: Secondary text with more lines than this is folded.
_OPEN_LINES = 14
_TALL_LINES, _TALL_CHARS = 60, 6_000
_NESTED = strict_json.JsonLimits(
    max_bytes=PAYLOAD_CHARS * 4, max_depth=64, content=True
)
#: Characters shown of a name, an id or a picture's alternative text.
_TITLE_CHARS = 256
_UNSPOKEN_KINDS = frozenset({"thought", "sealed", "extras"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatBlock:
    """A piece of a message: text, a call, a result, a picture's caption, or JSON."""

    #: `text`, `call`, `result`, `refusal`, `picture`, `medium`, `json`, `thought`,
    #: `sealed` (an encrypted thought), or `extras` (names of members no format knows).
    kind: str
    text: str
    #: The name of a tool, or the kind of text.
    title: str = ""
    #: Links a call to its result.
    call: str = ""
    #: Shown beside the title when the block is folded.
    hint: str = ""
    folded: bool = False
    #: Whether the tool reported a failure; results only.
    failed: bool = False
    picture: Picture | None = None
    #: Characters of the whole text when fewer are shown; else 0.
    cut: int = 0
    #: The text in pieces, each with whether it is a match; empty without a match.
    marked: tuple[tuple[bool, str], ...] = ()

    @property
    def pieces(self) -> tuple[tuple[bool, str], ...]:
        """Return the text in pieces, each with whether it is a match."""
        return self.marked or ((False, self.text),)

    @property
    def headed(self) -> bool:
        """Tell whether the block has a heading line, by which it folds."""
        return bool(self.title or self.folded or self.kind == "result")

    @property
    def alt(self) -> str:
        """Return the alternative text of the block's picture."""
        seen = "".join(
            each.text for each in hidden.split_text(self.text[:_TITLE_CHARS])
        )
        return seen or (self.picture.about if self.picture else "")

    @property
    def tall(self) -> bool:
        """Tell whether the text is so long that it scrolls in a frame of its own."""
        return len(self.text) > _TALL_CHARS or self.text.count("\n") > _TALL_LINES


@dataclass(slots=True, kw_only=True)
class PageRoom:
    """The number of characters that a page may still show."""

    left: int = PAGE_CHARS
    per_payload: int = PAYLOAD_CHARS
    #: Names of the tools that were called so far, by the id of the call.
    tools: dict[str, str] = field(default_factory=dict)

    @classmethod
    def build_unlimited(cls) -> Self:
        """Build room without a limit, for one message that is shown whole."""
        return cls(left=_UNLIMITED_CHARS, per_payload=_UNLIMITED_CHARS)

    def take(self, text: str) -> str:
        shown = text[: max(0, min(self.left, self.per_payload))]
        self.left -= len(shown)
        return shown

    def build_json_block(self, text: str) -> ChatBlock:
        """Build a block of a record's JSON, within the limit of one payload."""
        shown = text[: self.per_payload]
        cut = len(text) if len(shown) < len(text) else 0
        return ChatBlock(kind="json", text=shown, cut=cut)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubble:
    """A slot with its blocks, as a conversation shows it."""

    slot: SlotLine
    #: The speaker: a role, or `other`.
    side: str
    #: The speaker's own name, such as an agent's; empty if only the role is known.
    name: str = ""
    blocks: tuple[ChatBlock, ...] = ()
    cut: bool = field(default=False)


def build_bubble(slot: SlotLine, room: PageRoom) -> Bubble:
    """Build the bubble of a slot, within the room that is left on the page."""
    if slot.erased:
        return Bubble(slot=slot, side=slot.role or "other")
    message = read_message(slot)
    blocks = tuple(
        _cut_block(_name_result(each, room.tools), room)
        for each in _iter_blocks(message)
    )
    side, name = message.role or "other", message.name or ""
    is_known = side == "tool" or name in (side, slot.from_name)
    return Bubble(
        slot=slot,
        side=side,
        name="" if is_known else name[:_TITLE_CHARS],
        blocks=blocks,
        cut=any(block.cut for block in blocks),
    )


def read_message(slot: SlotLine) -> Message:
    """Read a slot's content as a message."""
    return read(slot.content, slot.type, ROLES.get(slot.role or ""))


def render_json(value: Any) -> str:
    """Render JSON for people: two spaces a level, key order and digits as sent."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=numbers.mark_number)
    return numbers.restore_numbers(text)


def render_readable_json(value: Any) -> str:
    """Render JSON that holds messages, without base64 and signatures."""
    return render_json(
        strict_json.parse_stored(media.render_json_words(value).encode())
    )


def find_first_block(content: Any, role: str | None) -> ChatBlock | None:
    """Find the first spoken block of a content; else a thought or extras, else None."""
    blocks = [*_iter_blocks(read(content, role=ROLES.get(role or "")))]
    blocks.sort(key=lambda each: each.kind in _UNSPOKEN_KINDS)
    return blocks[0] if blocks else None


def _iter_blocks(message: Message) -> Iterator[ChatBlock]:
    spoken = [_build_part(part, n, message) for n, part in enumerate(message.parts)]
    given = [*_iter_results(message)]
    yield from map(_build_thought, message.thoughts)
    if not message.calls:
        # Results stand before the text that comments on them.
        yield from given
    yield from spoken
    if message.refusal:
        yield ChatBlock(kind="refusal", text=message.refusal, title="refused")
    yield from map(_build_call, message.calls)
    if message.calls:
        yield from given
    titles = {each.title for each in spoken}
    rest = [each for each in message.extras if each not in titles]
    if rest:
        yield ChatBlock(kind="extras", text=", ".join(rest))


def _iter_results(message: Message) -> Iterator[ChatBlock]:
    """Iterate over the results, each followed by its pictures."""
    numbered = count(len(message.parts))
    for result in message.results:
        yield _build_result(result)
        for part in result.parts:
            if picture := pictures.draw(part, next(numbered)):
                yield _build_picture(part, picture)


def _build_thought(thought: Thought) -> ChatBlock:
    if not thought.words:
        return ChatBlock(kind="sealed", text="")
    text = media.remove_base64(thought.words)
    return ChatBlock(kind="thought", text=text, title="thought", folded=True)


def _build_part(part: MessagePart, number: int, message: Message) -> ChatBlock:
    if part.kind == "text":
        return _build_text(part.words, message.role)
    if part.kind == "data":
        return _build_data(part.words, message.extras)
    if picture := pictures.draw(part, number):
        return _build_picture(part, picture)
    text = "\n".join(filter(None, [media.render_line(part), part.words]))
    lines = text.count("\n")
    if lines <= 2 * _OPEN_LINES:
        return ChatBlock(kind="medium", text=text)
    hint = f"{lines + 1:,} lines"
    return ChatBlock(kind="medium", text=text, title=part.kind, hint=hint, folded=True)


def _build_text(text: str, role: str | None) -> ChatBlock:
    if role == "system" and text.count("\n") > _OPEN_LINES:
        hint = f"{text.count(chr(10)) + 1:,} lines"
        return ChatBlock(kind="text", text=text, title="prompt", hint=hint, folded=True)
    return ChatBlock(kind="text", text=text)


def _build_picture(part: MessagePart, picture: Picture) -> ChatBlock:
    """Build the block of a picture with its caption: name, URL and words."""
    medium = part.medium
    titles = [medium.name, medium.url] if medium else []
    text = "\n".join(filter(None, [*titles, part.words]))
    return ChatBlock(kind="picture", text=text, picture=picture)


def _build_data(words: str, extras: tuple[str, ...]) -> ChatBlock:
    """Build a JSON block; a member that no format knows has its name as title."""
    name, _, rest = words.partition(": ")
    title, text = (name, rest) if rest and name in extras else ("", words)
    parsed = _parse_nested(text)
    if isinstance(parsed, _NotJson):
        return ChatBlock(kind="json", text=text, title=title[:_TITLE_CHARS])
    kind = parsed.get("type") if isinstance(parsed, dict) else None
    pretty_text = render_json(parsed)
    return ChatBlock(
        kind="json",
        text=pretty_text,
        title=title or (kind if isinstance(kind, str) else "") or "JSON",
        hint=_count_members(parsed),
        folded=bool(title) or pretty_text.count("\n") > 2 * _OPEN_LINES,
    )


def _build_call(call: Call) -> ChatBlock:
    arguments = media.remove_base64(call.arguments)
    parsed = _parse_nested(arguments)
    text = arguments if isinstance(parsed, _NotJson) else render_json(parsed)
    return ChatBlock(
        kind="call",
        text=text,
        title=call.name or "call",
        call=call.id or "",
        folded=text.count("\n") > 2 * _OPEN_LINES,
        hint=_count_members(parsed),
    )


def _build_result(result: Result) -> ChatBlock:
    text = "\n".join(filter(None, map(render_part_words, result.parts)))
    parsed = _parse_nested(text)
    folded = isinstance(parsed, dict | list)
    return ChatBlock(
        kind="result",
        text=render_json(parsed) if folded else text,
        title=result.name or "",
        call=result.id or "",
        hint=_count_members(parsed),
        folded=folded,
        failed=result.failed,
    )


def _name_result(block: ChatBlock, tools: dict[str, str]) -> ChatBlock:
    """Give a result the name of the tool whose call it answers; note calls by id."""
    if block.kind == "call" and block.call:
        tools[block.call] = block.title
    elif block.kind == "result" and not block.title:
        return replace(block, title=tools.get(block.call, ""))
    return block


class _NotJson:
    """Marker of text that is not a JSON object or array, and is shown unchanged."""


def _parse_nested(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return _NotJson()
    try:
        return strict_json.parse(text.encode(), _NESTED)
    except (JsonRefusedError, UnicodeEncodeError):
        return _NotJson()


def _count_members(value: Any) -> str:
    if isinstance(value, dict):
        return f"{len(value):,} field{'' if len(value) == 1 else 's'}"
    if isinstance(value, list):
        return f"{len(value):,} item{'' if len(value) == 1 else 's'}"
    return ""


def _cut_block(block: ChatBlock, room: PageRoom) -> ChatBlock:
    """Cut a block to the room that is left; cut names and ids to `_TITLE_CHARS`."""
    shown = room.take(block.text)
    return replace(
        block,
        text=shown,
        title=block.title[:_TITLE_CHARS],
        call=block.call[:_TITLE_CHARS],
        cut=len(block.text) if len(shown) < len(block.text) else 0,
    )
