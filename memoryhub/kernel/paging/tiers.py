"""Tiers: how a page comes into the working set, stays there, and becomes hot. Pure.

Each function gives the paging that there is then; none of them knows of events.
"""

from __future__ import annotations

from typing import TypeVar

from rpds import HashTrieMap

from memoryhub.kernel.paging import weights
from memoryhub.kernel.state.pages import Entry
from memoryhub.kernel.state.paging import Frame, Hot, PagePart, Paging, Past
from memoryhub.kernel.state.state import ThreadState

Value = TypeVar("Value")
#: Why a slot is mapped that stands where it was said.
_AS_APPENDED = ("append", "turn")


def returns(paging: Paging, entry: Entry, cause: str) -> bool:
    """Return whether a page that is mapped for this cause comes out of memory.

    Then it is no message any more, but what a call has brought.
    """
    if entry.page_id in paging.frames:
        return False
    return entry.slot is not None and cause not in _AS_APPENDED


def framed(
    state: ThreadState,
    paging: Paging,
    entry: Entry,
    level: int,
    *,
    recalled: bool = False,
    parts: tuple[PagePart, ...] = (),
    moves: bool = False,
) -> Paging:
    """Map the page at that level; one that is mapped keeps its place.

    Unless it `moves` to the call that has fetched it.
    """
    before, moves = paging.frames.get(entry.page_id), moves and recalled
    recalled = recalled or bool(before and before.recalled)
    weight = weights.weight(entry, level, recalled=recalled)
    frame = _frame(state, entry, before or paging.hot.get(entry.page_id))
    if before is not None and not moves:
        at, joined = before.mapped_seq, before.joined_seq
        frame = frame._replace(mapped_seq=at, joined_seq=joined)
    tokens = sum(part.cost for part in parts) or weight
    frame = frame._replace(level=level, tokens=tokens, recalled=recalled, parts=parts)
    return paging._replace(
        frames=paging.frames.insert(entry.page_id, frame),
        used=paging.used + tokens - (before.tokens if before else 0),
        hot=without(paging.hot, entry.page_id),
        history=paging.history if before else _back(paging, entry.page_id),
    )


def _frame(state: ThreadState, entry: Entry, been: Frame | Hot | None) -> Frame:
    """A frame at FULL that begins now, of a page that was there before or not."""
    clock = state.clock + 1
    return Frame(
        entry=entry,
        level=0,
        tokens=0,
        mapped_seq=clock,
        referenced_seq=clock,
        referenced_turn=state.turn_count,
        references=been.references + 1 if been else 1,
        recalled=False,
        cause_seq=clock,
    )


def _back(paging: Paging, page_id: str) -> HashTrieMap[str, Past]:
    """The history with the page mapped again, if it went before."""
    past = paging.history.get(page_id)
    if past is None:
        return paging.history
    return paging.history.insert(page_id, past._replace(back=True))


def heated(
    state: ThreadState,
    paging: Paging,
    entry: Entry,
    displaced: str | None,
    *,
    was: Frame | None = None,
) -> Paging:
    """Put the page on the hot list, in the place of the one it pushed out."""
    before = paging.hot.get(entry.page_id)
    kept = was or before
    hot = without(paging.hot, displaced) if displaced else paging.hot
    page = Hot(
        entry=entry,
        referenced_seq=kept.referenced_seq if kept else state.clock + 1,
        referenced_turn=kept.referenced_turn if kept else state.turn_count,
        references=kept.references if kept else 0,
        since_seq=state.clock + 1,
    )
    return paging._replace(hot=hot.insert(entry.page_id, page))


def rewritten(paging: Paging, entry: Entry, clock: int) -> Paging:
    """Put the entry in the page's frame or hot place; a new version is at FULL."""
    if (frame := paging.frames.get(entry.page_id)) is not None:
        renewed = frame.entry.version != entry.version
        level = 0 if renewed else frame.level
        tokens = frame.tokens
        if renewed:
            tokens = weights.weight(entry, level, recalled=frame.recalled)
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


def touched(state: ThreadState, paging: Paging, page_id: str) -> Paging:
    """Note a reference to the page, if it is mapped or hot."""
    clock, turn = state.clock + 1, state.turn_count
    if (frame := paging.frames.get(page_id)) is not None:
        frame = frame._replace(
            referenced_seq=clock, referenced_turn=turn, references=frame.references + 1
        )
        return paging._replace(frames=paging.frames.insert(page_id, frame))
    if (hot := paging.hot.get(page_id)) is not None:
        hot = hot._replace(
            referenced_seq=clock, referenced_turn=turn, references=hot.references + 1
        )
        return paging._replace(hot=paging.hot.insert(page_id, hot))
    return paging


def without(pages: HashTrieMap[str, Value], page_id: str) -> HashTrieMap[str, Value]:
    return pages.remove(page_id) if page_id in pages else pages
