"""Sealed texts of events, opened here for all but three modules.

`open_payload` opens one event, `open_events` a state's events by their clocks,
`open_texts` pages at their locations, from a cache. All need a subject that was read in
the same request: its epoch decides which key opens and what the cache may serve.
Exports (`queries/export/bundle_events.py`), the search index
(`journal/log/thread_terms.py`) and rebuilt assertion rows open whole threads or lie
below this module. Snapshots and user ids are opened where they are sealed.
`tests/sources/test_openers.py` holds the list. None of these functions asks who may
read: docs/privacy.md says who does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from memoryhub.errors import CorruptError
from memoryhub.journal.log import log
from memoryhub.journal.rows import statements
from memoryhub.journal.rows.rows import EventTableRow
from memoryhub.journal.rows.statements import EVENTS_READ
from memoryhub.kernel.context.contexts import ContextRecord
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.knowledge.facts import FactAsserted
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.erase_events import Range
from memoryhub.kernel.state.erased import resolve_places
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import (
    PageCompressed,
    PageCreated,
    PageUpdated,
    SlotPage,
)
from memoryhub.kernel.state.pages import BLOCK, FULL, HINT, Location, build_slot_page_id
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.tool_events import ToolsSet
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.threads.slots import parse_agent_time
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.vault.keys import keys, payloads
from memoryhub.vault.registry.lru import Lru

#: Approximate bytes of opened texts that a process keeps: their payloads, and the
#: overhead of a text, which is ten times as much for a short one.
KEPT_BYTES = 32 * 1_048_576
BESIDE_BYTES = 2_048
#: Bytes of newest requests that a process keeps.
KEPT_REQUESTS = 16 * 1_048_576
#: Page id used for the definitions of an agent's own tools when they are erased.
TOOLS = "tools"
#: Events read in one statement.
CHUNK = 500

Key = tuple[UUID, int, Location]

# Contents of events


def open_payload(
    subject: Subject, project: UUID, row: Event | EventTableRow
) -> dict[str, Any] | None:
    """Open the content of an event; None once erased, or without content."""
    if row.payload is None:
        return None
    place = payloads.PayloadAddress(
        project=project,
        subject=subject.id,
        thread=row.thread_id,
        seq=row.seq,
        purpose=payloads.Purpose.PAYLOAD,
    )
    sealed = bytes(row.payload)
    opened = keys.get_subject_keys(subject.id, epoch=subject.epoch)
    plain: dict[str, Any] = strict_json.parse_stored(
        payloads.open_sealed(opened, place, sealed)
    )
    return plain


def open_contents(
    subject: Subject, project: UUID, thread: UUID, seqs: Sequence[int]
) -> dict[int, dict[str, Any]]:
    """Open the payloads of these events, by seq; leave out erased payloads.

    One query. `subject` must be read in the same request: its epoch decides which key
    opens.
    """
    rows = Event.objects.filter(thread_id=thread, seq__in=list(seqs))
    opened = {
        row.seq: open_payload(subject, project, row)
        for row in rows.only("thread_id", "seq", "payload")
    }
    return {seq: plain for seq, plain in opened.items() if plain is not None}


def open_content(thread: Thread, row: Event | EventTableRow) -> dict[str, Any]:
    """Open the content of an event of the thread or an ancestor; empty without content.

    `thread` comes with its subject: forks share the subject.
    """
    return open_payload(thread.subject, thread.project_id, row) or {}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedEvent:
    """An event at a clock: its time, its actor and, if requested, its content."""

    at: datetime
    actor: str
    #: None if erased or not requested.
    content: Mapping[str, Any] | None
    erased: bool


def open_events(
    thread: Thread, state: ThreadState, clocks: Collection[int], *, content: bool = True
) -> dict[int, OpenedEvent]:
    """Open the events at these clocks, those of ancestors included.

    One query per 500 events. `thread` comes with its subject: forks share the subject.
    Raises CorruptError for a missing event.
    """
    places = {state.locate_event(clock): clock for clock in sorted(set(clocks))}
    found = open_events_at(thread, [*places], content=content)
    return {places[place]: each for place, each in found.items()}


def open_events_at(
    thread: Thread, places: Sequence[tuple[UUID, int]], *, content: bool = True
) -> dict[tuple[UUID, int], OpenedEvent]:
    """Open the events at these places, (thread, seq); else as `open_events`."""
    found: dict[tuple[UUID, int], OpenedEvent] = {}
    for start in range(0, len(places), CHUNK):
        chunk = places[start : start + CHUNK]
        found |= _read_events(thread, chunk, content=content)
    for each in places:
        if each not in found:
            raise CorruptError(missing_seq=each[1])
    return found


def _read_events(
    thread: Thread, places: Sequence[tuple[UUID, int]], *, content: bool
) -> dict[tuple[UUID, int], OpenedEvent]:
    rows = Event.objects.filter_places(places).defer("body", "chain", "payload_digest")
    if not content:
        rows = rows.defer("payload")
    return {
        (row.thread_id, row.seq): OpenedEvent(
            at=row.at,
            actor=row.actor,
            content=open_content(thread, row) if content and row.payload else None,
            erased=row.erased_by is not None,
        )
        for row in rows
    }


# Texts of pages, cached


class Texts(Lru[Key, OpenedPage]):
    """Opened texts. A subject whose epoch moved is never served from this cache."""

    def forget(self, thread: UUID, page_id: str) -> None:
        """Drop all cached texts of a page."""
        self.drop(
            lambda key, opened: opened.page_id == page_id and key[2].thread == thread
        )

    def forget_records(self, ranges: Iterable[Range]) -> None:
        """Drop the texts of these records."""
        gone = resolve_places(ranges)
        self.drop(lambda key, _: gone.has_place(key[2].thread, key[2].seq))


#: The process's opened texts.
texts = Texts(KEPT_BYTES, name="opened texts", unit_bytes=1)


class NewestRequest(NamedTuple):
    """The request of a thread's newest turn, exactly as sent."""

    turn: int
    record: ContextRecord
    request: bytes


#: The newest requests, by (subject, epoch, thread): the next turn is compared with
#: them.
newest: Lru[tuple[UUID, int, UUID], NewestRequest] = Lru(
    KEPT_REQUESTS, name="newest requests of threads", unit_bytes=1
)


def forget_requests(subject: UUID) -> None:
    """Drop the requests of a subject's threads, which may hold erased content."""
    newest.drop(lambda key, _: key[0] == subject)


def open_texts(
    thread: Thread, places: Collection[Location]
) -> dict[Location, OpenedPage]:
    """Open the texts at these places; leave out erased ones.

    `thread` comes with its subject, read in this request: its epoch decides which
    cached texts may be served. One query for erased texts, and one for each thread of
    the lineage with any to open.
    """
    subject, epoch = thread.subject_id, thread.subject.epoch
    held = texts.get_all((subject, epoch, place) for place in places)
    found = {
        place: text
        for place, text in zip(places, held, strict=True)
        if text is not None
    }
    # Another process may have erased texts that this process still caches.
    gone = list_erased(found)
    for place in gone:
        texts.pop((subject, epoch, place))
        del found[place]
    if len(found) == len(places):
        return found
    missing: dict[UUID, list[Location]] = {}
    for place in places:
        if place not in found:
            missing.setdefault(place.thread, []).append(place)
    for home, wanted in missing.items():
        for place, text, size in _iter_opened(thread, home, wanted):
            texts.put((subject, epoch, place), text, weight=size + BESIDE_BYTES)
            found[place] = text
    return found


def list_erased(held: Collection[Location]) -> list[Location]:
    """Return those of the places whose payloads were erased. One query."""
    if not held:
        return []
    seqs = [place.seq for place in held]
    threads = {place.thread for place in held}
    gone = {*statements.select_erased(threads, first=min(seqs), last=max(seqs))}
    if not gone:
        return []
    return [place for place in held if (place.thread, place.seq) in gone]


def _iter_opened(
    thread: Thread, home: UUID, wanted: list[Location]
) -> Iterable[tuple[Location, OpenedPage, int]]:
    by_seq: dict[int, list[Location]] = {}
    for place in wanted:
        by_seq.setdefault(place.seq, []).append(place)
    seqs = sorted(by_seq)
    for start in range(0, len(seqs), CHUNK):
        chunk = seqs[start : start + CHUNK]
        for row in EVENTS_READ.select(
            '"thread_id" = %s AND "seq" IN {}', home, chosen=chunk
        ):
            payload = open_payload(thread.subject, thread.project_id, row)
            if payload is None:
                continue
            size = len(row.payload or b"") // len(by_seq[row.seq])
            for place in by_seq[row.seq]:
                if (text := build_text(row, payload, level=place.level)) is not None:
                    yield place, text, size


def build_text(
    row: Event | EventTableRow, payload: dict[str, Any], *, level: int
) -> OpenedPage | None:
    """Return the text of an event at a level; None if the event has no text there."""
    event = log.to_recorded(row).event
    return build_event_text(event, payload, seq=row.seq, at=row.at, level=level)


def build_event_text(
    event: EventBody, payload: dict[str, Any], *, seq: int, at: datetime, level: int
) -> OpenedPage | None:
    """Return the text of an event, perhaps one that is not written yet."""
    if isinstance(event, SlotAppended) and event.page is not None:
        at = parse_agent_time(payload) or at
        return _build_slot_text(event, event.page, _get_content(payload, level), at)
    if isinstance(event, PageCompressed):
        text = payload.get("levels", {}).get(str(level))
        return OpenedPage(
            page_id=event.page_id,
            type=event.type,
            modality=event.modality,
            content=text,
            role=event.role,
            slot=event.slot,
        )
    if isinstance(event, ToolsSet):
        return _build_tools_text(payload.get("tools"))
    if isinstance(event, FactAsserted):
        return _build_fact_text(seq, payload)
    if isinstance(event, PageCreated | PageUpdated):
        meta = payload.get("meta", {})
        size = meta.get("dimensions")
        return OpenedPage(
            page_id=event.page_id,
            type=event.type,
            modality=event.modality,
            content=_get_content(payload, level),
            role=event.role if isinstance(event, PageCreated) else None,
            dimensions=tuple(size) if size else None,
            mime_type=meta.get("mime_type"),
            at=at,
            **_build_block_fields(event, meta) if event.type == BLOCK else {},
        )
    return None


def _build_block_fields(
    event: PageCreated | PageUpdated, meta: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": event.name or event.page_id,
        "description": meta.get("description", ""),
        "read_only": meta.get("read_only", False),
    }


def _build_tools_text(content: Any) -> OpenedPage:
    return OpenedPage(
        page_id=TOOLS, type="procedure", modality="structured", content=content
    )


def _build_fact_text(seq: int, content: Any) -> OpenedPage:
    return OpenedPage(
        page_id=f"fact-{seq}", type="claim", modality="structured", content=content
    )


def _build_slot_text(
    event: SlotAppended, page: SlotPage, content: Any, at: datetime
) -> OpenedPage:
    return OpenedPage(
        page_id=build_slot_page_id(event.index),
        type=page.type,
        modality=page.modality,
        content=content,
        role=event.role,
        slot=event.index,
        sender=event.from_name,
        at=at,
    )


def _get_content(payload: dict[str, Any], level: int) -> Any:
    return (
        payload.get("hint")
        if level == HINT
        else payload.get("content" if level == FULL else str(level))
    )
