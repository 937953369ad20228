"""The working set in checkpoints: keeping and restoring it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from rpds import HashTrieMap

from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.memory.checkpoint_events import CheckpointRestored, RefreshedPage
from memoryhub.kernel.paging import entries
from memoryhub.kernel.paging.eviction import eviction, pins, weights
from memoryhub.kernel.state.pages import PageEntry
from memoryhub.kernel.state.paging import Frame, Hot, Paging
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Resident

Kept = TypeVar("Kept", Frame, Hot)


class _PageChanges(NamedTuple):
    """Changes since a checkpoint of the pages that the checkpoint holds."""

    left_out: frozenset[str]
    #: Current entries, by page id, of pages that have changed since.
    refreshed: Mapping[str, PageEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentReturn:
    """The working set to restore, in the form of the event's fields."""

    left_out: list[str]
    refreshed: list[RefreshedPage]
    #: Whether the working set differs from the current working set.
    any: bool


def build_resident(paging: Paging) -> Resident:
    """Build the checkpoint's part of the current working set, without copying."""
    return Resident(paging.frames, paging.hot, paging.pins)


def plan_return(
    state: ThreadState, resident: Resident, pages: PageTable
) -> ResidentReturn:
    """Plan the return of a checkpoint's working set under the current settings.

    Reads pages missing in the state with at most one query. Raises PinBudgetError when
    the checkpoint's pins exceed `pin_share`.
    """
    now = _find_page_changes(state.paging, resident, pages)
    after = _build_restored(state, resident, now)
    pins.require_share(after)
    return ResidentReturn(
        left_out=sorted(now.left_out),
        refreshed=[
            RefreshedPage(
                page_id=page_id, entry=entries.build_entry_body(entry, thread=state.id)
            )
            for page_id, entry in sorted(now.refreshed.items())
        ],
        any=_build_comparison_key(build_resident(after))
        != _build_comparison_key(build_resident(state.paging)),
    )


def _find_page_changes(
    paging: Paging, resident: Resident, pages: PageTable
) -> _PageChanges:
    held: dict[str, PageEntry] = {
        page_id: page.entry
        for kept in (resident.hot, resident.frames)
        for page_id, page in kept.items()
    }
    current = {page_id: _find_current_entry(paging, page_id) for page_id in held}
    unknown = sorted(page_id for page_id, entry in current.items() if entry is None)
    current |= pages.list_entries(unknown)
    return _PageChanges(
        left_out=frozenset(each for each in held if current.get(each) is None),
        refreshed={
            page_id: entry
            for page_id, entry in current.items()
            if entry is not None and entry != held[page_id]
        },
    )


def _find_current_entry(paging: Paging, page_id: str) -> PageEntry | None:
    """Find a page's current entry in the state; None if only its row has it."""
    page = paging.frames.get(page_id) or paging.hot.get(page_id)
    return page.entry if page else paging.tlb.find(page_id)


def _build_comparison_key(resident: Resident) -> tuple[object, ...]:
    """Build the key by which two working sets are compared."""
    frames = {name: (f.level, f.mapped_seq) for name, f in resident.frames.items()}
    return frames, {*resident.hot}, {*resident.pins}


def restore_paging(
    state: ThreadState, resident: Resident, event: CheckpointRestored
) -> Paging:
    """Return the paging state with the working set restored and an empty TLB."""
    refreshed = {
        each.page_id: entries.build_entry(each.page_id, each.entry, thread=state.id)
        for each in event.refreshed
    }
    now = _PageChanges(left_out=frozenset(event.left_out), refreshed=refreshed)
    return _build_restored(state, resident, now)


def _build_restored(
    state: ThreadState, resident: Resident, now: _PageChanges
) -> Paging:
    paging, clock = state.paging, state.clock + 1
    frames = {
        name: _refresh_frame(frame, now.refreshed.get(name, frame.entry), clock)
        for name, frame in _filter_staying(resident.frames, now).items()
    }
    hot = {
        name: page._replace(entry=now.refreshed.get(name, page.entry))
        for name, page in _filter_staying(resident.hot, now).items()
    }
    held = {name: True for name in resident.pins if name in frames}
    return paging._replace(
        frames=HashTrieMap(frames),
        used=sum(frame.tokens for frame in frames.values()),
        hot=HashTrieMap(hot),
        pins=HashTrieMap(held),
        tlb=paging.tlb.flush(),
    )


def _filter_staying(kept: HashTrieMap[str, Kept], now: _PageChanges) -> dict[str, Kept]:
    return {name: page for name, page in kept.items() if name not in now.left_out}


def _refresh_frame(frame: Frame, entry: PageEntry, clock: int) -> Frame:
    """Return a frame with its page's current entry, at a level that still exists."""
    same = entry.version == frame.entry.version
    level = entry.pick_level(frame.level if same else 0)
    parts = frame.parts if same else ()
    tokens = weights.weigh_page(entry, level, recalled=frame.recalled)
    if parts:
        tokens = frame.tokens
    return frame._replace(
        entry=entry, level=level, tokens=tokens, cause_seq=clock, parts=parts
    )


def fit(decision: Decision) -> None:
    """Evict pages for which the current settings have no room."""
    eviction.shrink(decision, cause="restore")
