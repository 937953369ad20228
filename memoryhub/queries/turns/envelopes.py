"""Envelopes: a page's content at one level, for a model or an agent. Never writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from memoryhub.errors import PageErasedError
from memoryhub.journal import texts
from memoryhub.kernel.commands import MadeLevels
from memoryhub.kernel.context.opened import OpenedPage, get_body
from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.levels import levels, making
from memoryhub.kernel.state.pages import FULL, PageEntry
from memoryhub.kernel.text import strict_json
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import tokenizers

#: Field of the text below FULL, by modality.
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
    #: The served level, which may be more faithful than the requested one.
    level: int
    tier: str
    content: dict[str, Any]
    source_tier: str
    mime_type: str | None
    size_bytes: int
    dimensions: tuple[int, int] | None
    duration_seconds: float | None

    def replace_text(self, text: str) -> Envelope:
        """Return the envelope with a part of its text."""
        content = {_TEXT_FIELDS[self.modality]: text}
        return replace(self, content=content, size_bytes=len(text.encode()))

    def to_dict(self) -> dict[str, Any]:
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
    thread: Thread,
    entry: PageEntry,
    *,
    level: int,
    tier: str,
    source: str | None = None,
) -> Envelope:
    """Return a page at `level`, or at the nearest more faithful level possible.

    A missing level is produced for this answer alone. `thread` comes with its subject.
    At most two queries. Raises PageErasedError when the page's text was erased.
    """
    best = entry.pick_level(level)
    full = opened = open_level(thread, entry, best)
    if best > FULL and (best < level or entry.slot is None):
        full = open_level(thread, entry, FULL)
    content = build_content(opened, level=best)
    if best < level:
        count = tokenizers.get_for_thread(thread).count
        made = make_texts(full, tokens=entry.full.tokens, count=count)
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
        size_bytes=len(strict_json.dump_stored(content)),
        dimensions=full.dimensions,
        duration_seconds=content.get("duration_seconds"),
    )


def open_level(thread: Thread, entry: PageEntry, level: int) -> OpenedPage:
    """Open the text of an existing level.

    At most one query. Raises PageErasedError.
    """
    place = entry.require_level(level).location
    opened = texts.open_texts(thread, [place]).get(place)
    if opened is None:
        raise PageErasedError
    return opened


def get_payload(thread: Thread, entry: PageEntry) -> dict[str, Any]:
    """Return the payload with FULL of the entry's version. One query."""
    place = entry.full.location
    row = Event.objects.get(thread_id=place.thread, seq=place.seq)
    payload = texts.open_payload(thread.subject, thread.project_id, row)
    if payload is None:
        raise PageErasedError
    return payload


def get_meta(thread: Thread, entry: PageEntry) -> dict[str, Any]:
    """Return the meta data that an agent sent with the content; {} for a message."""
    if entry.slot is not None:
        return {}
    meta: dict[str, Any] = get_payload(thread, entry).get("meta") or {}
    return meta


def get_hint(thread: Thread, entry: PageEntry) -> str | None:
    """Return the hint that an agent wrote, if any. At most one query."""
    if entry.hint is None:
        return None
    opened = texts.open_texts(thread, [entry.hint]).get(entry.hint)
    return None if opened is None else str(opened.content)


def build_content(opened: OpenedPage, *, level: int) -> dict[str, Any]:
    """Return the content in its modality's shape; below FULL a single text field."""
    if level == FULL and opened.slot is None:
        content: dict[str, Any] = opened.content
        return content
    return {_TEXT_FIELDS[opened.modality]: get_body(opened, level=level)}


def make_texts(
    opened: OpenedPage, *, tokens: int, count: Count
) -> dict[int, dict[str, Any]]:
    """Produce lower levels from FULL, in the modality's shape. No query."""
    schema = None
    if opened.slot is None and opened.modality == "structured":
        schema = opened.content.get("schema_name")
    found = levels.produce_levels(
        get_body(opened, level=FULL),
        page_type=opened.type,
        modality=opened.modality,
        schema_name=schema,
        media_tokens=making.count_media(opened, tokens=tokens, count=count),
        count=count,
    )
    name = _TEXT_FIELDS[opened.modality]
    return {level: {name: text.content} for level, text in found.items()}


def make_levels(
    thread: Thread, entry: PageEntry, *, tokenizer: str
) -> MadeLevels | None:
    """Produce the page's lower levels, if it has none and they can be produced.

    One query.
    """
    if any(entry.levels[1:]) or not levels.can_produce(entry.modality):
        return None
    opened = open_level(thread, entry, FULL)
    tokens = entry.full.tokens
    count = tokenizers.build_counter(opened, tokens=tokens, tokenizer=tokenizer)
    made = making.make_levels(opened, version=entry.version, tokens=tokens, count=count)
    return made if made.levels else None
