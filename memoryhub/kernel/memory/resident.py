"""The working set as a checkpoint holds it, and how it comes back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from rpds import HashTrieMap

from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.memory.checkpoint_events import CheckpointRestored, RefreshedPage
from memoryhub.kernel.paging import entries, eviction, pins, weights
from memoryhub.kernel.state.pages import Entry
from memoryhub.kernel.state.paging import Frame, Hot, Paging
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Resident

Kept = TypeVar("Kept", Frame, Hot)


class _Now(NamedTuple):
    """What became of the pages that a checkpoint holds."""

    left_out: frozenset[str]
    #: Entries of those that have changed since.
    refreshed: Mapping[str, Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """The working set to come back, as an event tells it."""

    left_out: list[str]
    refreshed: list[RefreshedPage]
    #: Whether it is another than that of now.
    any: bool


def of(paging: Paging) -> Resident:
    """The working set of now; nothing is copied."""
    return Resident(paging.frames, paging.hot, paging.pins)


def returning(state: ThreadState, resident: Resident, pages: PageTable) -> Return:
    """What of a checkpoint's working set can come back, with the settings of now.

    At most one look for pages beyond the state. Raises PinBudgetError when its pins
    hold more than they may.
    """
    now = _now(state.paging, resident, pages)
    after = _restored(state, resident, now)
    pins.require_share(after)
    return Return(
        left_out=sorted(now.left_out),
        refreshed=[
            RefreshedPage(
                page_id=page_id, entry=entries.entry_body(entry, thread=state.id)
            )
            for page_id, entry in sorted(now.refreshed.items())
        ],
        any=_places(of(after)) != _places(of(state.paging)),
    )


def _now(paging: Paging, resident: Resident, pages: PageTable) -> _Now:
    held: dict[str, Entry] = {
        page_id: page.entry
        for kept in (resident.hot, resident.frames)
        for page_id, page in kept.items()
    }
    current = {page_id: _current(paging, page_id) for page_id in held}
    unknown = sorted(page_id for page_id, entry in current.items() if entry is None)
    current |= pages.entries(unknown)
    return _Now(
        left_out=frozenset(each for each in held if current.get(each) is None),
        refreshed={
            page_id: entry
            for page_id, entry in current.items()
            if entry is not None and entry != held[page_id]
        },
    )


def _current(paging: Paging, page_id: str) -> Entry | None:
    """The entry, if it need not be looked up."""
    page = paging.frames.get(page_id) or paging.hot.get(page_id)
    return page.entry if page else paging.tlb.find(page_id)


def _places(resident: Resident) -> tuple[object, ...]:
    """What of a working set counts as being the same one."""
    frames = {name: (f.level, f.mapped_seq) for name, f in resident.frames.items()}
    return frames, {*resident.hot}, {*resident.pins}


def returned(
    state: ThreadState, resident: Resident, event: CheckpointRestored
) -> Paging:
    """The paging with that working set back, and nothing in the TLB."""
    refreshed = {
        each.page_id: entries.entry_of(each.page_id, each.entry, thread=state.id)
        for each in event.refreshed
    }
    now = _Now(left_out=frozenset(event.left_out), refreshed=refreshed)
    return _restored(state, resident, now)


def _restored(state: ThreadState, resident: Resident, now: _Now) -> Paging:
    paging, clock = state.paging, state.clock + 1
    frames = {
        name: _reframed(frame, now.refreshed.get(name, frame.entry), clock)
        for name, frame in _staying(resident.frames, now).items()
    }
    hot = {
        name: page._replace(entry=now.refreshed.get(name, page.entry))
        for name, page in _staying(resident.hot, now).items()
    }
    held = {name: True for name in resident.pins if name in frames}
    return paging._replace(
        frames=HashTrieMap(frames),
        used=sum(frame.tokens for frame in frames.values()),
        hot=HashTrieMap(hot),
        pins=HashTrieMap(held),
        tlb=paging.tlb.flush(),
    )


def _staying(kept: HashTrieMap[str, Kept], now: _Now) -> dict[str, Kept]:
    return {name: page for name, page in kept.items() if name not in now.left_out}


def _reframed(frame: Frame, entry: Entry, clock: int) -> Frame:
    """The frame with the entry of now, at a level that it still has."""
    same = entry.version == frame.entry.version
    level = entry.at_most(frame.level if same else 0)
    parts = frame.parts if same else ()
    tokens = weights.weight(entry, level, recalled=frame.recalled)
    if parts:
        tokens = frame.tokens
    return frame._replace(
        entry=entry, level=level, tokens=tokens, cause_seq=clock, parts=parts
    )


def fit(decision: Decision) -> None:
    """Let go of what the settings of now have no room for."""
    eviction.shrink(decision, cause="restore")
