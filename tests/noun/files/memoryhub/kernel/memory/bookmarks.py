"""Bookmarks: words at a message, to find it again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from memoryhub.errors import InvalidError
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.memory.memory_commands import MemoryCommand
from memoryhub.kernel.parts import KernelPart
from memoryhub.kernel.slices import Measure, Slice
from memoryhub.kernel.state.bodies import Count, EventBody
from memoryhub.kernel.state.erased import ErasedPlaces
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text.padding import pad_size


class Bookmark(NamedTuple):
    """A bookmark; its words are the payload of its event."""

    clock: int
    #: Index of the message.
    slot: int
    bytes: int


class BookmarkAdded(EventBody):
    """Words were put at a message. Payload: the words."""

    event_type = "bookmark.added"
    sealed = True

    slot: Count
    bytes: Count


class BookmarksCleared(EventBody):
    """There are no bookmarks any more."""

    event_type = "bookmarks.cleared"

    count: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class AddBookmark(MemoryCommand):
    slot: int
    #: JSON text, UTF-8.
    text: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearBookmarks(MemoryCommand):
    pass


def add_bookmark(decision: Decision, command: AddBookmark, pages: PageTable) -> None:
    """Put words at a message. Raises InvalidError; emits bookmark.added."""
    if command.slot >= decision.state.slot_count:
        raise InvalidError(loc="slot")
    decision.emit(
        BookmarkAdded(slot=command.slot, bytes=pad_size(len(command.text))),
        b'{"text":' + command.text + b"}",
    )


def clear_bookmarks(
    decision: Decision, command: ClearBookmarks, pages: PageTable
) -> None:
    """Take all of them away. Emits bookmarks.cleared, or nothing without any."""
    if count := len(BOOKMARKS.get_current(decision.state)):
        decision.emit(BookmarksCleared(count=count))


def apply_bookmark_added(state: ThreadState, event: BookmarkAdded) -> ThreadState:
    new = Bookmark(state.clock + 1, event.slot, event.bytes)
    return BOOKMARKS.replace_value(state, (*BOOKMARKS.get_current(state), new))


def apply_bookmarks_cleared(state: ThreadState, event: BookmarksCleared) -> ThreadState:
    return BOOKMARKS.replace_value(state, ())


def _to_json(
    after: tuple[Bookmark, ...], before: tuple[Bookmark, ...]
) -> dict[str, Any]:
    return {"bookmarks": [[*each] for each in after]}


def _from_json(
    plain: Mapping[str, Any], before: tuple[Bookmark, ...]
) -> tuple[Bookmark, ...]:
    return tuple(Bookmark(*each) for each in plain["bookmarks"])


def _drop_gone(value: tuple[Bookmark, ...], gone: ErasedPlaces) -> tuple[Bookmark, ...]:
    stay = tuple(each for each in value if not gone.has_clock(each.clock))
    return value if len(stay) == len(value) else stay


BOOKMARKS: Slice[tuple[Bookmark, ...]] = Slice(
    name="bookmarks",
    empty=(),
    to_json=_to_json,
    from_json=_from_json,
    without=_drop_gone,
    measures={"bookmarks": Measure(read=len)},
    records=lambda value: value,
)
PART = KernelPart(
    commands={AddBookmark: add_bookmark, ClearBookmarks: clear_bookmarks},
    events={
        BookmarkAdded: apply_bookmark_added,
        BookmarksCleared: apply_bookmarks_cleared,
    },
    slice=BOOKMARKS,
)
