"""Page table: pages are made, changed and deleted. Pure.

This module decides the commands; `residency` applies the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from memoryhub.errors import (
    DerivedPageError,
    NameTakenError,
    PageErasedError,
    StaleError,
    UnknownPageError,
)
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.paging import working_set
from memoryhub.kernel.paging.entries import build_place_body, build_updated_entry
from memoryhub.kernel.paging.eviction import eviction, pins, weights
from memoryhub.kernel.paging.lookups import PageLookup, emit_lookup, require_page
from memoryhub.kernel.paging.page_commands import (
    CreatePages,
    DeletePage,
    NewPage,
    UpdatePage,
    WriteLevels,
)
from memoryhub.kernel.state.page_events import (
    By,
    PageCreated,
    PageDeleted,
    PageUpdated,
    PlaceBody,
)
from memoryhub.kernel.state.pages import (
    DEFAULT_IMPORTANCE,
    FULL,
    Location,
    PageEntry,
    is_observation,
    is_procedure_id,
)


def decide_create_pages(
    decision: Decision, command: CreatePages, pages: PageTable
) -> None:
    """Make pages, all or none. Emits page.created each, after evictions for its room.

    With `replace`, an existing page gets a new version instead, and a frame if it has
    none. Raises NameTakenError, PageErasedError, UnknownPageError, PinBudgetError.
    """
    made: dict[str, Location] = {}
    for page in command.pages:
        decision.paging.settings.require_tokens(page.counted_by)
    for page in command.pages:
        # A page that this command has just made has no row yet.
        exists = page.page_id in made or _find_entry(decision, page.page_id, pages)
        if exists and (page.page_id in made or not command.replace):
            raise NameTakenError
        if not exists and pages.is_deleted(page.page_id):
            raise PageErasedError
        sources = [
            _require_source(decision, page, name, made, pages)
            for name in _list_source_names(page)
        ]
        if exists:
            full = _replace_page(decision, page, sources, pages, by=command.by)
        else:
            full = _create_page(decision, page, sources, by=command.by)
        made[page.page_id] = full


def _find_entry(decision: Decision, page_id: str, pages: PageTable) -> PageEntry | None:
    return decision.paging.tlb.find(page_id) or pages.find_entry(page_id)


def _list_source_names(page: NewPage) -> Iterable[str]:
    return dict.fromkeys(page.provenance or ())


def _require_source(
    decision: Decision,
    page: NewPage,
    name: str,
    made: Mapping[str, Location],
    pages: PageTable,
) -> Location:
    """Return the location of the text that the page is made of.

    Raises UnknownPageError.
    """
    if name in made:
        return made[name]
    entry = None if name == page.page_id else _find_entry(decision, name, pages)
    if entry is None:
        raise UnknownPageError
    return entry.full.location


def _create_page(
    decision: Decision, page: NewPage, sources: Sequence[Location], *, by: By
) -> Location:
    """Emit page.created; return the location of the page's text."""
    mapped = page.map and _make_room(decision, page)
    displaced = None if mapped else decision.take_displaced()
    event = PageCreated(
        turn=decision.turn,
        cause="command",
        by=by,
        page_id=page.page_id,
        type=page.type,
        modality=page.modality,
        tokens=page.tokens,
        cost=page.cost,
        bytes=page.bytes,
        importance=_choose_importance(page),
        role=page.role,
        provenance=list(page.provenance or ()),
        derived_from=list(page.provenance or ()),
        sources=_build_source_bodies(decision, sources),
        hinted=page.hinted,
        mapped=mapped,
        displaced=displaced,
        name=page.name,
    )
    place = Location(decision.state.id, decision.state.seq + 1, FULL)
    decision.emit(event, page.payload)
    decision.note_hot_page(page.page_id)
    return place


def write_derived_page(
    decision: Decision, page: NewPage, sources: Sequence[Location], pages: PageTable
) -> None:
    """Write a page that the hub made from these texts; its newest version counts.

    Emits page.created or page.updated. Raises PinBudgetError.
    """
    if _find_entry(decision, page.page_id, pages):
        _replace_page(decision, page, sources, pages, by="system")
    else:
        _create_page(decision, page, sources, by="system")


def _make_room(decision: Decision, page: NewPage) -> bool:
    """Make room for a new page; return whether the page then fits."""
    weighs = page.cost + weights.weigh_call(page.page_id)
    if pins.is_charged_to_share(decision.paging, page.page_id):
        pins.require_share(decision.paging, more=weighs)
    return working_set.make_room(decision, page.page_id, weighs)


def _build_source_bodies(
    decision: Decision, sources: Iterable[Location]
) -> list[PlaceBody] | None:
    thread = decision.state.id
    return [build_place_body(each, thread) for each in dict.fromkeys(sources)] or None


def _replace_page(
    decision: Decision,
    page: NewPage,
    sources: Sequence[Location],
    pages: PageTable,
    *,
    by: By,
) -> Location:
    entry = _update_page(decision, _to_update(page, by), sources, pages)
    if page.map:
        working_set.map_entry(decision, entry, 0, by=by)
    return entry.full.location


def _choose_importance(page: NewPage) -> float:
    if page.importance is not None:
        return round(page.importance, 2)
    return 0.9 if page.type == "summary" else DEFAULT_IMPORTANCE


def _to_update(page: NewPage, by: By) -> UpdatePage:
    return UpdatePage(
        page_id=page.page_id,
        payload=page.payload,
        importance=page.importance,
        type=page.type,
        modality=page.modality,
        tokens=page.tokens,
        cost=page.cost,
        bytes=page.bytes,
        hinted=page.hinted,
        provenance=page.provenance,
        name=page.name,
        inserted=page.inserted,
        by=by,
    )


def decide_update_page(
    decision: Decision, command: UpdatePage, pages: PageTable
) -> None:
    """Change a page. Emits page.updated; a new content is a new version, at FULL.

    Raises DerivedPageError for a new content of a message, an observation or a
    procedure, PinBudgetError when a pinned page grows beyond the share, StaleError when
    the page has another version than the command names.
    """
    if command.tokens is not None and is_procedure_id(command.page_id):
        raise DerivedPageError
    _update_page(decision, command, (), pages)


def _update_page(
    decision: Decision,
    command: UpdatePage,
    sources: Sequence[Location],
    pages: PageTable,
) -> PageEntry:
    """Emit page.updated; return the entry after the event."""
    entry, found = require_page(decision, command.page_id, pages)
    if command.version not in (None, entry.version):
        raise StaleError(version=entry.version)
    decision.paging.settings.require_tokens(command.counted_by)
    if command.tokens is not None and _is_derived(entry):
        raise DerivedPageError
    _make_room_to_grow(decision, entry, command)
    if command.tokens is None:
        # The event describes the text that stays.
        sources = (*sources, entry.full.location)
    elif command.provenance is None and not sources:
        sources = pages.list_sources(entry.full.location)
    event = _build_updated(decision, command, entry, found)
    event = event.model_copy(
        update={"sources": _build_source_bodies(decision, sources)}
    )
    thread, seq = decision.state.id, decision.state.seq + 1
    decision.emit(event, command.payload)
    return build_updated_entry(entry, event, thread=thread, seq=seq)


def _build_updated(
    decision: Decision, command: UpdatePage, entry: PageEntry, found: PageLookup
) -> PageUpdated:
    named = None if command.provenance is None else list(command.provenance)
    renamed = command.name not in (None, entry.called)
    return PageUpdated(
        turn=decision.turn,
        by=command.by,
        page_id=entry.page_id,
        version=entry.version + (command.tokens is not None),
        type=command.type or entry.type,
        modality=command.modality or entry.modality,
        tokens=command.tokens,
        cost=command.cost,
        bytes=command.bytes,
        importance=entry.importance
        if command.importance is None
        else round(command.importance, 2),
        hinted=command.hinted,
        provenance=named,
        derived_from=named,
        name=command.name or entry.name,
        renamed_from=entry.called if renamed else None,
        inserted=command.inserted,
        lookup=found.lookup,
        entry=found.read,
    )


def _make_room_to_grow(
    decision: Decision, entry: PageEntry, command: UpdatePage
) -> None:
    """Make room for a mapped page's new version at FULL, or evict the page."""
    frame = decision.paging.frames.get(entry.page_id)
    if frame is None or command.cost is None:
        return
    weighs = command.cost + weights.weigh_call(entry.page_id)
    if pins.is_charged_to_share(decision.paging, entry.page_id):
        pins.require_share(decision.paging, more=weighs - frame.tokens)
    if not working_set.make_room(decision, entry.page_id, weighs):
        # Even from a computed pin: the new version outgrows the share of these pins.
        eviction.evict(decision, frame, cause="pressure")


def decide_delete_page(
    decision: Decision, command: DeletePage, pages: PageTable
) -> None:
    """Take a page out of the table for good. Emits page.deleted.

    Raises DerivedPageError for a message or observation: these are erased instead.
    """
    entry, found = require_page(decision, command.page_id, pages)
    if _is_derived(entry):
        raise DerivedPageError
    emit_lookup(decision, PageDeleted, found, by=command.by)


def _is_derived(entry: PageEntry) -> bool:
    return entry.slot is not None or is_observation(entry.page_id)


def decide_write_levels(
    decision: Decision, command: WriteLevels, pages: PageTable
) -> None:
    """Keep levels of a page that a worker made. Emits page.compressed, or nothing."""
    held = decision.paging.tlb.find(command.made.page_id)
    entry = held or pages.find_entry(command.made.page_id)
    if entry is not None:
        found = PageLookup(entry, None, None)
        working_set.write_made_levels(decision, found, command.made, by=command.by)
