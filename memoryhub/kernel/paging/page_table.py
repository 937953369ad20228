"""Pages made, changed and deleted: what the page table holds. Pure.

Verbs decide; how events fold is in `residency`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from memoryhub.errors import (
    DerivedPageError,
    NameTakenError,
    PageErasedError,
    UnknownPageError,
)
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.paging import eviction, pins, weights, working_set
from memoryhub.kernel.paging.entries import place_body, updated_entry
from memoryhub.kernel.paging.lookups import Found, emit_lookup, find_live
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
    Entry,
    Location,
    is_observation,
)


def create_pages(decision: Decision, command: CreatePages, pages: PageTable) -> None:
    """Make pages. Emits page.created each, after what leaves for it; all or none.

    With `replace` a page that exists gets a new version instead, and a frame if it has
    none. Raises NameTakenError, PageErasedError, UnknownPageError, PinBudgetError.
    """
    made: dict[str, Location] = {}
    for page in command.pages:
        decision.paging.settings.require_tokens(page.counted_by)
    for page in command.pages:
        # No row tells of a page that this very command has made.
        exists = page.page_id in made or _find_entry(decision, page.page_id, pages)
        if exists and (page.page_id in made or not command.replace):
            raise NameTakenError
        if not exists and pages.deleted(page.page_id):
            raise PageErasedError
        sources = [_source(decision, page, name, made, pages) for name in _named(page)]
        if exists:
            full = _replace(decision, page, sources, pages, by=command.by)
        else:
            full = _create(decision, page, sources, by=command.by)
        made[page.page_id] = full


def _find_entry(decision: Decision, page_id: str, pages: PageTable) -> Entry | None:
    return decision.paging.tlb.find(page_id) or pages.entry(page_id)


def _named(page: NewPage) -> Iterable[str]:
    return dict.fromkeys(page.provenance or ())


def _source(
    decision: Decision,
    page: NewPage,
    name: str,
    made: Mapping[str, Location],
    pages: PageTable,
) -> Location:
    """Where the text lies that the page is made of."""
    if name in made:
        return made[name]
    entry = None if name == page.page_id else _find_entry(decision, name, pages)
    if entry is None:
        raise UnknownPageError
    return entry.full.location


def _create(
    decision: Decision, page: NewPage, sources: Sequence[Location], *, by: By
) -> Location:
    """Where its text lies."""
    mapped = page.map and _mapped(decision, page)
    displaced = None if mapped else decision.displaced()
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
        importance=_importance(page),
        role=page.role,
        provenance=list(page.provenance or ()),
        derived_from=list(page.provenance or ()),
        sources=_source_bodies(decision, sources),
        hinted=page.hinted,
        mapped=mapped,
        displaced=displaced,
    )
    place = Location(decision.state.id, decision.state.seq + 1, FULL)
    decision.emit(event, page.payload)
    decision.cooled(page.page_id)
    return place


def _mapped(decision: Decision, page: NewPage) -> bool:
    weighs = page.cost + weights.fetching(page.page_id)
    if pins.held(decision.paging, page.page_id):
        pins.require_share(decision.paging, more=weighs)
    return working_set.make_room(decision, page.page_id, weighs)


def _source_bodies(
    decision: Decision, sources: Iterable[Location]
) -> list[PlaceBody] | None:
    thread = decision.state.id
    return [place_body(each, thread) for each in dict.fromkeys(sources)] or None


def _replace(
    decision: Decision,
    page: NewPage,
    sources: Sequence[Location],
    pages: PageTable,
    *,
    by: By,
) -> Location:
    entry = _update(decision, _as_update(page, by), sources, pages)
    if page.map:
        working_set.map_entry(decision, entry, 0, by=by)
    return entry.full.location


def _importance(page: NewPage) -> float:
    if page.importance is not None:
        return round(page.importance, 2)
    return 0.9 if page.type == "summary" else DEFAULT_IMPORTANCE


def _as_update(page: NewPage, by: By) -> UpdatePage:
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
        by=by,
    )


def update_page(decision: Decision, command: UpdatePage, pages: PageTable) -> None:
    """Change a page. Emits page.updated; a new content is a new version, at FULL.

    Raises DerivedPageError for another content of a message or observation,
    PinBudgetError when a pinned page grows beyond the share.
    """
    _update(decision, command, (), pages)


def _update(
    decision: Decision,
    command: UpdatePage,
    sources: Sequence[Location],
    pages: PageTable,
) -> Entry:
    """The entry as it is then."""
    entry, found = find_live(decision, command.page_id, pages)
    decision.paging.settings.require_tokens(command.counted_by)
    if command.tokens is not None and _is_derived(entry):
        raise DerivedPageError
    _make_room_to_grow(decision, entry, command)
    if command.tokens is None:
        # It tells of the text that stays.
        sources = (*sources, entry.full.location)
    elif command.provenance is None:
        sources = pages.sources(entry.full.location)
    event = _updated(decision, command, entry, found)
    event = event.model_copy(update={"sources": _source_bodies(decision, sources)})
    thread, seq = decision.state.id, decision.state.seq + 1
    decision.emit(event, command.payload)
    return updated_entry(entry, event, thread=thread, seq=seq)


def _updated(
    decision: Decision, command: UpdatePage, entry: Entry, found: Found
) -> PageUpdated:
    named = None if command.provenance is None else list(command.provenance)
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
        lookup=found.lookup,
        entry=found.read,
    )


def _make_room_to_grow(decision: Decision, entry: Entry, command: UpdatePage) -> None:
    """A mapped page comes back at FULL with its new version, or leaves before it."""
    frame = decision.paging.frames.get(entry.page_id)
    if frame is None or command.cost is None:
        return
    weighs = command.cost + weights.fetching(entry.page_id)
    if pins.held(decision.paging, entry.page_id):
        pins.require_share(decision.paging, more=weighs - frame.tokens)
    if not working_set.make_room(decision, entry.page_id, weighs):
        # Even from a computed pin: those hold within their share, which it outgrows.
        eviction.evict(decision, frame, cause="pressure")


def delete_page(decision: Decision, command: DeletePage, pages: PageTable) -> None:
    """Take a page out of the table for good. Emits page.deleted.

    Raises DerivedPageError for a message or observation: those go by being erased.
    """
    entry, found = find_live(decision, command.page_id, pages)
    if _is_derived(entry):
        raise DerivedPageError
    emit_lookup(decision, PageDeleted, found, by=command.by)


def _is_derived(entry: Entry) -> bool:
    return entry.slot is not None or is_observation(entry.page_id)


def write_levels(decision: Decision, command: WriteLevels, pages: PageTable) -> None:
    """Keep levels of a page that a worker made. Emits page.compressed, or nothing."""
    held = decision.paging.tlb.find(command.made.page_id)
    entry = held or pages.entry(command.made.page_id)
    if entry is not None:
        found = Found(entry, None, None)
        working_set.write_made(decision, found, command.made, by=command.by)
