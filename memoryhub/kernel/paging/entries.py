"""Page-table entries as events carry and change them. Pure."""

from __future__ import annotations

from uuid import UUID

from memoryhub.kernel.state import page_events as events
from memoryhub.kernel.state.pages import (
    HINT,
    LevelEntry,
    Levels,
    Location,
    PageEntry,
    copy_entry_fields,
)


def build_entry_body(entry: PageEntry, *, thread: UUID) -> events.EntryBody:
    """Build the entry that a miss's event carries; `thread` is the event's thread."""
    return events.EntryBody(
        **copy_entry_fields(entry),
        hint=build_place_body(entry.hint, thread) if entry.hint else None,
        levels=[
            None if level is None else _build_level_body(level, thread)
            for level in entry.levels
        ],
    )


def build_place_body(place: Location, thread: UUID) -> events.PlaceBody:
    """Build the location of a text, as an event of `thread` records it."""
    home = place.find_home(thread)
    return events.PlaceBody(seq=place.seq, thread=str(home) if home else None)


def _build_level_body(level: LevelEntry, thread: UUID) -> events.LevelBody:
    place = build_place_body(level.location, thread)
    return events.LevelBody(**dict(place), tokens=level.tokens, cost=level.cost)


def build_entry(page_id: str, body: events.EntryBody, *, thread: UUID) -> PageEntry:
    """Build the entry that an event carries."""
    levels = [
        None
        if level is None
        else LevelEntry(
            Location(UUID(level.thread) if level.thread else thread, level.seq, number),
            level.tokens,
            level.cost,
        )
        for number, level in enumerate(body.levels)
    ]
    hint = None
    if body.hint is not None:
        home = UUID(body.hint.thread) if body.hint.thread else thread
        hint = Location(home, body.hint.seq, HINT)
    fields = copy_entry_fields(body)
    return PageEntry(page_id=page_id, levels=_to_levels(levels), hint=hint, **fields)


def build_created_entry(
    event: events.PageCreated, *, thread: UUID, seq: int, clock: int, turn: int
) -> PageEntry:
    """Build the entry of a new page; `clock` is the thread's clock at its event."""
    full = LevelEntry(Location(thread, seq, 0), event.tokens, event.cost)
    return PageEntry(
        page_id=event.page_id,
        version=1,
        type=event.type,
        modality=event.modality,
        importance=event.importance,
        created_seq=clock,
        created_turn=turn,
        levels=(full, None, None, None),
        role=event.role,
        hint=Location(thread, seq, HINT) if event.hinted else None,
        name=event.name,
    )


def build_updated_entry(
    entry: PageEntry, event: events.PageUpdated, *, thread: UUID, seq: int
) -> PageEntry:
    """Build the entry after an update; a new version begins with its FULL alone."""
    after = entry._replace(
        version=event.version,
        type=event.type,
        modality=event.modality,
        importance=event.importance,
        hint=Location(thread, seq, HINT) if event.hinted else entry.hint,
        name=event.name,
    )
    if event.tokens is None or event.cost is None:
        return after
    full = LevelEntry(Location(thread, seq, 0), event.tokens, event.cost)
    return after._replace(levels=(full, None, None, None))


def build_compressed_entry(
    entry: PageEntry, event: events.PageCompressed, *, thread: UUID, seq: int
) -> PageEntry:
    """Build the entry with the new levels of the event."""
    if event.version != entry.version:
        return entry
    levels = list(entry.levels)
    for made in event.levels:
        place = Location(thread, seq, made.level)
        levels[made.level] = LevelEntry(place, made.tokens, made.cost)
    return entry._replace(levels=_to_levels(levels))


def _to_levels(levels: list[LevelEntry | None]) -> Levels:
    full, reduced, abstract, reference = levels
    return full, reduced, abstract, reference
