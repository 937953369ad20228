"""Contents: what of an event is found, as text, by what the event declares. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from memoryhub.kernel.levels import own_calls
from memoryhub.kernel.levels.opened import slot_modality
from memoryhub.kernel.messages import reading
from memoryhub.kernel.messages.words import words
from memoryhub.kernel.state.bodies import Event
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import PageCreated, PageUpdated
from memoryhub.kernel.state.pages import BLOCK

#: What stands for other messages.
OBSERVATION: Final = "observation"
#: Of a page's content or meta what is no text of anybody.
_MIME = ("url", "mime_type")


def text_of(event: Event, payload: Mapping[str, Any]) -> str | None:
    """Return the text by which an event's record is found; None for no record.

    What carries a fetched page, asks for one or tells what was found is none.
    """
    if event.searched is None:
        return None
    if isinstance(event, SlotAppended):
        return _of_slot(event, payload.get("content"))
    members = event.searched.members or tuple(payload)
    found = [payload[name] for name in members if name in payload]
    if isinstance(event, PageCreated | PageUpdated):
        found = [_of_page(content) for content in found]
    lines = [line for value in found for line in _lines(value)]
    between = " " if event.searched.sentence else "\n"
    return between.join(lines) if found else None


def kind_of(event: Event) -> str:
    """Return the kind of an event's record: blocks and observations are pages."""
    if isinstance(event, PageCreated | PageUpdated) and event.type == BLOCK:
        return BLOCK
    if isinstance(event, PageCreated) and event.observed is not None:
        return OBSERVATION
    assert event.searched is not None
    return event.searched.kind


def page_of(event: Event) -> str:
    """Return the page that an event's record is a version of; empty for none."""
    return event.page_id if isinstance(event, PageCreated | PageUpdated) else ""


def _of_slot(event: SlotAppended, content: Any) -> str | None:
    if event.carries is not None:
        return None
    message = reading.read(content, role=event.role)
    if own_calls.brings(message) or own_calls.searches(message):
        return None
    if slot_modality(content) != "text":
        return "\n".join(_lines(content))
    return words(message)


def _of_page(content: Any) -> Any:
    """A page's content by modality; of media only what is said about them."""
    if not isinstance(content, dict):
        return content
    for member in ("text", "data"):
        if member in content:
            return content[member]
    return {name: value for name, value in content.items() if name not in _MIME}


def _lines(value: Any, name: str = "") -> Iterator[str]:
    """Lines of a JSON value: texts as they are, others as `name: value`."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _lines(each, str(key))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _lines(each, name)
    elif value is not None:
        text = value if isinstance(value, str) else str(value)
        yield f"{name}: {text}" if name else text
