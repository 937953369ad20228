"""The working set: what is mapped, what leaves for it, by the thread's policy. Pure.

Verbs decide; how events fold is in `residency`.
"""

from __future__ import annotations

from operator import attrgetter

from memoryhub.errors import NoRoomError, PinnedByLogError, PinnedError
from memoryhub.kernel.commands import MadeLevels
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.paging import eviction, groups, pins, precedence, weights
from memoryhub.kernel.paging.entries import compressed_entry, entry_body, place_body
from memoryhub.kernel.paging.lookups import Found, emit_lookup, find_live
from memoryhub.kernel.paging.page_commands import (
    EvictPage,
    MapPage,
    PinPage,
    ReferencePages,
    UnpinPage,
)
from memoryhub.kernel.paging.precedence import Precedence
from memoryhub.kernel.paging.tiers import returns
from memoryhub.kernel.state.page_events import (
    By,
    Cause,
    EntryBody,
    PageCompressed,
    PageMapped,
    PagePinned,
    PageReferenced,
    PageUnpinned,
)
from memoryhub.kernel.state.pages import Entry, LevelEntry
from memoryhub.kernel.state.paging import Paging, values


def map_page(decision: Decision, command: MapPage, pages: PageTable) -> None:
    """Map a page at a level. Emits page.mapped; nothing when it stands so already.

    Raises NoRoomError when it fits at no level even after an eviction run, PinnedError
    when that would lower a pinned page, PinBudgetError when it would outgrow its pin.
    """
    _, found = find_live(decision, command.page_id, pages)
    found = write_made(decision, found, command.made, by=command.by)
    entry = found.live
    level = entry.at_most(command.level)
    frame = decision.paging.frames.get(entry.page_id)
    if frame and level > frame.level and entry.page_id in pins.pinned(decision.state):
        raise PinnedError
    if pins.held(decision.paging, entry.page_id):
        more = weigh(decision, entry, level) - (frame.tokens if frame else 0)
        pins.require_share(decision.paging, more=more)
    if not map_entry(decision, entry, level, found=found, by=command.by):
        raise NoRoomError


def map_entry(
    decision: Decision,
    entry: Entry,
    level: int,
    *,
    found: Found | None = None,
    cause: Cause = "command",
    by: By = "system",
    own: Precedence | None = None,
) -> bool:
    """Give the page a frame at `level` or the most faithful below that fits.

    Emits page.mapped after what leaves for it; nothing when it stands so already, or as
    well as it can. False when it can't be mapped.
    """
    fits = fitting(decision, entry, level, own=own, cause=cause)
    if _is_mapped_best(decision, entry, level, fits):
        return True
    weighs = 0 if fits is None else weigh(decision, entry, fits, cause=cause)
    if fits is None or not make_room(decision, entry.page_id, weighs, own=own):
        return False
    decision.emit(
        PageMapped(
            turn=decision.turn,
            cause=cause,
            by=by,
            page_id=entry.page_id,
            level=fits,  # type: ignore[arg-type]  # 0 to 3
            tokens=weighs,
            tier_before=decision.paging.tier(entry.page_id) or entry.home,  # type: ignore[arg-type]  # closed words
            lookup=found.lookup if found else None,
            entry=found.read if found and found.read else _unheld(decision, entry),
        )
    )
    return True


def _is_mapped_best(
    decision: Decision, entry: Entry, level: int, fits: int | None
) -> bool:
    """Whether the page is mapped as faithfully as it can be, up to that level."""
    frame = decision.paging.frames.get(entry.page_id)
    if frame is None or frame.parts:
        return False
    return level <= frame.level and (fits is None or fits >= frame.level)


def _unheld(decision: Decision, entry: Entry) -> EntryBody | None:
    """The entry to carry when the state holds none: nobody looked the page up."""
    paging = decision.paging
    if paging.tier(entry.page_id) or paging.tlb.find(entry.page_id):
        return None
    return entry_body(entry, thread=decision.state.id)


def with_made(entry: Entry, made: MadeLevels | None) -> Entry:
    """Return the entry with those levels, as far as they are new to it."""
    if made is None or (made.page_id, made.version) != (entry.page_id, entry.version):
        return entry
    if any(entry.levels[level.level] for level in made.levels):
        return entry
    levels = list(entry.levels)
    for each in made.levels:
        place = entry.full.location._replace(level=each.level)
        levels[each.level] = LevelEntry(place, each.tokens, each.cost)
    full, reduced, abstract, reference = levels
    return entry._replace(levels=(full, reduced, abstract, reference))


def write_made(
    decision: Decision, found: Found, made: MadeLevels | None, *, by: By = "system"
) -> Found:
    """Emit the levels made beforehand that are new to a page, and return it.

    Emits page.compressed. Levels of another version, or that somebody else made
    meanwhile, are left out.
    """
    entry = found.live
    if made is None or with_made(entry, made) == entry:
        return found
    event = PageCompressed(
        turn=decision.turn,
        by=by,
        page_id=entry.page_id,
        version=entry.version,
        type=entry.type,
        modality=entry.modality,
        role=entry.role,
        slot=entry.slot,
        producer=made.producer,
        bytes=len(made.payload),
        levels=list(made.levels),
        source=place_body(entry.full.location, decision.state.id),
    )
    thread, seq = decision.state.id, decision.state.seq + 1
    decision.emit(event, made.payload)
    return found.renewed(
        compressed_entry(entry, event, thread=thread, seq=seq), thread=thread
    )


def fitting(
    decision: Decision,
    entry: Entry,
    level: int,
    *,
    own: Precedence | None = None,
    cause: Cause = "command",
) -> int | None:
    """Return the most faithful existing level from `level` on that can ever fit."""
    for each in range(level, 4):
        if entry.levels[each] is None:
            continue
        if allows(
            decision, entry.page_id, weigh(decision, entry, each, cause=cause), own
        ):
            return each
    return None


def weigh(
    decision: Decision, entry: Entry, level: int, *, cause: Cause = "command"
) -> int:
    """Return what a page weighs that is mapped, or would be for this cause."""
    frame = decision.paging.frames.get(entry.page_id)
    recalled = frame.recalled if frame else returns(decision.paging, entry, cause)
    return weights.weight(entry, level, recalled=recalled)


def make_room(
    decision: Decision, page_id: str, cost: int, *, own: Precedence | None = None
) -> bool:
    """Evict what must go for `cost`, and return whether the page then fits.

    What the exchange needs comes with its `own` precedence, by which all below it
    leaves if it must.
    """
    paging = decision.paging
    if not allows(decision, page_id, cost, own):
        return False
    more = cost - _held(paging, page_id)
    if pins.held(paging, page_id) and not pins.shared(paging, more=more):
        return False
    eviction.free_up(decision, more, cause="pressure", sparing=page_id)
    if own is not None and not _has_room(decision, more):
        for name in precedence.below(decision.state, own):
            if name != page_id and name in decision.paging.frames:
                eviction.evict(decision, decision.paging.frames[name], cause="pressure")
            if _has_room(decision, more):
                break
    return _has_room(decision, more)


def _has_room(decision: Decision, more: int) -> bool:
    return decision.paging.used + more <= decision.paging.settings.usable


def _held(paging: Paging, page_id: str) -> int:
    frame = paging.frames.get(page_id)
    return frame.tokens if frame else 0


def allows(decision: Decision, page_id: str, cost: int, own: Precedence | None) -> bool:
    """Return whether a level of the page may weigh so much.

    What there is room for already asks for nobody's place, so nobody is ranked.
    """
    if own is None:
        return cost <= pins.largest(decision.paging, page_id)
    if _has_room(decision, cost - _held(decision.paging, page_id)):
        return True
    return cost <= precedence.room(decision.state, page_id, own)


def settle(decision: Decision) -> None:
    """Bring what an exchange took beyond its share down to it, now that it is over.

    Emits page.evicted for calls of ours that brought nothing, and what answered them;
    page.lowered for each page that has a level within its share, else page.evicted.
    """
    for index in decision.paging.asking:
        eviction.evict_answered(decision, index)
    least = decision.paging.settings.largest
    # Seldom any: what follows looks at the whole working set.
    beyond = [each for each in values(decision.paging.frames) if each.tokens > least]
    pinned = pins.pinned(decision.state) if beyond else {}
    for frame in sorted(beyond, key=attrgetter("mapped_seq")):
        if frame.page_id not in decision.paging.frames:
            continue
        largest = pins.largest(decision.paging, frame.page_id)
        if frame.tokens <= largest or pinned.get(frame.page_id) in (
            "explicit",
            "system",
        ):
            continue
        fits = fitting(decision, frame.entry, frame.level)
        calls = groups.calls(decision.paging, frame, slots=decision.state.slot_count)
        if fits is None or calls:
            eviction.evict(decision, frame, cause="pressure")
        else:
            eviction.lower(decision, frame, fits, cause="pressure")


def evict_page(decision: Decision, command: EvictPage, pages: PageTable) -> None:
    """Take a page one tier down. Emits page.evicted; nothing when it is at home.

    Raises PinnedError for a pinned page, whoever or whatever pinned it, and
    PinnedByLogError for an observation of the log.
    """
    entry, found = find_live(decision, command.page_id, pages)
    if any(each.page_id == entry.page_id for each in decision.state.observing.log):
        raise PinnedByLogError
    frame = decision.paging.frames.get(entry.page_id)
    if frame is not None:
        if entry.page_id in pins.pinned(decision.state):
            raise PinnedError
        eviction.evict(decision, frame, by=command.by, found=found)
    elif entry.page_id in decision.paging.hot:
        eviction.send_home(decision, entry, by=command.by, found=found)


def reference_pages(
    decision: Decision, command: ReferencePages, pages: PageTable
) -> None:
    """Tell that pages were used. Emits page.referenced each, all or none."""
    for page_id in command.page_ids:
        entry, found = find_live(decision, page_id, pages)
        decision.emit(
            PageReferenced(
                turn=decision.turn,
                by=command.by,
                page_id=entry.page_id,
                how=command.how,  # type: ignore[arg-type]  # closed words
                lookup=found.lookup,
                entry=found.read,
            )
        )


def pin_page(decision: Decision, command: PinPage, pages: PageTable) -> None:
    """Keep a page in the working set, mapping it first if need be.

    Emits page.pinned, after page.mapped; nothing when it is pinned already. Raises
    PinBudgetError beyond the share of pins, NoRoomError when it can't be mapped.
    """
    entry, found = find_live(decision, command.page_id, pages)
    if entry.page_id in decision.paging.pins:
        return
    tier = decision.paging.tier(entry.page_id) or entry.home
    if tier != "L0":
        if not map_entry(decision, entry, 0, found=found, by=command.by):
            raise NoRoomError
        found = found.without_lookup
    if not pins.held(decision.paging, entry.page_id):
        tokens = decision.paging.frames[entry.page_id].tokens
        pins.require_share(decision.paging, more=tokens)
    emit_lookup(decision, PagePinned, found, by=command.by, tier=tier)


def unpin_page(decision: Decision, command: UnpinPage, pages: PageTable) -> None:
    """Let a page leave again. Emits page.unpinned; nothing when it is not pinned."""
    entry, found = find_live(decision, command.page_id, pages)
    if entry.page_id in decision.paging.pins:
        emit_lookup(decision, PageUnpinned, found, by=command.by)
