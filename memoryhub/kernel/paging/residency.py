"""Folds of paging events. Pure; needs no payload and no policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from rpds import HashTrieMap

from memoryhub.kernel.paging import (
    claim_uses,
    entries,
    prerequisites,
    recall_use,
    tiers,
)
from memoryhub.kernel.paging.eviction import groups
from memoryhub.kernel.state import page_events as events
from memoryhub.kernel.state.observing import Observation
from memoryhub.kernel.state.pages import PageEntry
from memoryhub.kernel.state.paging import (
    HISTORY_PAGES,
    REFAULT_TURNS,
    PagePart,
    Paging,
    Past,
    add_counts,
    list_items,
)
from memoryhub.kernel.state.state import ThreadState

Value = TypeVar("Value")
Pasts: TypeAlias = "HashTrieMap[str, Past]"


def apply_page_created(state: ThreadState, event: events.PageCreated) -> ThreadState:
    entry = entries.build_created_entry(
        event,
        thread=state.id,
        seq=state.seq + 1,
        clock=state.clock + 1,
        turn=state.turn_count,
    )
    if event.observed is not None:
        return _register_observation(state, entry, event.observed)
    paging = register_page(state, entry, mapped=event.mapped, displaced=event.displaced)
    return state._replace(paging=paging)


def _register_observation(
    state: ThreadState, entry: PageEntry, body: events.ObservedBody
) -> ThreadState:
    """Register an observation, which stands in no tier: it is in the log, or waits."""
    observing, paging = state.observing, state.paging
    covers = dict.fromkeys(body.covers or ())
    made = Observation(
        page_id=entry.page_id,
        begin=body.begin,
        end=body.end,
        tokens=body.shown,
        raw=body.raw,
        clock=entry.created_seq,
        covers=tuple(each for each in observing.log if each.page_id in covers),
    )
    observing = (
        observing.add_reflection(made) if covers else observing.add_observation(made)
    )
    observing = observing.add_host(body.host)
    tlb = paging.tlb.insert(entry, size=paging.settings.tlb_entries)
    paging = paging._replace(tlb=tlb, pages=paging.pages + 1)
    if observing.log != state.observing.log:
        paging = paging.set_log_tokens(observing.log_tokens)
    return state._replace(paging=paging, observing=observing)


def register_page(
    state: ThreadState, entry: PageEntry, *, mapped: bool, displaced: str | None
) -> Paging:
    """Register a new page: in the TLB uncounted, and in L0 or L1."""
    paging = state.paging
    tlb = paging.tlb.insert(entry, size=paging.settings.tlb_entries)
    paging = paging._replace(tlb=tlb, pages=paging.pages + 1)
    if mapped:
        return tiers.insert_frame(state, paging, entry, 0)
    return tiers.insert_hot(state, paging, entry, displaced)


def apply_page_updated(state: ThreadState, event: events.PageUpdated) -> ThreadState:
    paging = _count_lookup(state, event)
    entry = _find_entry(paging, event.page_id) or _build_carried_entry(state, event)
    if entry is None:
        return state._replace(paging=paging)
    after = entries.build_updated_entry(
        entry, event, thread=state.id, seq=state.seq + 1
    )
    paging = recall_use.forget_page(paging, event.page_id)
    paging = paging._replace(tlb=paging.tlb.write(after))
    return state._replace(paging=tiers.replace_entry(paging, after, state.clock + 1))


def apply_page_compressed(
    state: ThreadState, event: events.PageCompressed
) -> ThreadState:
    paging = state.paging
    seq = state.seq + 1
    if (held := paging.tlb.find(event.page_id)) is not None:
        after = entries.build_compressed_entry(held, event, thread=state.id, seq=seq)
        paging = paging._replace(tlb=paging.tlb.write(after))
    if (frame := paging.frames.get(event.page_id)) is not None:
        after = entries.build_compressed_entry(
            frame.entry, event, thread=state.id, seq=seq
        )
        frames = paging.frames.insert(event.page_id, frame._replace(entry=after))
        paging = paging._replace(frames=frames)
    if (hot := paging.hot.get(event.page_id)) is not None:
        after = entries.build_compressed_entry(
            hot.entry, event, thread=state.id, seq=seq
        )
        pages = paging.hot.insert(event.page_id, hot._replace(entry=after))
        paging = paging._replace(hot=pages)
    return state._replace(paging=paging)


def apply_page_mapped(state: ThreadState, event: events.PageMapped) -> ThreadState:
    paging = _count_lookup(state, event)
    entry = _get_resident_entry(paging, event.page_id) or _build_carried_entry(
        state, event
    )
    entry = entry or paging.tlb.find(event.page_id)
    assert entry is not None
    recalled = tiers.is_recalled(paging, entry, event.cause)
    paging = tiers.insert_frame(state, paging, entry, event.level, recalled=recalled)
    return state._replace(paging=_count_names(paging, "mapped"))


def apply_page_faulted(state: ThreadState, event: events.PageFaulted) -> ThreadState:
    paging = _count_lookup(state, event)
    entry = _get_resident_entry(paging, event.page_id) or _build_carried_entry(
        state, event
    )
    entry = entry or paging.tlb.find(event.page_id)
    assert entry is not None
    paging = recall_use.note_use(paging, event.page_id)
    paging = claim_uses.note_use(paging, entry, state.clock + 1)
    paging = _note_refault(
        state, prerequisites.note_read(paging, event.page_id), event.page_id
    )
    paging = _place_faulted(state, paging, entry, event)
    spent = paging.spent
    paging = paging._replace(
        spent=spent._replace(
            faults=spent.faults + 1, tokens=spent.tokens + event.tokens
        ),
        exchanges=paging.exchanges.fault(),
    )
    if event.call is not None:
        brought = (entry.page_id, entry.require_level(event.level).location)
        paging = paging._replace(calls=(*paging.calls, (event.call, brought)))
    names = (
        "faults",
        f"fault.reason.{event.reason}",
        f"fault.from.{event.tier_before}",
    )
    return state._replace(paging=_count_names(paging, *names))


def _place_faulted(
    state: ThreadState, paging: Paging, entry: PageEntry, event: events.PageFaulted
) -> Paging:
    if not event.promoted:
        if event.tier_after == "L1":
            paging = tiers.insert_hot(state, paging, entry, event.displaced)
        return tiers.note_reference(state, paging, event.page_id)
    parts, frame = _build_parts(state, event), paging.frames.get(event.page_id)
    # A shortened message is shown in full where it was said.
    spoken = frame is not None and not parts and groups.is_spoken(frame)
    return tiers.insert_frame(
        state, paging, entry, event.level, recalled=not spoken, parts=parts, moves=True
    )


def _build_parts(state: ThreadState, event: events.PageFaulted) -> tuple[PagePart, ...]:
    """Build the parts shown from now on, each with the seq of its fetch."""
    frame = state.paging.frames.get(event.page_id)
    been = {part[:2]: part for part in (frame.parts if frame else ())}
    new = (PagePart(*each)._replace(seq=state.clock + 1) for each in event.parts or ())
    return tuple(been.get(part[:2], part) for part in new)


def apply_fault_refused(state: ThreadState, event: events.FaultRefused) -> ThreadState:
    paging = _count_lookup(state, event)
    spent = paging.spent
    paging = paging._replace(spent=spent._replace(refusals=spent.refusals + 1))
    names = ("refused", f"refused.{event.refusal}")
    return state._replace(paging=_count_names(paging, *names))


def apply_page_referenced(
    state: ThreadState, event: events.PageReferenced
) -> ThreadState:
    paging = tiers.note_reference(state, _count_lookup(state, event), event.page_id)
    paging = recall_use.note_use(paging, event.page_id)
    paging = prerequisites.note_read(paging, event.page_id)
    entry = _find_entry(paging, event.page_id) or _build_carried_entry(state, event)
    paging = claim_uses.note_use(paging, entry, state.clock + 1)
    return state._replace(paging=_count_names(paging, "referenced"))


def apply_page_evicted(state: ThreadState, event: events.PageEvicted) -> ThreadState:
    paging = _count_lookup(state, event)
    if event.tier_before == "L1":
        hot = tiers.remove_page(paging.hot, event.page_id)
        return state._replace(paging=paging._replace(hot=hot))
    if event.hand is not None:
        paging = paging.move_hand(paging.frames[event.page_id])
    pages = [(event.page_id, event.displaced)]
    return state._replace(paging=_evict_frames(state, paging, pages, event.cause))


def _evict_frames(
    state: ThreadState,
    paging: Paging,
    pages: Sequence[tuple[str, str | None]],
    cause: str,
) -> Paging:
    """Move pages to the hot list, each with the page that it displaces there.

    All in one copy of the paging: an eviction run takes dozens of pages.
    """
    frames, hot, pins = paging.frames, paging.hot, paging.pins
    used, gone, history = paging.used, paging.evicted_tokens, paging.history
    for page_id, displaced in pages:
        frame = frames[page_id]
        used, gone = used - frame.tokens, gone + frame.tokens
        frames, pins = frames.remove(page_id), tiers.remove_page(pins, page_id)
        past = history.get(page_id)
        faulted = past.faulted_turn if past else None
        past = Past(faulted, state.turn_count, gone)
        history = _remember_past(history, page_id, past)
        hot = tiers.move_to_hot(state, hot, frame, displaced)
    counts = add_counts(paging.counts, ("evicted", f"evicted.{cause}"), by=len(pages))
    return paging._replace(
        frames=frames,
        used=used,
        pins=pins,
        evicted_tokens=gone,
        history=history,
        hot=hot,
        counts=counts,
    )


def apply_pages_evicted(state: ThreadState, event: events.PagesEvicted) -> ThreadState:
    if event.hands is not None:
        for each in event.split():
            state = apply_page_evicted(state, each)
        return state
    pages = event.list_displaced()
    return state._replace(paging=_evict_frames(state, state.paging, pages, event.cause))


def apply_page_lowered(state: ThreadState, event: events.PageLowered) -> ThreadState:
    paging = state.paging
    frame = paging.frames[event.page_id]
    after = frame._replace(
        level=event.level, tokens=event.tokens, cause_seq=state.clock + 1, parts=()
    )
    saved = frame.tokens - event.tokens
    paging = paging._replace(
        frames=paging.frames.insert(event.page_id, after),
        used=paging.used - saved,
        counts=add_counts(paging.counts, ("saved_tokens",), by=saved),
    )
    return state._replace(paging=_count_names(paging, "lowered"))


def apply_page_pinned(state: ThreadState, event: events.PagePinned) -> ThreadState:
    paging = _count_lookup(state, event)
    pins = paging.pins.insert(event.page_id, True)
    return state._replace(paging=paging._replace(pins=pins))


def apply_page_unpinned(state: ThreadState, event: events.PageUnpinned) -> ThreadState:
    paging = _count_lookup(state, event)
    pins = tiers.remove_page(paging.pins, event.page_id)
    return state._replace(paging=paging._replace(pins=pins))


def apply_page_deleted(state: ThreadState, event: events.PageDeleted) -> ThreadState:
    paging = _count_lookup(state, event)
    page_id = event.page_id
    frame = paging.frames.get(page_id)
    paging = prerequisites.forget_page(recall_use.forget_page(paging, page_id), page_id)
    paging = claim_uses.forget_page(paging, page_id)
    paging = paging._replace(
        frames=tiers.remove_page(paging.frames, page_id),
        used=paging.used - (frame.tokens if frame else 0),
        hot=tiers.remove_page(paging.hot, page_id),
        pins=tiers.remove_page(paging.pins, page_id),
        tlb=paging.tlb.drop(page_id),
        history=tiers.remove_page(paging.history, page_id),
        thrashing=tiers.remove_page(paging.thrashing, page_id),
        calls=tuple(call for call in paging.calls if call[1][0] != page_id),
        pages=paging.pages - 1,
    )
    return state._replace(paging=paging)


def apply_tlb_invalidated(
    state: ThreadState, event: events.TlbInvalidated
) -> ThreadState:
    paging = state.paging
    tlb = paging.tlb
    for page_id in (
        [event.page_id] if event.page_id else list_in_tier(paging, event.tier or "")
    ):
        tlb = tlb.drop(page_id)
    return state._replace(paging=paging._replace(tlb=tlb))


def list_in_tier(paging: Paging, tier: str) -> list[str]:
    """List the pages of the TLB that stand in a tier."""
    return [
        entry.page_id
        for entry in paging.tlb.list_oldest_first()
        if (paging.find_tier(entry.page_id) or entry.home) == tier
    ]


def apply_tlb_flushed(state: ThreadState, event: events.TlbFlushed) -> ThreadState:
    paging = state.paging
    return state._replace(paging=paging._replace(tlb=paging.tlb.flush()))


def _count_lookup(
    state: ThreadState,
    event: events.LookUp | events.PageEvicted | events.FaultRefused,
) -> Paging:
    """Return the paging after the look-up that led to the event, if there was one."""
    paging = state.paging
    if event.lookup is None:
        return paging
    if event.lookup == "hit" and event.page_id is not None:
        return paging._replace(tlb=paging.tlb.record_hit(event.page_id))
    entry = _build_carried_entry(state, event)
    size = paging.settings.tlb_entries
    return paging._replace(tlb=paging.tlb.record_miss(entry, size=size))


def _build_carried_entry(
    state: ThreadState,
    event: events.LookUp | events.PageEvicted | events.FaultRefused,
) -> PageEntry | None:
    if event.entry is None or event.page_id is None:
        return None
    return entries.build_entry(event.page_id, event.entry, thread=state.id)


def _get_resident_entry(paging: Paging, page_id: str) -> PageEntry | None:
    """Return the entry in the page's frame or hot place; None without either."""
    page = paging.frames.get(page_id) or paging.hot.get(page_id)
    return None if page is None else page.entry


def _find_entry(paging: Paging, page_id: str) -> PageEntry | None:
    return paging.tlb.find(page_id) or _get_resident_entry(paging, page_id)


def _note_refault(state: ThreadState, paging: Paging, page_id: str) -> Paging:
    """Note the fault in the page's history, and count it if it came too soon."""
    turn = state.turn_count
    past = paging.history.get(page_id, Past())
    after = paging._replace(
        history=_remember_past(
            paging.history, page_id, past._replace(faulted_turn=turn)
        ),
    )
    times = [at for at in (past.faulted_turn, past.evicted_turn) if at is not None]
    if not times or turn - max(times) > REFAULT_TURNS:
        return after
    earlier = tuple(each for each in paging.refaults if each[0] != turn)
    this = sum(n for at, n in paging.refaults if at == turn)
    after = after._replace(refaults=(*earlier, (turn, this + 1)))
    moved = paging.evicted_tokens - past.evicted_tokens
    gone = past.evicted_turn is not None and not past.back
    if gone and moved < paging.settings.usable:
        after = after._replace(thrashing=after.thrashing.insert(page_id, turn))
    return _count_names(after, "refaults")


def _remember_past(history: Pasts, page_id: str, past: Past) -> Pasts:
    """Put the page into the history; half of a full history is dropped first."""
    if page_id not in history and len(history) >= HISTORY_PAGES:
        # Half at once: finding the oldest page each time would cost a scan per page.
        order = sorted((past.last_turn, name) for name, past in list_items(history))
        for _, name in order[: HISTORY_PAGES // 2]:
            history = history.remove(name)
    return history.insert(page_id, past)


def _count_names(paging: Paging, *names: str) -> Paging:
    return paging._replace(counts=add_counts(paging.counts, names))
