"""Bookmarks of a thread, now or as of an event. Never writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from memoryhub.journal import texts
from memoryhub.kernel.memory.bookmarks import BOOKMARKS, Bookmark
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import ListBatch, ListScope
from memoryhub.queries.memory.slice_views import SliceDifferences, SliceView
from memoryhub.queries.replay.state_files import StateFile, build_record
from memoryhub.queries.replay.states import load_state


@dataclass(frozen=True, slots=True, kw_only=True)
class BookmarkLine:
    seq: int
    at: datetime
    slot: int
    #: None when it was erased.
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BookmarkRecord:
    """Bookmark of a thread: words at a message."""

    thread: UUID
    seq: int
    at: datetime
    slot: int
    text: str | None


def list_bookmarks(
    thread: Thread, *, seq: int | None = None, after: str | None = None, limit: int = 50
) -> ListBatch[BookmarkLine]:
    """Bookmarks in the order in which they were added. Two queries.

    `thread` comes with its subject. Raises BadCursorError.
    """
    listing = ListScope(
        name="bookmarks", project=thread.project_id, filters=[thread.id, seq]
    )
    state = load_state(thread, seq)
    found = BOOKMARKS.get_current(state)
    if after is not None:
        (last,) = listing.open(after)
        found = tuple(each for each in found if each.clock > last)
    batch = found[:limit]
    more = listing.seal([batch[-1].clock]) if len(found) > limit else None
    return ListBatch(items=_open_lines(thread, state, batch), next=more)


def _open_lines(
    thread: Thread, state: ThreadState, found: Sequence[Bookmark]
) -> tuple[BookmarkLine, ...]:
    """Return these bookmarks with their times and words. One query."""
    opened = texts.open_events(thread, state, [each.clock for each in found])
    return tuple(
        BookmarkLine(
            seq=state.to_seq(each.clock),
            at=opened[each.clock].at,
            slot=each.slot,
            text=(opened[each.clock].content or {}).get("text"),
        )
        for each in found
    )


def _iter_records(
    thread: Thread, state: ThreadState, now: datetime
) -> Iterator[BookmarkRecord]:
    for line in _open_lines(thread, state, BOOKMARKS.get_current(state)):
        yield build_record(BookmarkRecord, line, thread=thread.id)


def _list_differences(
    thread: Thread,
    state: ThreadState,
    before: tuple[Bookmark, ...],
    after: tuple[Bookmark, ...],
) -> SliceDifferences:
    added = tuple(state.to_seq(each.clock) for each in after if each not in before)
    return {"bookmarks_added": added}


STATES = StateFile(
    path="state/bookmarks.jsonl",
    record=BookmarkRecord,
    lines=_iter_records,
    needs=frozenset({"bookmark.added"}),
)
VIEW = SliceView(
    slice=BOOKMARKS,
    fields={"bookmarks_added": list[int]},
    example={"bookmarks_added": [51]},
    names=_list_differences,
    texts=lambda thread, state, before, after, found: found,
    newest=lambda thread, state, value, most: _open_lines(
        thread, state, value[-most:] if most else ()
    ),
)
