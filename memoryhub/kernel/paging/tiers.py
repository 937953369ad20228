"""Tiers: how a page enters the working set, stays there, and becomes hot. Pure.

Each function returns the changed paging; no function here knows of events.
"""

from __future__ import annotations

from typing import TypeVar

from rpds import HashTrieMap

from memoryhub.kernel.paging.eviction import weights
from memoryhub.kernel.state.pages import PageEntry
from memoryhub.kernel.state.paging import Frame, Hot, PagePart, Paging, Past
from memoryhub.kernel.state.state import ThreadState

Value = TypeVar("Value")
#: Causes by which a slot is mapped in the place where it was said.
_AS_APPENDED = ("append", "turn")


def is_recalled(paging: Paging, entry: PageEntry, cause: str) -> bool:
    """Return whether a page mapped for this cause comes out of memory.

    Such a page is no message any more, but the result of a call.
    """
    if entry.page_id in paging.frames:
        return False
    return entry.slot is not None and cause not in _AS_APPENDED


def insert_frame(
    state: ThreadState,
    paging: Paging,
    entry: PageEntry,
    level: int,
    *,
    recalled: bool = False,
    parts: tuple[PagePart, ...] = (),
    moves: bool = False,
) -> Paging:
    """Map the page at that level; a mapped page keeps its place.

    With `moves`, the page moves to the call that has fetched it.
    """
    page_id, clock = entry.page_id, state.clock + 1
    before, moves = paging.frames.get(page_id), moves and recalled
    been = before or paging.hot.get(page_id)
    stays = before if not moves else None
    recalled = recalled or bool(before and before.recalled)
    tokens = sum(part.cost for part in parts)
    frame = Frame(
        entry=entry,
        level=level,
        tokens=tokens or weights.weigh_page(entry, level, recalled=recalled),
        mapped_seq=stays.mapped_seq if stays else clock,
        referenced_seq=clock,
        referenced_turn=state.turn_count,
        references=been.references + 1 if been else 1,
        recalled=recalled,
        cause_seq=clock,
        joined_seq=stays.joined_seq if stays else 0,
        parts=parts,
        visited=before is not None and paging.settings.policy == "sieve",
    )
    return paging._replace(
        frames=paging.frames.insert(page_id, frame),
        used=paging.used + frame.tokens - (before.tokens if before else 0),
        hot=remove_page(paging.hot, page_id),
        history=paging.history if before else _mark_back(paging, page_id),
    )


def _mark_back(paging: Paging, page_id: str) -> HashTrieMap[str, Past]:
    """Return the history with the page marked as mapped again, if it had left."""
    past = paging.history.get(page_id)
    if past is None:
        return paging.history
    return paging.history.insert(page_id, past._replace(back=True))


def insert_hot(
    state: ThreadState, paging: Paging, entry: PageEntry, displaced: str | None
) -> Paging:
    """Put the page on the hot list, in the place of the page it displaced."""
    kept, clock = paging.hot.get(entry.page_id), state.clock + 1
    hot = remove_page(paging.hot, displaced) if displaced else paging.hot
    page = Hot(
        entry=entry,
        referenced_seq=kept.referenced_seq if kept else clock,
        referenced_turn=kept.referenced_turn if kept else state.turn_count,
        references=kept.references if kept else 0,
        since_seq=clock,
    )
    return paging._replace(hot=hot.insert(entry.page_id, page))


def move_to_hot(
    state: ThreadState, hot: HashTrieMap[str, Hot], frame: Frame, displaced: str | None
) -> HashTrieMap[str, Hot]:
    """Put the page of a frame on the hot list, in the place of the page displaced."""
    if displaced:
        hot = remove_page(hot, displaced)
    entry, seq, turn = frame.entry, frame.referenced_seq, frame.referenced_turn
    page = Hot(entry, seq, turn, frame.references, state.clock + 1)
    return hot.insert(entry.page_id, page)


def replace_entry(paging: Paging, entry: PageEntry, clock: int) -> Paging:
    """Put the entry in the page's frame or hot place; a new version is at FULL."""
    if (frame := paging.frames.get(entry.page_id)) is not None:
        renewed = frame.entry.version != entry.version
        level = 0 if renewed else frame.level
        tokens = frame.tokens
        if renewed:
            tokens = weights.weigh_page(entry, level, recalled=frame.recalled)
        after = frame._replace(
            entry=entry,
            level=level,
            tokens=tokens,
            cause_seq=clock if renewed else frame.cause_seq,
            parts=() if renewed else frame.parts,
        )
        return paging._replace(
            frames=paging.frames.insert(entry.page_id, after),
            used=paging.used + tokens - frame.tokens,
        )
    if (hot := paging.hot.get(entry.page_id)) is not None:
        return paging._replace(
            hot=paging.hot.insert(entry.page_id, hot._replace(entry=entry))
        )
    return paging


def note_reference(state: ThreadState, paging: Paging, page_id: str) -> Paging:
    """Note a reference to the page, if it is mapped or hot."""
    clock, turn = state.clock + 1, state.turn_count
    if (frame := paging.frames.get(page_id)) is not None:
        frame = frame._replace(
            referenced_seq=clock,
            referenced_turn=turn,
            references=frame.references + 1,
            visited=frame.visited or paging.settings.policy == "sieve",
        )
        return paging._replace(frames=paging.frames.insert(page_id, frame))
    if (hot := paging.hot.get(page_id)) is not None:
        hot = hot._replace(
            referenced_seq=clock, referenced_turn=turn, references=hot.references + 1
        )
        return paging._replace(hot=paging.hot.insert(page_id, hot))
    return paging


def remove_page(
    pages: HashTrieMap[str, Value], page_id: str
) -> HashTrieMap[str, Value]:
    return pages.remove(page_id) if page_id in pages else pages
