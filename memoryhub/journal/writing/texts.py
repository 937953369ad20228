"""Texts of pages: payloads opened at their locations, and kept opened for a while."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from memoryhub.journal.log import log
from memoryhub.journal.rows import statements
from memoryhub.journal.rows.rows import EventRow
from memoryhub.journal.rows.statements import EVENTS_READ
from memoryhub.kernel.knowledge.facts import FactAsserted
from memoryhub.kernel.levels.contexts import Record
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.state.erase_events import Range
from memoryhub.kernel.state.erased import named
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import (
    PageCompressed,
    PageCreated,
    PageUpdated,
    SlotPage,
)
from memoryhub.kernel.state.pages import BLOCK, FULL, HINT, Location, slot_page_id
from memoryhub.kernel.state.tool_events import ToolsSet
from memoryhub.kernel.threads.slots import agent_time
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.vault.registry.lru import Lru

#: Bytes of opened texts that a process keeps, nearly: of their payloads, and of what
#: a text takes beside it, which is ten times as much for a short one.
KEPT_BYTES = 32 * 1_048_576
BESIDE_BYTES = 2_048
#: Bytes of newest requests that a process keeps.
KEPT_REQUESTS = 16 * 1_048_576
#: What the definitions of an agent's own tools are called among pages that are gone.
TOOLS = "tools"
#: Events read in one statement.
CHUNK = 500

Key = tuple[UUID, int, Location]


class Texts(Lru[Key, Opened]):
    """Opened texts. A subject whose epoch moves is never served from it."""

    def forget(self, thread: UUID, page_id: str) -> None:
        """Drop what it holds of a page, whichever texts those are."""
        self.drop(
            lambda key, opened: opened.page_id == page_id and key[2].thread == thread
        )

    def forget_records(self, ranges: Iterable[Range]) -> None:
        """Drop the texts of these records."""
        gone = named(ranges)
        self.drop(lambda key, _: gone.holds(key[2].thread, key[2].seq))


#: The process's opened texts.
texts = Texts(KEPT_BYTES, name="opened texts", unit_bytes=1)


class Newest(NamedTuple):
    """The request of a thread's newest turn, as it was handed out."""

    turn: int
    record: Record
    request: bytes


#: The newest requests, by (subject, epoch, thread): the next turn is compared with it.
newest: Lru[tuple[UUID, int, UUID], Newest] = Lru(
    KEPT_REQUESTS, name="newest requests of threads", unit_bytes=1
)


def forget_requests(subject: UUID) -> None:
    """Drop the requests of a subject's threads, which may hold what was erased."""
    newest.drop(lambda key, _: key[0] == subject)


def opened(thread: Thread, places: Collection[Location]) -> dict[Location, Opened]:
    """Open the texts at these places; those that were erased are left out.

    `thread` comes with its subject, read in this request: its epoch decides what may be
    served from memory. One query for what was erased, and one for each thread of the
    lineage with any to open.
    """
    subject, epoch = thread.subject_id, thread.subject.epoch
    held = texts.get_all((subject, epoch, place) for place in places)
    found = {
        place: text
        for place, text in zip(places, held, strict=True)
        if text is not None
    }
    # Another process may have erased what this one still holds.
    gone = erased(found)
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
        for place, text, size in _read(thread, home, wanted):
            texts.put((subject, epoch, place), text, weight=size + BESIDE_BYTES)
            found[place] = text
    return found


def erased(held: Collection[Location]) -> list[Location]:
    """List those of the places whose payloads are gone. One query."""
    if not held:
        return []
    seqs = [place.seq for place in held]
    threads = {place.thread for place in held}
    gone = {*statements.select_erased(threads, first=min(seqs), last=max(seqs))}
    if not gone:
        return []
    return [place for place in held if (place.thread, place.seq) in gone]


def _read(
    thread: Thread, home: UUID, wanted: list[Location]
) -> Iterable[tuple[Location, Opened, int]]:
    by_seq: dict[int, list[Location]] = {}
    for place in wanted:
        by_seq.setdefault(place.seq, []).append(place)
    seqs = sorted(by_seq)
    for start in range(0, len(seqs), CHUNK):
        chunk = seqs[start : start + CHUNK]
        for row in EVENTS_READ.where(
            '"thread_id" = %s AND "seq" IN {}', home, chosen=chunk
        ):
            payload = log.open_payload(thread.subject, thread.project_id, row)
            if payload is None:
                continue
            size = len(row.payload or b"") // len(by_seq[row.seq])
            for place in by_seq[row.seq]:
                if (text := opened_text(row, payload, level=place.level)) is not None:
                    yield place, text, size


def opened_text(
    row: Event | EventRow, payload: dict[str, Any], *, level: int
) -> Opened | None:
    """Return the text of an event at a level; None if it has none there."""
    event = log.recorded(row).event
    if isinstance(event, SlotAppended) and event.page is not None:
        at = agent_time(payload) or row.at
        return _of_slot(event, event.page, _content(payload, level), at)
    if isinstance(event, PageCompressed):
        text = payload.get("levels", {}).get(str(level))
        return Opened(
            page_id=event.page_id,
            type=event.type,
            modality=event.modality,
            content=text,
            role=event.role,
            slot=event.slot,
        )
    if isinstance(event, ToolsSet):
        return _of_tools(payload.get("tools"))
    if isinstance(event, FactAsserted):
        return _of_fact(row.seq, payload)
    if isinstance(event, PageCreated | PageUpdated):
        meta = payload.get("meta", {})
        size = meta.get("dimensions")
        return Opened(
            page_id=event.page_id,
            type=event.type,
            modality=event.modality,
            content=_content(payload, level),
            role=event.role if isinstance(event, PageCreated) else None,
            dimensions=tuple(size) if size else None,
            mime_type=meta.get("mime_type"),
            at=row.at,
            **_of_block(meta) if event.type == BLOCK else {},
        )
    return None


def _of_block(meta: dict[str, Any]) -> dict[str, Any]:
    return {
        "description": meta.get("description", ""),
        "read_only": meta.get("read_only", False),
    }


def _of_tools(content: Any) -> Opened:
    return Opened(
        page_id=TOOLS, type="procedure", modality="structured", content=content
    )


def _of_fact(seq: int, content: Any) -> Opened:
    return Opened(
        page_id=f"fact-{seq}", type="claim", modality="structured", content=content
    )


def _of_slot(event: SlotAppended, page: SlotPage, content: Any, at: datetime) -> Opened:
    return Opened(
        page_id=slot_page_id(event.index),
        type=page.type,
        modality=page.modality,
        content=content,
        role=event.role,
        slot=event.index,
        sender=event.from_name,
        at=at,
    )


def _content(payload: dict[str, Any], level: int) -> Any:
    return (
        payload.get("hint")
        if level == HINT
        else payload.get("content" if level == FULL else str(level))
    )
