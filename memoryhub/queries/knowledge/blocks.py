"""Blocks of a subject: pages of its home thread, now or at an event. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F

from memoryhub.errors import InvalidError, PageErasedError, PageUnknownError
from memoryhub.journal import texts
from memoryhub.journal.log import log
from memoryhub.journal.rows import statements
from memoryhub.journal.rows.page_rows import build_entry
from memoryhub.journal.rows.statements import PAGES_READ
from memoryhub.kernel.context import block_lines
from memoryhub.kernel.context.block_lines import CarriedBlock
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.tokens import EST
from memoryhub.kernel.replay import RecordedEvent
from memoryhub.kernel.state.page_events import PageCreated, PageUpdated
from memoryhub.kernel.state.pages import (
    BLOCK,
    MAX_BLOCK_BYTES,
    PageEntry,
    build_block_id,
)
from memoryhub.models.events import Event
from memoryhub.models.pages import Page
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import pages
from memoryhub.queries.replay import states, tokenizers
from memoryhub.queries.threads.edits import Edit
from memoryhub.queries.threads.threads import list_stored_names

#: Condition and order of the home thread's pages that requests carry.
_CARRIED = (
    '"thread_id" = %s AND "type" = %s AND "deleted_seq" IS NULL ORDER BY "created_seq"'
)
_WRITING = (PageCreated.event_type, PageUpdated.event_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockView:
    """A block in its newest version, or its version as of an event."""

    block: str
    #: Id of the block's page, which stays when the block is renamed.
    page_id: str
    version: int
    #: Seq of the event in the home thread that has the block's text.
    seq: int
    #: None once the text was erased.
    text: str | None
    #: What the model should keep in the block.
    description: str
    read_only: bool
    tokens: int
    #: Bytes of the text in UTF-8.
    bytes: int
    limit_bytes: int = MAX_BLOCK_BYTES

    @classmethod
    def from_entry(cls, entry: PageEntry, opened: OpenedPage | None) -> BlockView:
        return cls(
            block=entry.called,
            page_id=entry.page_id,
            version=entry.version,
            seq=entry.full.location.seq,
            tokens=entry.full.tokens,
            **_build_texts(opened),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockVersion:
    """One version of a block, with its author and time."""

    version: int
    seq: int
    at: datetime
    actor: str
    #: Author on whose account the actor wrote: the model, or a tool.
    by: str
    tokens: int
    text: str | None
    description: str
    read_only: bool
    bytes: int
    #: Name from this version on, and the name before if the version changed it.
    name: str
    renamed_from: str | None
    #: Line after which the version has inserted text, if it did; 0: at the top.
    inserted: int | None


def _build_texts(opened: OpenedPage | None) -> dict[str, Any]:
    text = None if opened is None else opened.content["text"]
    return {
        "text": text,
        "description": "" if opened is None else opened.description,
        "read_only": opened is not None and opened.read_only,
        "bytes": len((text or "").encode()),
    }


def list_blocks(home: Thread, *, seq: int | None = None) -> list[BlockView]:
    """List the blocks of a home thread in order of creation, now or as of an event.

    At most eight queries, however many blocks there are.
    """
    state = states.load_state(home, seq)
    return open_views(home, (e for e in pages.iter_entries(state) if e.type == BLOCK))


def list_current(home: Thread, *, limit: int) -> list[BlockView]:
    """List the first blocks that exist now, in order of creation. Three queries.

    Reads rows alone: the cost does not grow with the home thread.
    """
    rows = PAGES_READ.select(f"{_CARRIED} LIMIT %s", home.id, BLOCK, limit)
    return open_views(home, (build_entry(row, ()) for row in rows))


def count_blocks(home: Thread) -> int:
    """Count the blocks that exist now. One query."""
    return Page.objects.filter(thread=home, type=BLOCK, deleted_seq=None).count()


def open_views(home: Thread, entries: Iterable[PageEntry]) -> list[BlockView]:
    """Open the texts of blocks, and return the blocks. Two queries."""
    found = [*entries]
    opened = texts.open_texts(home, [entry.full.location for entry in found])
    return [BlockView.from_entry(e, opened.get(e.full.location)) for e in found]


def list_carried(
    project: UUID, name: str, *, bound: UUID | None = None
) -> tuple[CarriedBlock, ...]:
    """Return the blocks of its subject that a thread's requests may carry, in order.

    One query for an anonymous thread, at most three for a subject without blocks, else
    seven. Empty for a thread that does not exist yet and has no subject, and for an
    anonymous thread.
    """
    meant = list_stored_names(name, bound=bound)
    # Another subject's thread may have the name that a bound key uses.
    subjects = [bound] if bound else statements.select_named_subjects(project, meant)
    homes = statements.select_homes(subjects) if subjects else []
    made = PAGES_READ.select(_CARRIED, homes[0], BLOCK) if homes else []
    if not made:
        return ()
    home = Thread.objects.select_related("subject").get(id=homes[0])
    own = Thread.objects.filter(
        project=project, name__in=meant, subject=home.subject_id
    )
    found = {thread.name: thread for thread in own}
    thread = next((found[each] for each in meant if each in found), None)
    count = (EST if thread is None else tokenizers.get_for_thread(thread)).count
    places = [build_entry(row, ()).full.location for row in made]
    opened = texts.open_texts(home, places)
    there = [place for place in places if place in opened]
    return tuple(
        block_lines.build_carried_block(place, opened[place], count=count)
        for place in there
    )


def list_named(home: Thread, names: Sequence[str]) -> list[BlockView]:
    """List the blocks of these names that exist now. At most five queries each."""
    found = (
        pages.find_current_entry(home, _find_page_id(home, name)) for name in names
    )
    named = zip(names, found, strict=True)
    return open_views(home, (e for name, e in named if e and e.called == name))


def _find_page_id(home: Thread, name: str) -> str:
    """Return the page of the block that has the name now, or had it when deleted."""
    rows = Page.objects.filter(thread=home, name=name)
    found = rows.order_by(F("deleted_seq").asc(nulls_first=True)).first()
    return build_block_id(name) if found is None else found.page_id


def get_block(home: Thread | None, block: str, *, seq: int | None = None) -> BlockView:
    """Return one block, now or as of an event. A few queries.

    Raises PageUnknownError, and PageErasedError for a deleted block and for the first
    name of a block that was renamed.
    """
    if home is None:
        raise PageUnknownError
    entry = _get_entry(home, block, seq)
    if entry.type != BLOCK:
        raise PageUnknownError
    if entry.called != block:
        raise PageErasedError
    (view,) = open_views(home, [entry])
    return view


def _get_entry(home: Thread, block: str, seq: int | None) -> PageEntry:
    """Return the entry of the block of this name, or of the page that it names."""
    if seq is None:
        page_id = _find_page_id(home, block)
        found = pages.find_current_entry(home, page_id)
        return found or pages.find_entry(states.load_state(home), page_id)
    state = states.load_state(home, seq)
    blocks = [each for each in pages.iter_entries(state) if each.type == BLOCK]
    named = (each for each in blocks if each.called == block)
    return next(named, None) or pages.find_entry(state, build_block_id(block))


def find_edit(home: Thread, seq: int) -> Edit | None:
    """Find the version of a block that an event wrote; None for any other event.

    None for a deleted block, too. Three queries.
    """
    rows = Event.objects.filter(thread=home, seq=seq, type__in=_WRITING)
    row = rows.only("seq", "type", "actor", "page").first() if home.home else None
    entry = pages.find_current_entry(home, row.page) if row and row.page else None
    if row is None or entry is None or entry.type != BLOCK:
        return None
    return Edit(
        seq=row.seq,
        actor=row.actor,
        standing=entry.full.location.seq == row.seq,
        block=entry.page_id,
        name=entry.called,
        final=row.type == PageCreated.event_type,
    )


def list_versions(
    home: Thread, block: str, *, seq: int | None = None, limit: int = 50
) -> Sequence[BlockVersion]:
    """List a block's newest versions, newest first, up to an event. One query.

    `block` is the id of the block's page.
    """
    rows = Event.objects.filter(thread=home, page=block, type__in=_WRITING)
    if seq is not None:
        rows = rows.filter(seq__lte=seq)
    return [_open_version(home, row) for row in rows.order_by("-seq")[:limit]]


def get_version(home: Thread | None, block: str, version: int) -> BlockVersion:
    """Return a version of a block by its number. At most one query a later version.

    Raises PageUnknownError, InvalidError for a number that the block never had, and
    PageErasedError for a version whose text was erased.
    """
    view = get_block(home, block)
    assert home is not None
    if not 1 <= version <= view.version:
        raise InvalidError(loc="body.version", allowed=f"1 to {view.version}")
    rows = Event.objects.filter(thread=home, page=view.page_id, type__in=_WRITING)
    for row in rows.order_by("seq").iterator():
        if _get_version_number(log.to_recorded(row)) == version:
            found = _open_version(home, row)
            if found.text is None:
                raise PageErasedError
            return found
    raise PageErasedError


def _open_version(home: Thread, row: Event) -> BlockVersion:
    payload = texts.open_payload(home.subject, home.project_id, row)
    opened = None if payload is None else texts.build_text(row, payload, level=0)
    recorded = log.to_recorded(row)
    event = recorded.event
    assert isinstance(event, PageCreated | PageUpdated)
    return BlockVersion(
        version=_get_version_number(recorded),
        seq=row.seq,
        at=row.at,
        actor=row.actor,
        by=event.by,
        tokens=event.tokens or 0,
        name=event.name or event.page_id,
        renamed_from=event.renamed_from if isinstance(event, PageUpdated) else None,
        inserted=event.inserted if isinstance(event, PageUpdated) else None,
        **_build_texts(opened),
    )


def _get_version_number(recorded: RecordedEvent) -> int:
    event = recorded.event
    return event.version if isinstance(event, PageUpdated) else 1
