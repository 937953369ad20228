"""Residency: how each event of paging folds. Pure; needs no payload and no policy."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

from rpds import HashTrieMap

from memoryhub.kernel import entries
from memoryhub.kernel import page_events as told
from memoryhub.kernel.pages import Entry
from memoryhub.kernel.paging import (
    HISTORY_PAGES,
    REFAULT_TURNS,
    Frame,
    Hot,
    Paging,
    Past,
    counted,
    listed,
)
from memoryhub.kernel.state import ThreadState

Value = TypeVar("Value")
Pasts: TypeAlias = "HashTrieMap[str, Past]"


def created(state: ThreadState, event: told.PageCreated) -> ThreadState:
    entry = entries.created_entry(
        event,
        thread=state.id,
        seq=state.seq + 1,
        clock=state.clock + 1,
        turn=state.turn_count,
    )
    paging = registered(state, entry, mapped=event.mapped, displaced=event.displaced)
    return state._replace(paging=paging)


def registered(
    state: ThreadState, entry: Entry, *, mapped: bool, displaced: str | None
) -> Paging:
    """A page that is new: into the TLB uncounted, and into L0 or L1."""
    paging = state.paging
    tlb = paging.tlb.insert(entry, size=paging.settings.tlb_entries)
    paging = paging._replace(tlb=tlb, pages=paging.pages + 1)
    if mapped:
        return _framed(state, paging, entry, 0)
    return _heated(state, paging, entry, displaced)


def updated(state: ThreadState, event: told.PageUpdated) -> ThreadState:
    paging = _looked_up(state, event)
    entry = _known(paging, event.page_id) or _carried(state, event)
    if entry is None:
        return state._replace(paging=paging)
    after = entries.updated_entry(entry, event, thread=state.id, seq=state.seq + 1)
    paging = paging._replace(tlb=paging.tlb.write(after))
    return state._replace(paging=_rewritten(paging, after, state.clock + 1))


def compressed(state: ThreadState, event: told.PageCompressed) -> ThreadState:
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


def mapped(state: ThreadState, event: told.PageMapped) -> ThreadState:
    paging = _looked_up(state, event)
    entry = _resident(paging, event.page_id) or _carried(state, event)
    entry = entry or paging.tlb.find(event.page_id)
    assert entry is not None
    paging = _framed(state, paging, entry, event.level)
    return state._replace(paging=_tallied(paging, "mapped"))


def faulted(state: ThreadState, event: told.PageFaulted) -> ThreadState:
    paging = _looked_up(state, event)
    entry = _resident(paging, event.page_id) or _carried(state, event)
    entry = entry or paging.tlb.find(event.page_id)
    assert entry is not None
    paging = _refaulted(state, paging, event.page_id)
    if event.promoted:
        paging = _framed(state, paging, entry, event.level, recalled=True)
    elif event.tier_after == "L1":
        paging = _heated(state, paging, entry, event.displaced)
    if not event.promoted:
        paging = _touched(state, paging, event.page_id)
    spent = paging.spent
    paging = paging._replace(
        spent=spent._replace(
            faults=spent.faults + 1, tokens=spent.tokens + event.tokens
        ),
    )
    names = (
        "faults",
        f"fault.reason.{event.reason}",
        f"fault.from.{event.tier_before}",
    )
    return state._replace(paging=_tallied(paging, *names))


def fault_refused(state: ThreadState, event: told.FaultRefused) -> ThreadState:
    paging = _looked_up(state, event)
    spent = paging.spent
    paging = paging._replace(spent=spent._replace(refusals=spent.refusals + 1))
    names = ("refused", f"refused.{event.refusal}")
    return state._replace(paging=_tallied(paging, *names))


def referenced(state: ThreadState, event: told.PageReferenced) -> ThreadState:
    paging = _touched(state, _looked_up(state, event), event.page_id)
    return state._replace(paging=_tallied(paging, "referenced"))


def _touched(state: ThreadState, paging: Paging, page_id: str) -> Paging:
    """With a reference to the page, if it is mapped or hot."""
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


def evicted(state: ThreadState, event: told.PageEvicted) -> ThreadState:
    paging = _looked_up(state, event)
    if event.tier_before == "L1":
        hot = _without(paging.hot, event.page_id)
        return state._replace(paging=paging._replace(hot=hot))
    frame = paging.frames[event.page_id]
    past = paging.history.get(event.page_id, Past())
    gone = paging.evicted_tokens + frame.tokens
    past = past._replace(evicted_turn=state.turn_count, evicted_tokens=gone, back=False)
    paging = paging._replace(
        frames=paging.frames.remove(event.page_id),
        used=paging.used - frame.tokens,
        pins=_without(paging.pins, event.page_id),
        evicted_tokens=gone,
        history=_remembered(paging, event.page_id, past),
    )
    paging = _heated(state, paging, frame.entry, event.displaced, was=frame)
    names = ("evicted", f"evicted.{event.cause}")
    return state._replace(paging=_tallied(paging, *names))


def lowered(state: ThreadState, event: told.PageLowered) -> ThreadState:
    paging = state.paging
    frame = paging.frames[event.page_id]
    after = frame._replace(
        level=event.level, tokens=event.tokens, cause_seq=state.clock + 1
    )
    saved = frame.tokens - event.tokens
    paging = paging._replace(
        frames=paging.frames.insert(event.page_id, after),
        used=paging.used - saved,
        counts=counted(paging.counts, ("saved_tokens",), by=saved),
    )
    return state._replace(paging=_tallied(paging, "lowered"))


def pinned(state: ThreadState, event: told.PagePinned) -> ThreadState:
    paging = _looked_up(state, event)
    pins = paging.pins.insert(event.page_id, True)
    return state._replace(paging=paging._replace(pins=pins))


def unpinned(state: ThreadState, event: told.PageUnpinned) -> ThreadState:
    paging = _looked_up(state, event)
    pins = _without(paging.pins, event.page_id)
    return state._replace(paging=paging._replace(pins=pins))


def deleted(state: ThreadState, event: told.PageDeleted) -> ThreadState:
    paging = _looked_up(state, event)
    page_id = event.page_id
    frame = paging.frames.get(page_id)
    paging = paging._replace(
        frames=_without(paging.frames, page_id),
        used=paging.used - (frame.tokens if frame else 0),
        hot=_without(paging.hot, page_id),
        pins=_without(paging.pins, page_id),
        tlb=paging.tlb.drop(page_id),
        history=_without(paging.history, page_id),
        thrashing=_without(paging.thrashing, page_id),
        pages=paging.pages - 1,
    )
    return state._replace(paging=paging)


def tlb_invalidated(state: ThreadState, event: told.TlbInvalidated) -> ThreadState:
    paging = state.paging
    tlb = paging.tlb
    for page_id in (
        [event.page_id] if event.page_id else in_tier(paging, event.tier or "")
    ):
        tlb = tlb.drop(page_id)
    return state._replace(paging=paging._replace(tlb=tlb))


def in_tier(paging: Paging, tier: str) -> list[str]:
    """Pages in the TLB that are shown in a tier."""
    return [
        entry.page_id
        for entry in paging.tlb.oldest_first()
        if (paging.tier(entry.page_id) or entry.home) == tier
    ]


def tlb_flushed(state: ThreadState, event: told.TlbFlushed) -> ThreadState:
    paging = state.paging
    return state._replace(paging=paging._replace(tlb=paging.tlb.flush()))


def _looked_up(
    state: ThreadState,
    event: told.LookUp | told.PageEvicted | told.FaultRefused,
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
    event: told.LookUp | told.PageEvicted | told.FaultRefused,
) -> Entry | None:
    if event.entry is None or event.page_id is None:
        return None
    return entries.entry_of(event.page_id, event.entry, thread=state.id)


def _resident(paging: Paging, page_id: str) -> Entry | None:
    """The entry that its frame or its place on the hot list holds."""
    page = paging.frames.get(page_id) or paging.hot.get(page_id)
    return None if page is None else page.entry


def _known(paging: Paging, page_id: str) -> Entry | None:
    return paging.tlb.find(page_id) or _resident(paging, page_id)


def _framed(
    state: ThreadState,
    paging: Paging,
    entry: Entry,
    level: int,
    *,
    recalled: bool = False,
) -> Paging:
    """With the page mapped at that level; one that is mapped keeps its place."""
    clock, turn = state.clock + 1, state.turn_count
    before = paging.frames.get(entry.page_id)
    hot = paging.hot.get(entry.page_id)
    been, tokens = before or hot, entry.at(level).cost
    frame = Frame(
        entry=entry,
        level=level,
        tokens=tokens,
        mapped_seq=before.mapped_seq if before else clock,
        referenced_seq=clock,
        referenced_turn=turn,
        references=been.references + 1 if been else 1,
        recalled=recalled or bool(before and before.recalled),
        cause_seq=clock,
        joined_seq=before.joined_seq if before else 0,
    )
    return paging._replace(
        frames=paging.frames.insert(entry.page_id, frame),
        used=paging.used + tokens - (before.tokens if before else 0),
        hot=_without(paging.hot, entry.page_id),
        history=paging.history if before else _back(paging, entry.page_id),
    )


def _back(paging: Paging, page_id: str) -> Pasts:
    """The history with the page mapped again, if it went before."""
    past = paging.history.get(page_id)
    if past is None:
        return paging.history
    return paging.history.insert(page_id, past._replace(back=True))


def _heated(
    state: ThreadState,
    paging: Paging,
    entry: Entry,
    displaced: str | None,
    *,
    was: Frame | None = None,
) -> Paging:
    """With the page on the hot list, in the place of the one it pushed out."""
    before = paging.hot.get(entry.page_id)
    kept = was or before
    hot = _without(paging.hot, displaced) if displaced else paging.hot
    page = Hot(
        entry=entry,
        referenced_seq=kept.referenced_seq if kept else state.clock + 1,
        referenced_turn=kept.referenced_turn if kept else state.turn_count,
        references=kept.references if kept else 0,
        since_seq=state.clock + 1,
    )
    return paging._replace(hot=hot.insert(entry.page_id, page))


def _rewritten(paging: Paging, entry: Entry, clock: int) -> Paging:
    """With the entry in the page's frame or hot place; a new version is at FULL."""
    if (frame := paging.frames.get(entry.page_id)) is not None:
        renewed = frame.entry.version != entry.version
        level = 0 if renewed else frame.level
        tokens = entry.at(level).cost
        after = frame._replace(
            entry=entry,
            level=level,
            tokens=tokens,
            cause_seq=clock if renewed else frame.cause_seq,
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


def _without(pages: HashTrieMap[str, Value], page_id: str) -> HashTrieMap[str, Value]:
    return pages.remove(page_id) if page_id in pages else pages
