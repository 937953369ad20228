"""Page-table entries as events carry them, and as events change them. Pure."""

from __future__ import annotations

from uuid import UUID

from memoryhub.kernel.state import page_events as events
from memoryhub.kernel.state.pages import (
    HINT,
    Entry,
    LevelEntry,
    Levels,
    Location,
    entry_fields,
)


def entry_body(entry: Entry, *, thread: UUID) -> events.EntryBody:
    """Return what a miss's event carries of a page; `thread` is where it happens."""
    return events.EntryBody(
        **entry_fields(entry),
        hint=place_body(entry.hint, thread) if entry.hint else None,
        levels=[
            None if level is None else _level_body(level, thread)
            for level in entry.levels
        ],
    )


def place_body(place: Location, thread: UUID) -> events.PlaceBody:
    """Return where a text lies, as an event of `thread` records it."""
    home = place.elsewhere(thread)
    return events.PlaceBody(seq=place.seq, thread=str(home) if home else None)


def _level_body(level: LevelEntry, thread: UUID) -> events.LevelBody:
    place = place_body(level.location, thread)
    return events.LevelBody(**dict(place), tokens=level.tokens, cost=level.cost)


def entry_of(page_id: str, body: events.EntryBody, *, thread: UUID) -> Entry:
    """Return the entry that an event carries."""
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
    fields = entry_fields(body)
    return Entry(page_id=page_id, levels=_four(levels), hint=hint, **fields)


def created_entry(
    event: events.PageCreated, *, thread: UUID, seq: int, clock: int, turn: int
) -> Entry:
    """Return the entry of a page just made; `clock` is the thread's at its event."""
    full = LevelEntry(Location(thread, seq, 0), event.tokens, event.cost)
    return Entry(
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
    )


def updated_entry(
    entry: Entry, event: events.PageUpdated, *, thread: UUID, seq: int
) -> Entry:
    """Return the entry after an update; a new version begins with its FULL alone."""
    after = entry._replace(
        version=event.version,
        type=event.type,
        modality=event.modality,
        importance=event.importance,
        hint=Location(thread, seq, HINT) if event.hinted else entry.hint,
    )
    if event.tokens is None or event.cost is None:
        return after
    full = LevelEntry(Location(thread, seq, 0), event.tokens, event.cost)
    return after._replace(levels=(full, None, None, None))


def compressed_entry(
    entry: Entry, event: events.PageCompressed, *, thread: UUID, seq: int
) -> Entry:
    """Return the entry with the levels that were made."""
    if event.version != entry.version:
        return entry
    levels = list(entry.levels)
    for made in event.levels:
        place = Location(thread, seq, made.level)
        levels[made.level] = LevelEntry(place, made.tokens, made.cost)
    return entry._replace(levels=_four(levels))


def _four(levels: list[LevelEntry | None]) -> Levels:
    full, reduced, abstract, reference = levels
    return full, reduced, abstract, reference
