"""Blocks of a subject: pages of its home thread, now or as of then. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from memoryhub.errors import InvalidError, PageErasedError, PageUnknownError
from memoryhub.journal.log import log
from memoryhub.journal.rows import statements
from memoryhub.journal.rows.page_rows import entry_of
from memoryhub.journal.rows.statements import PAGES_READ
from memoryhub.journal.writing import texts
from memoryhub.kernel.levels import block_lines
from memoryhub.kernel.levels.block_lines import Carried
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.tokens import EST
from memoryhub.kernel.replay import Recorded
from memoryhub.kernel.state.page_events import PageCreated, PageUpdated
from memoryhub.kernel.state.pages import BLOCK, MAX_BLOCK_BYTES, Entry
from memoryhub.models.events import Event
from memoryhub.models.pages import Page
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import pages
from memoryhub.queries.replay import states, tokenizers
from memoryhub.queries.threads.edits import Edit
from memoryhub.queries.threads.threads import names_of

#: Which of a home's pages its requests carry, in their order.
_CARRIED = (
    '"thread_id" = %s AND "type" = %s AND "deleted_seq" IS NULL ORDER BY "created_seq"'
)
_WRITING = (PageCreated.event_type, PageUpdated.event_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockView:
    """A block as it stands: its newest version, or the one of then."""

    block: str
    version: int
    #: Of the event in the home thread that has its text.
    seq: int
    #: None once it was erased.
    text: str | None
    #: What the model should keep in it.
    description: str
    read_only: bool
    tokens: int
    #: Of the text, UTF-8.
    bytes: int
    limit_bytes: int = MAX_BLOCK_BYTES

    @classmethod
    def from_entry(cls, entry: Entry, opened: Opened | None) -> BlockView:
        return cls(
            block=entry.page_id,
            version=entry.version,
            seq=entry.full.location.seq,
            tokens=entry.full.tokens,
            **_texts_of(opened),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of a block, and who wrote it when."""

    version: int
    seq: int
    at: datetime
    actor: str
    #: On whose account: of the model, or of a tool.
    by: str
    tokens: int
    text: str | None
    description: str
    read_only: bool
    bytes: int


def _texts_of(opened: Opened | None) -> dict[str, Any]:
    text = None if opened is None else opened.content["text"]
    return {
        "text": text,
        "description": "" if opened is None else opened.description,
        "read_only": opened is not None and opened.read_only,
        "bytes": len((text or "").encode()),
    }


def list_blocks(home: Thread, *, seq: int | None = None) -> list[BlockView]:
    """List the blocks of a home thread in order of creation, now or as of an event.

    At most eight queries, however many there are.
    """
    state = states.state_of(home, seq)
    return views(home, (e for e in pages.iter_entries(state) if e.type == BLOCK))


def count_blocks(home: Thread) -> int:
    """Count the blocks that are there now. One query."""
    return Page.objects.filter(thread=home, type=BLOCK, deleted_seq=None).count()


def views(home: Thread, entries: Iterable[Entry]) -> list[BlockView]:
    """Return blocks with their texts. Two queries."""
    found = [*entries]
    opened = texts.opened(home, [entry.full.location for entry in found])
    return [BlockView.from_entry(e, opened.get(e.full.location)) for e in found]


def list_carried(
    project: UUID, name: str, *, bound: UUID | None = None
) -> tuple[Carried, ...]:
    """Return what a thread's requests may carry of its subject's blocks, in order.

    One query for nobody's in particular, at most three where there are none, else
    seven. Nothing for a thread that is not there yet and nobody's in particular, nor
    for one that was set so.
    """
    meant = names_of(name, bound=bound)
    # A name that a bound key uses may be that of another subject's thread, too.
    subjects = [bound] if bound else statements.select_named_subjects(project, meant)
    homes = statements.select_homes(subjects) if subjects else []
    made = PAGES_READ.where(_CARRIED, homes[0], BLOCK) if homes else []
    if not made:
        return ()
    home = Thread.objects.select_related("subject").get(id=homes[0])
    own = Thread.objects.filter(
        project=project, name__in=meant, subject=home.subject_id
    )
    found = {thread.name: thread for thread in own}
    thread = next((found[each] for each in meant if each in found), None)
    count = (EST if thread is None else tokenizers.of(thread)).count
    places = [entry_of(row, ()).full.location for row in made]
    opened = texts.opened(home, places)
    there = [place for place in places if place in opened]
    return tuple(
        block_lines.carried(place, opened[place], count=count) for place in there
    )


def list_named(home: Thread, names: Iterable[str]) -> list[BlockView]:
    """Return those of these blocks that are there now. At most four queries each."""
    found = [pages.current_entry(home, name) for name in names]
    return views(home, (entry for entry in found if entry is not None))


def get_block(home: Thread | None, block: str, *, seq: int | None = None) -> BlockView:
    """Return one block, now or as of an event. A few queries.

    Raises PageUnknownError, PageErasedError for one that was deleted.
    """
    if home is None:
        raise PageUnknownError
    entry = None if seq is not None else pages.current_entry(home, block)
    entry = entry or pages.find_entry(states.state_of(home, seq), block)
    if entry.type != BLOCK:
        raise PageUnknownError
    (view,) = views(home, [entry])
    return view


def find_edit(home: Thread, seq: int) -> Edit | None:
    """Find the version of a block that an event wrote; None for anything else.

    None as well of a block that was deleted. Three queries.
    """
    rows = Event.objects.filter(thread=home, seq=seq, type__in=_WRITING)
    row = rows.only("seq", "type", "actor", "page").first() if home.home else None
    entry = pages.current_entry(home, row.page) if row and row.page else None
    if row is None or entry is None or entry.type != BLOCK:
        return None
    return Edit(
        seq=row.seq,
        actor=row.actor,
        standing=entry.full.location.seq == row.seq,
        block=row.page,
        final=row.type == PageCreated.event_type,
    )


def list_versions(
    home: Thread, block: str, *, seq: int | None = None, limit: int = 50
) -> Sequence[Version]:
    """List a block's newest versions, newest first, now or as of then. One query."""
    rows = Event.objects.filter(thread=home, page=block, type__in=_WRITING)
    if seq is not None:
        rows = rows.filter(seq__lte=seq)
    return [_version(home, row) for row in rows.order_by("-seq")[:limit]]


def get_version(home: Thread | None, block: str, version: int) -> Version:
    """Return a version of a block by its number. One query for each later one, at most.

    Raises PageUnknownError, InvalidError for a number that it never had, and
    PageErasedError for one whose text is gone.
    """
    newest = get_block(home, block).version
    assert home is not None
    if not 1 <= version <= newest:
        raise InvalidError(loc="body.version", allowed=f"1 to {newest}")
    rows = Event.objects.filter(thread=home, page=block, type__in=_WRITING)
    for row in rows.order_by("seq").iterator():
        if _number(log.recorded(row)) == version:
            found = _version(home, row)
            if found.text is None:
                raise PageErasedError
            return found
    raise PageErasedError


def _version(home: Thread, row: Event) -> Version:
    payload = log.open_payload(home.subject, home.project_id, row)
    opened = None if payload is None else texts.opened_text(row, payload, level=0)
    recorded = log.recorded(row)
    event = recorded.event
    assert isinstance(event, PageCreated | PageUpdated)
    return Version(
        version=_number(recorded),
        seq=row.seq,
        at=row.at,
        actor=row.actor,
        by=event.by,
        tokens=event.tokens or 0,
        **_texts_of(opened),
    )


def _number(recorded: Recorded) -> int:
    event = recorded.event
    return event.version if isinstance(event, PageUpdated) else 1
