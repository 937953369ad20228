"""Opened pages: one level of a page with its text in hand. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from memoryhub.kernel.levels import message_shapes, tokens
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
    #: Of a slot's page: its index.
    slot: int | None = None
    #: Of an image: width and height.
    dimensions: tuple[int, int] | None = None
    #: What its agent called it, at FULL.
    mime_type: str | None = None
    #: Of a block, at FULL: what belongs in it, and whether a model may change it.
    description: str = ""
    read_only: bool = False
    #: Lines made of it before, by level: they live and end with the opened text.
    shown: dict[int, str] = field(default_factory=dict, compare=False, repr=False)
    #: What was read of it before as a message: one value, or none yet.
    read: list[Any] = field(default_factory=list, compare=False, repr=False)


def slot_modality(content: Any) -> Modality:
    """Return a slot's modality: texts and chat messages are text, else structured."""
    if isinstance(content, str):
        return "text"
    message = isinstance(content, dict) and isinstance(content.get("role"), str)
    readable = message or message_shapes.read(content) is not None
    return "text" if readable else "structured"


def text_of_slot(content: Any) -> tuple[Modality, Any]:
    """Return a slot's modality, and the text or JSON value its levels are made from."""
    modality = slot_modality(content)
    return modality, tokens.text_of(content) if modality == "text" else content


def body(opened: Opened, *, level: int) -> Any:
    """Return the text, the JSON value, or for other modalities the content object."""
    if level > FULL:
        return opened.content
    if opened.slot is not None:
        return text_of_slot(opened.content)[1]
    if opened.modality in ("text", "structured"):
        return opened.content["text" if opened.modality == "text" else "data"]
    return opened.content


def text(opened: Opened, *, level: int) -> str | None:
    """Return the text of this level that may be cut; None if it is no text."""
    if level == FULL and opened.modality != "text":
        return None
    found = body(opened, level=level)
    return found if isinstance(found, str) else None
