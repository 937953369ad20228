"""Residency: how each event of paging folds. Pure; needs no payload and no policy."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

from rpds import HashTrieMap

from memoryhub.kernel.paging import (
    entries,
    groups,
    prerequisites,
    recall_use,
    tiers,
)
from memoryhub.kernel.state import page_events as events
from memoryhub.kernel.state.observing import Observation
from memoryhub.kernel.state.pages import Entry
from memoryhub.kernel.state.paging import (
    HISTORY_PAGES,
    REFAULT_TURNS,
    PagePart,
    Paging,
    Past,
    counted,
    listed,
)
from memoryhub.kernel.state.state import ThreadState

Value = TypeVar("Value")
Pasts: TypeAlias = "HashTrieMap[str, Past]"


def created(state: ThreadState, event: events.PageCreated) -> ThreadState:
    entry = entries.created_entry(
        event,
        thread=state.id,
        seq=state.seq + 1,
        clock=state.clock + 1,
        turn=state.turn_count,
    )
    if event.observed is not None:
        return _observed(state, entry, event.observed)
    paging = registered(state, entry, mapped=event.mapped, displaced=event.displaced)
    return state._replace(paging=paging)


def _observed(
    state: ThreadState, entry: Entry, body: events.ObservedBody
) -> ThreadState:
    """An observation stands in no tier: it is in the log, or waits for that."""
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
    observing = observing.reflected(made) if covers else observing.observed(made)
    observing = observing.given_to(body.host)
    tlb = paging.tlb.insert(entry, size=paging.settings.tlb_entries)
    paging = paging._replace(tlb=tlb, pages=paging.pages + 1)
    if observing.log != state.observing.log:
        paging = paging.logging(observing.log_tokens)
    return state._replace(paging=paging, observing=observing)


def registered(
    state: ThreadState, entry: Entry, *, mapped: bool, displaced: str | None
) -> Paging:
    """Register a new page: in the TLB uncounted, and in L0 or L1."""
    paging = state.paging
    tlb = paging.tlb.insert(entry, size=paging.settings.tlb_entries)
    paging = paging._replace(tlb=tlb, pages=paging.pages + 1)
    if mapped:
        return tiers.framed(state, paging, entry, 0)
    return tiers.heated(state, paging, entry, displaced)


def updated(state: ThreadState, event: events.PageUpdated) -> ThreadState:
    paging = _looked_up(state, event)
    entry = _find_entry(paging, event.page_id) or _carried(state, event)
    if entry is None:
        return state._replace(paging=paging)
    after = entries.updated_entry(entry, event, thread=state.id, seq=state.seq + 1)
    paging = recall_use.without(paging, event.page_id)
    paging = paging._replace(tlb=paging.tlb.write(after))
    return state._replace(paging=tiers.rewritten(paging, after, state.clock + 1))


def compressed(state: ThreadState, event: events.PageCompressed) -> ThreadState:
    paging = state.paging
    seq = state.seq + 1
    if (held := paging.tlb.find(event.page_id)) is not None:
        after = entries.compressed_entry(held, event, thread=state.id, seq=seq)
        paging = paging._replace(tlb=paging.tlb.write(after))
    if (frame := paging.frames.get(event.page_id)) is not None:
        after = entries.compressed_entry(frame.entry, event, thread=state.id, seq=seq)
        frames = paging.frames.insert(event.page_id, frame._replace(entry=after))
        paging = paging._replace(frames=frames)
    if (hot := paging.hot.get(event.page_id)) is not None:
        after = entries.compressed_entry(hot.entry, event, thread=state.id, seq=seq)
        pages = paging.hot.insert(event.page_id, hot._replace(entry=after))
        paging = paging._replace(hot=pages)
    return state._replace(paging=paging)


def mapped(state: ThreadState, event: events.PageMapped) -> ThreadState:
    paging = _looked_up(state, event)
    entry = _resident(paging, event.page_id) or _carried(state, event)
    entry = entry or paging.tlb.find(event.page_id)
    assert entry is not None
    recalled = tiers.returns(paging, entry, event.cause)
    paging = tiers.framed(state, paging, entry, event.level, recalled=recalled)
    return state._replace(paging=_tallied(paging, "mapped"))


def faulted(state: ThreadState, event: events.PageFaulted) -> ThreadState:
    paging = _looked_up(state, event)
    entry = _resident(paging, event.page_id) or _carried(state, event)
    entry = entry or paging.tlb.find(event.page_id)
    assert entry is not None
    paging = recall_use.used(paging, event.page_id)
    paging = _refaulted(state, prerequisites.read(paging, event.page_id), event.page_id)
    paging = _brought(state, paging, entry, event)
    spent = paging.spent
    paging = paging._replace(
        spent=spent._replace(
            faults=spent.faults + 1, tokens=spent.tokens + event.tokens
        ),
        exchanges=paging.exchanges.fault(),
    )
    if event.call is not None:
        brought = (entry.page_id, entry.at(event.level).location)
        paging = paging._replace(calls=(*paging.calls, (event.call, brought)))
    names = (
        "faults",
        f"fault.reason.{event.reason}",
        f"fault.from.{event.tier_before}",
    )
    return state._replace(paging=_tallied(paging, *names))


def _brought(
    state: ThreadState, paging: Paging, entry: Entry, event: events.PageFaulted
) -> Paging:
    if not event.promoted:
        if event.tier_after == "L1":
            paging = tiers.heated(state, paging, entry, event.displaced)
        return tiers.touched(state, paging, event.page_id)
    parts, frame = _parts(state, event), paging.frames.get(event.page_id)
    # A message that was shortened is shown in full where it was said.
    spoken = frame is not None and not parts and groups.spoken(frame)
    return tiers.framed(
        state, paging, entry, event.level, recalled=not spoken, parts=parts, moves=True
    )


def _parts(state: ThreadState, event: events.PageFaulted) -> tuple[PagePart, ...]:
    """The parts that are shown then, each with the seq at which it was fetched."""
    frame = state.paging.frames.get(event.page_id)
    been = {part[:2]: part for part in (frame.parts if frame else ())}
    new = (PagePart(*each)._replace(seq=state.clock + 1) for each in event.parts or ())
    return tuple(been.get(part[:2], part) for part in new)


def fault_refused(state: ThreadState, event: events.FaultRefused) -> ThreadState:
    paging = _looked_up(state, event)
    spent = paging.spent
    paging = paging._replace(spent=spent._replace(refusals=spent.refusals + 1))
    names = ("refused", f"refused.{event.refusal}")
    return state._replace(paging=_tallied(paging, *names))


def referenced(state: ThreadState, event: events.PageReferenced) -> ThreadState:
    paging = tiers.touched(state, _looked_up(state, event), event.page_id)
    paging = recall_use.used(paging, event.page_id)
    paging = prerequisites.read(paging, event.page_id)
    return state._replace(paging=_tallied(paging, "referenced"))


def evicted(state: ThreadState, event: events.PageEvicted) -> ThreadState:
    paging = _looked_up(state, event)
    if event.tier_before == "L1":
        hot = tiers.without(paging.hot, event.page_id)
        return state._replace(paging=paging._replace(hot=hot))
    frame = paging.frames[event.page_id]
    past = paging.history.get(event.page_id, Past())
    gone = paging.evicted_tokens + frame.tokens
    past = past._replace(evicted_turn=state.turn_count, evicted_tokens=gone, back=False)
    paging = paging._replace(
        frames=paging.frames.remove(event.page_id),
        used=paging.used - frame.tokens,
        pins=tiers.without(paging.pins, event.page_id),
        evicted_tokens=gone,
        history=_remembered(paging, event.page_id, past),
    )
    paging = tiers.heated(state, paging, frame.entry, event.displaced, was=frame)
    names = ("evicted", f"evicted.{event.cause}")
    return state._replace(paging=_tallied(paging, *names))


def apply_pages_evicted(state: ThreadState, event: events.PagesEvicted) -> ThreadState:
    for each in event.split():
        state = evicted(state, each)
    return state


def lowered(state: ThreadState, event: events.PageLowered) -> ThreadState:
    paging = state.paging
    frame = paging.frames[event.page_id]
    after = frame._replace(
        level=event.level, tokens=event.tokens, cause_seq=state.clock + 1, parts=()
    )
    saved = frame.tokens - event.tokens
    paging = paging._replace(
        frames=paging.frames.insert(event.page_id, after),
        used=paging.used - saved,
        counts=counted(paging.counts, ("saved_tokens",), by=saved),
    )
    return state._replace(paging=_tallied(paging, "lowered"))


def pinned(state: ThreadState, event: events.PagePinned) -> ThreadState:
    paging = _looked_up(state, event)
    pins = paging.pins.insert(event.page_id, True)
    return state._replace(paging=paging._replace(pins=pins))


def unpinned(state: ThreadState, event: events.PageUnpinned) -> ThreadState:
    paging = _looked_up(state, event)
    pins = tiers.without(paging.pins, event.page_id)
    return state._replace(paging=paging._replace(pins=pins))


def deleted(state: ThreadState, event: events.PageDeleted) -> ThreadState:
    paging = _looked_up(state, event)
    page_id = event.page_id
    frame = paging.frames.get(page_id)
    paging = prerequisites.without(recall_use.without(paging, page_id), page_id)
    paging = paging._replace(
        frames=tiers.without(paging.frames, page_id),
        used=paging.used - (frame.tokens if frame else 0),
        hot=tiers.without(paging.hot, page_id),
        pins=tiers.without(paging.pins, page_id),
        tlb=paging.tlb.drop(page_id),
        history=tiers.without(paging.history, page_id),
        thrashing=tiers.without(paging.thrashing, page_id),
        calls=tuple(call for call in paging.calls if call[1][0] != page_id),
        pages=paging.pages - 1,
    )
    return state._replace(paging=paging)


def tlb_invalidated(state: ThreadState, event: events.TlbInvalidated) -> ThreadState:
    paging = state.paging
    tlb = paging.tlb
    for page_id in (
        [event.page_id] if event.page_id else in_tier(paging, event.tier or "")
    ):
        tlb = tlb.drop(page_id)
    return state._replace(paging=paging._replace(tlb=tlb))


def in_tier(paging: Paging, tier: str) -> list[str]:
    """Return the pages in the TLB that are shown in a tier."""
    return [
        entry.page_id
        for entry in paging.tlb.oldest_first()
        if (paging.tier(entry.page_id) or entry.home) == tier
    ]


def tlb_flushed(state: ThreadState, event: events.TlbFlushed) -> ThreadState:
    paging = state.paging
    return state._replace(paging=paging._replace(tlb=paging.tlb.flush()))


def _looked_up(
    state: ThreadState,
    event: events.LookUp | events.PageEvicted | events.FaultRefused,
) -> Paging:
    """The paging after the look-up that led to the event, if one did."""
    paging = state.paging
    if event.lookup is None:
        return paging
    if event.lookup == "hit" and event.page_id is not None:
        return paging._replace(tlb=paging.tlb.hit(event.page_id))
    entry = _carried(state, event)
    size = paging.settings.tlb_entries
    return paging._replace(tlb=paging.tlb.missed(entry, size=size))


def _carried(
    state: ThreadState,
    event: events.LookUp | events.PageEvicted | events.FaultRefused,
) -> Entry | None:
    if event.entry is None or event.page_id is None:
        return None
    return entries.entry_of(event.page_id, event.entry, thread=state.id)


def _resident(paging: Paging, page_id: str) -> Entry | None:
    """The entry that its frame or its place on the hot list holds."""
    page = paging.frames.get(page_id) or paging.hot.get(page_id)
    return None if page is None else page.entry


def _find_entry(paging: Paging, page_id: str) -> Entry | None:
    return paging.tlb.find(page_id) or _resident(paging, page_id)


def _refaulted(state: ThreadState, paging: Paging, page_id: str) -> Paging:
    """With the fault in the page's history, and counted if it came too soon."""
    turn = state.turn_count
    past = paging.history.get(page_id, Past())
    after = paging._replace(
        history=_remembered(paging, page_id, past._replace(faulted_turn=turn)),
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
    return _tallied(after, "refaults")


def _remembered(paging: Paging, page_id: str, past: Past) -> Pasts:
    """The history with this page in it; half of it goes when it is full."""
    history = paging.history
    if page_id not in history and len(history) >= HISTORY_PAGES:
        # Half at once: finding the oldest one by one would cost a scan each time.
        order = sorted((past.last_turn, name) for name, past in listed(history))
        for _, name in order[: HISTORY_PAGES // 2]:
            history = history.remove(name)
    return history.insert(page_id, past)


def _tallied(paging: Paging, *names: str) -> Paging:
    return paging._replace(counts=counted(paging.counts, names))
