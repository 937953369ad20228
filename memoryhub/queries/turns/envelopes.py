"""Envelopes: a page at one level as a model or an agent is handed it. Never writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from memoryhub.errors import PageErasedError
from memoryhub.journal.log import log
from memoryhub.journal.writing import texts
from memoryhub.kernel.commands import MadeLevels
from memoryhub.kernel.levels import levels, making
from memoryhub.kernel.levels.opened import Opened, body
from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.state.pages import FULL, Entry
from memoryhub.kernel.text import strict_json
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import tokenizers

#: Where a text below FULL stands in a content of its modality.
_TEXT_FIELDS = {
    "text": "text",
    "structured": "data",
    "image": "caption",
    "audio": "transcript",
    "video": "transcript",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A page's content at a level, in its modality's shape."""

    page_id: str
    modality: str
    #: The one that was served, which may be more faithful than the one asked for.
    level: int
    tier: str
    content: dict[str, Any]
    source_tier: str
    mime_type: str | None
    size_bytes: int
    dimensions: tuple[int, int] | None
    duration_seconds: float | None

    def of_part(self, text: str) -> Envelope:
        """Return the same with a part of its text."""
        content = {_TEXT_FIELDS[self.modality]: text}
        return replace(self, content=content, size_bytes=len(text.encode()))

    def plain(self) -> dict[str, Any]:
        """Return the envelope as JSON values, in a fixed key order."""
        return {
            "page_id": self.page_id,
            "modality": self.modality,
            "level": self.level,
            "tier": self.tier,
            "content": self.content,
            "meta": {
                "source_tier": self.source_tier,
                "mime_type": self.mime_type,
                "size_bytes": self.size_bytes,
                "dimensions": self.dimensions,
                "duration_seconds": self.duration_seconds,
            },
        }


def get_envelope(
    thread: Thread, entry: Entry, *, level: int, tier: str, source: str | None = None
) -> Envelope:
    """Return a page at `level`, or at the nearest more faithful one that there can be.

    A level that is not there yet is made for this answer alone. `thread` comes with its
    subject. At most two queries. Raises PageErasedError when its text is gone.
    """
    best = entry.at_most(level)
    full = opened = open_level(thread, entry, best)
    if best > FULL and (best < level or entry.slot is None):
        full = open_level(thread, entry, FULL)
    content = shape_of(opened, level=best)
    if best < level:
        count = tokenizers.of(thread).count
        made = made_texts(full, tokens=entry.full.tokens, count=count)
        best = max((each for each in made if best < each <= level), default=best)
        content = made.get(best, content)
    return Envelope(
        page_id=entry.page_id,
        modality=entry.modality,
        level=best,
        tier=tier,
        content=content,
        source_tier=source or tier,
        mime_type=full.mime_type,
        size_bytes=len(strict_json.as_sent(content)),
        dimensions=full.dimensions,
        duration_seconds=content.get("duration_seconds"),
    )


def open_level(thread: Thread, entry: Entry, level: int) -> Opened:
    """Open the text of an existing level.

    At most one query. Raises PageErasedError.
    """
    place = entry.at(level).location
    opened = texts.opened(thread, [place]).get(place)
    if opened is None:
        raise PageErasedError
    return opened


def get_payload(thread: Thread, entry: Entry) -> dict[str, Any]:
    """Return the whole payload that FULL of this version has. One query."""
    place = entry.full.location
    row = Event.objects.get(thread_id=place.thread, seq=place.seq)
    payload = log.open_payload(thread.subject, thread.project_id, row)
    if payload is None:
        raise PageErasedError
    return payload


def get_meta(thread: Thread, entry: Entry) -> dict[str, Any]:
    """Return what its agent wrote beside the content; nothing for a message."""
    if entry.slot is not None:
        return {}
    meta: dict[str, Any] = get_payload(thread, entry).get("meta") or {}
    return meta


def get_hint(thread: Thread, entry: Entry) -> str | None:
    """Return the hint its agent wrote, if there is one. At most one query."""
    if entry.hint is None:
        return None
    opened = texts.opened(thread, [entry.hint]).get(entry.hint)
    return None if opened is None else str(opened.content)


def shape_of(opened: Opened, *, level: int) -> dict[str, Any]:
    """Return the content in its modality's shape; below FULL it is one text field."""
    if level == FULL and opened.slot is None:
        content: dict[str, Any] = opened.content
        return content
    return {_TEXT_FIELDS[opened.modality]: body(opened, level=level)}


def made_texts(
    opened: Opened, *, tokens: int, count: Count
) -> dict[int, dict[str, Any]]:
    """Make levels of FULL, in their modality's shape. No query."""
    schema = None
    if opened.slot is None and opened.modality == "structured":
        schema = opened.content.get("schema_name")
    found = levels.produce(
        body(opened, level=FULL),
        page_type=opened.type,
        modality=opened.modality,
        schema_name=schema,
        media_tokens=making.count_media(opened, tokens=tokens, count=count),
        count=count,
    )
    name = _TEXT_FIELDS[opened.modality]
    return {level: {name: text.content} for level, text in found.items()}


def make_levels(thread: Thread, entry: Entry, *, tokenizer: str) -> MadeLevels | None:
    """Make the page's lower levels, if it has none and they can be made.

    One query.
    """
    if any(entry.levels[1:]) or not levels.producible(entry.modality):
        return None
    opened = open_level(thread, entry, FULL)
    tokens = entry.full.tokens
    count = tokenizers.deriving(opened, tokens=tokens, tokenizer=tokenizer)
    made = making.made_of(opened, version=entry.version, tokens=tokens, count=count)
    return made if made.levels else None
