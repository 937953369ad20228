"""Contents: the searchable text of an event, as the event declares it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from memoryhub.kernel.context.opened import get_slot_modality
from memoryhub.kernel.messages import reading
from memoryhub.kernel.messages.words import render_words
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import PageCreated, PageUpdated, SlotPage
from memoryhub.kernel.state.pages import BLOCK, Modality
from memoryhub.kernel.tools import own_calls

#: Kind of records that stand for other messages.
OBSERVATION: Final = "observation"
#: Members of a page's content or meta that are no text of anybody.
_MIME = ("url", "mime_type")


def build_text(event: EventBody, payload: Mapping[str, Any]) -> str | None:
    """Return the text by which an event's record is found; None for no record.

    A slot that carries a fetched page, asks for one or holds search results has no
    record.
    """
    if event.searched is None:
        return None
    if isinstance(event, SlotAppended):
        return _build_slot_text(event, payload.get("content"))
    members = event.searched.members or tuple(payload)
    found = [payload[name] for name in members if name in payload]
    if isinstance(event, PageCreated | PageUpdated):
        found = [_select_page_content(content) for content in found]
    lines = [line for value in found for line in _iter_lines(value)]
    between = " " if event.searched.sentence else "\n"
    return between.join(lines) if found else None


def get_kind(event: EventBody) -> str:
    """Return the kind of an event's record: blocks and observations are pages."""
    if isinstance(event, PageCreated | PageUpdated) and event.type == BLOCK:
        return BLOCK
    if isinstance(event, PageCreated) and event.observed is not None:
        return OBSERVATION
    assert event.searched is not None
    return event.searched.kind


def get_page_id(event: EventBody) -> str:
    """Return the page that an event's record is a version of; empty for none."""
    return event.page_id if isinstance(event, PageCreated | PageUpdated) else ""


def get_modality(event: EventBody) -> Modality | None:
    """Return the modality of the page that an event makes or writes; None for none."""
    page = event.page if isinstance(event, SlotAppended) else event
    if isinstance(page, SlotPage | PageCreated | PageUpdated):
        return page.modality
    return None


def _build_slot_text(event: SlotAppended, content: Any) -> str | None:
    if event.carries is not None:
        return None
    message = reading.read(content, role=event.role)
    if own_calls.has_own_result(message) or own_calls.is_own_search(message):
        return None
    # Only a message of data alone may be no text.
    is_data = all(part.kind == "data" for part in message.parts)
    if is_data and get_slot_modality(content) != "text":
        return "\n".join(_iter_lines(content))
    return render_words(message)


def _select_page_content(content: Any) -> Any:
    """Return a page's content by modality; of media, only the text about the media."""
    if not isinstance(content, dict):
        return content
    for member in ("text", "data"):
        if member in content:
            return content[member]
    return {name: value for name, value in content.items() if name not in _MIME}


def _iter_lines(value: Any, name: str = "") -> Iterator[str]:
    """Yield lines of a JSON value: texts as they are, others as `name: value`."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _iter_lines(each, str(key))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _iter_lines(each, name)
    elif value is not None:
        text = value if isinstance(value, str) else str(value)
        yield f"{name}: {text}" if name else text
