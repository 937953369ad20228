"""Opened pages: one level of a page with its text in hand. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.messages import media, reading, writing
from memoryhub.kernel.messages.message import Message
from memoryhub.kernel.messages.words import words
from memoryhub.kernel.messages.writing import Plain
from memoryhub.kernel.state.pages import FULL, Modality, PageType


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What lies at one location.

    `content` is, at FULL, a slot's JSON content or a page's content object by modality;
    below, the level's text or pruned JSON; at a location's key "hint", the hint.
    """

    page_id: str
    type: PageType
    modality: Modality
    content: Any
    role: str | None = None
    #: Of a slot's page: its index, and who sent it.
    slot: int | None = None
    sender: str = ""
    #: When it was, as its agent says, else when it was recorded.
    at: datetime | None = None
    #: Of an image: width and height.
    dimensions: tuple[int, int] | None = None
    #: What its agent called it, at FULL.
    mime_type: str | None = None
    #: Of a block, at FULL: what belongs in it, and whether a model may change it.
    description: str = ""
    read_only: bool = False
    #: Lines made of it before, by level: they live and end with the opened text.
    shown: dict[int, str] = field(default_factory=dict, compare=False, repr=False)
    #: Of a slot the message that it is, once somebody has asked for it.
    read: list[Message] = field(default_factory=list, compare=False, repr=False)
    #: And how it stands in requests, if it says a text and nothing else.
    written: list[Plain | None] = field(default_factory=list, compare=False, repr=False)

    @property
    def message(self) -> Message:
        """Return what a slot says at FULL; it is read once."""
        if not self.read:
            self.read.append(_message(self.content, self.role))
        return self.read[0]

    @property
    def plain(self) -> Plain | None:
        """Return how it stands in a request of any API; None of what says more.

        It is written once.
        """
        if not self.written:
            self.written.append(writing.plain(self.message))
        return self.written[0]


def _message(content: Any, role: str | None) -> Message:
    """What a slot of that role says.

    What nobody recorded as the system's does not speak as the system; and a user may
    speak beside results, whose slot is a tool's.
    """
    found = reading.read(content)
    if role == "tool" and found.role == "user" and found.results:
        return found
    if role is None and found.role != "system":
        return found
    return found if found.role == role else replace(found, role=role)  # type: ignore[arg-type]  # closed words


def message_tokens(message: Message, count: Count) -> int:
    """Count the words of a message, and its media by what they weigh; no base64."""
    return count(words(message)) + sum(weight for _, weight in media.weights(message))


def media_tokens(opened: Opened) -> int:
    """Count what the media of a slot's page weigh at FULL; 0 of other pages."""
    if opened.slot is None:
        return 0
    return sum(weight for _, weight in media.weights(opened.message))


def slot_modality(content: Any) -> Modality:
    """Return a slot's modality: what speaks or says a text is text, else structured."""
    return _modality(content, reading.read(content))


def _modality(content: Any, message: Message) -> Modality:
    if isinstance(content, str) or message.role or not message.is_plain:
        return "text"
    data = all(part.kind == "data" for part in message.parts)
    return "structured" if data and message.refusal is None else "text"


def text_of_slot(content: Any) -> tuple[Modality, Any]:
    """Return a slot's modality, and the text or JSON value its levels are made from."""
    message = reading.read(content)
    modality = _modality(content, message)
    return modality, words(message) if modality == "text" else content


def body(opened: Opened, *, level: int) -> Any:
    """Return the text, the JSON value, or for other modalities the content object."""
    if level > FULL:
        return opened.content
    if opened.slot is not None:
        text = opened.modality == "text"
        return words(opened.message) if text else opened.content
    if opened.modality in ("text", "structured"):
        return opened.content["text" if opened.modality == "text" else "data"]
    return opened.content


def text(opened: Opened, *, level: int) -> str | None:
    """Return the text of this level that may be cut; None if it is no text."""
    if level == FULL and opened.modality != "text":
        return None
    found = body(opened, level=level)
    return found if isinstance(found, str) else None
