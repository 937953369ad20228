"""Opened pages: one level of a page with its text in hand. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.messages import media, reading, writing
from memoryhub.kernel.messages.message import Message
from memoryhub.kernel.messages.words import render_words
from memoryhub.kernel.messages.writing import PlainMessage
from memoryhub.kernel.state.pages import FULL, Modality, PageType


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedPage:
    """One level of a page at its location, with its text decrypted.

    `content` is, at FULL, a slot's JSON content or a page's content object by modality;
    below, the level's text or pruned JSON; at a location's key "hint", the hint.
    """

    page_id: str
    type: PageType
    modality: Modality
    content: Any
    role: str | None = None
    #: Index and sender of a slot; None and empty for other pages.
    slot: int | None = None
    sender: str = ""
    #: Time of the page as its agent gives it, else recorded time.
    at: datetime | None = None
    #: Width and height of an image.
    dimensions: tuple[int, int] | None = None
    #: MIME type given by the agent, at FULL.
    mime_type: str | None = None
    #: Name of a block at FULL.
    name: str = ""
    #: Purpose of a block at FULL, and whether a model may not change the block.
    description: str = ""
    read_only: bool = False
    #: Cache of rendered lines by level, freed with the opened text.
    shown: dict[int, str] = field(default_factory=dict, compare=False, repr=False)
    #: Cache of a slot's parsed message; empty until first use.
    read: list[Message] = field(default_factory=list, compare=False, repr=False)
    #: Cache of a slot's plain form in requests, if the slot has a text and nothing
    #: else.
    written: list[PlainMessage | None] = field(
        default_factory=list, compare=False, repr=False
    )

    @property
    def message(self) -> Message:
        """Return the slot's message at FULL; the content is parsed once."""
        if not self.read:
            self.read.append(assign_role(reading.read(self.content), self.role))
        return self.read[0]

    @property
    def plain(self) -> PlainMessage | None:
        """Return the page's form in a request of any API; None unless plain text.

        The form is built once.
        """
        if not self.written:
            self.written.append(writing.write_plain(self.message))
        return self.written[0]


def assign_role(found: Message, role: str | None) -> Message:
    """Return a slot's message as one of the slot's recorded role.

    Only a slot recorded as the system's gets the role system. A user may speak beside
    results, in a slot whose role is tool.
    """
    if role == "tool" and found.role == "user" and found.results:
        return found
    if role is None and found.role != "system":
        return found
    return found if found.role == role else replace(found, role=role)  # type: ignore[arg-type]  # closed words


def count_message_tokens(message: Message, count: Count) -> int:
    """Count the tokens of a message's words and of its media, without base64."""
    return count(render_words(message)) + sum(
        weight for _, weight in media.iter_weights(message)
    )


def count_media_tokens(opened: OpenedPage) -> int:
    """Count the tokens of the media of a slot's page at FULL; 0 for other pages."""
    if opened.slot is None:
        return 0
    return sum(weight for _, weight in media.iter_weights(opened.message))


def get_slot_modality(content: Any) -> Modality:
    """Return a slot's modality: text for a message or a text, else structured."""
    return choose_modality(content, reading.read(content))


def choose_modality(content: Any, message: Message) -> Modality:
    """Return the modality of a slot whose content was read as this message."""
    if isinstance(content, str) or message.role or not message.is_plain:
        return "text"
    data = all(part.kind == "data" for part in message.parts)
    return "structured" if data and message.refusal is None else "text"


def get_slot_body(content: Any) -> tuple[Modality, Any]:
    """Return a slot's modality, and the text or JSON value its levels are made from."""
    message = reading.read(content)
    modality = choose_modality(content, message)
    return modality, render_words(message) if modality == "text" else content


def get_body(opened: OpenedPage, *, level: int) -> Any:
    """Return the text, the JSON value, or for other modalities the content object."""
    if level > FULL:
        return opened.content
    if opened.slot is not None:
        text = opened.modality == "text"
        return render_words(opened.message) if text else opened.content
    if opened.modality in ("text", "structured"):
        return opened.content["text" if opened.modality == "text" else "data"]
    return opened.content


def get_text(opened: OpenedPage, *, level: int) -> str | None:
    """Return the text of this level that may be cut; None if the level is no text."""
    if level == FULL and opened.modality != "text":
        return None
    found = get_body(opened, level=level)
    return found if isinstance(found, str) else None
