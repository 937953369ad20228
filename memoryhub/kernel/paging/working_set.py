"""The working set: mapped pages, and evictions for them by the thread's policy. Pure.

This module decides the commands; `residency` applies the events.
"""

from __future__ import annotations

from operator import attrgetter

from memoryhub.errors import NoRoomError, PinnedByLogError, PinnedError
from memoryhub.kernel.commands import MadeLevels
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.paging.entries import (
    build_compressed_entry,
    build_entry_body,
    build_place_body,
)
from memoryhub.kernel.paging.eviction import eviction, groups, pins, precedence, weights
from memoryhub.kernel.paging.eviction.precedence import Precedence
from memoryhub.kernel.paging.lookups import PageLookup, emit_lookup, require_page
from memoryhub.kernel.paging.page_commands import (
    EvictPage,
    MapPage,
    PinPage,
    ReferencePages,
    UnpinPage,
)
from memoryhub.kernel.paging.tiers import is_recalled
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
from memoryhub.kernel.state.pages import LevelEntry, PageEntry
from memoryhub.kernel.state.paging import Paging


def decide_map_page(decision: Decision, command: MapPage, pages: PageTable) -> None:
    """Map a page at a level. Emits page.mapped; nothing if it is so mapped already.

    Raises NoRoomError when the page fits at no level even after an eviction run,
    PinnedError when that would lower a pinned page, PinBudgetError when the page would
    outgrow its pin.
    """
    _, found = require_page(decision, command.page_id, pages)
    found = write_made_levels(decision, found, command.made, by=command.by)
    entry = found.live
    level = entry.pick_level(command.level)
    frame = decision.paging.frames.get(entry.page_id)
    if (
        frame
        and level > frame.level
        and entry.page_id in pins.list_pinned(decision.state)
    ):
        raise PinnedError
    if pins.is_charged_to_share(decision.paging, entry.page_id):
        more = weigh(decision, entry, level) - (frame.tokens if frame else 0)
        pins.require_share(decision.paging, more=more)
    if not map_entry(decision, entry, level, found=found, by=command.by):
        raise NoRoomError


def map_entry(
    decision: Decision,
    entry: PageEntry,
    level: int,
    *,
    found: PageLookup | None = None,
    cause: Cause = "command",
    by: By = "system",
    own: Precedence | None = None,
) -> bool:
    """Map the page at `level` or the most faithful below that fits.

    Emits page.mapped after the evictions for it; nothing when the page is mapped as
    well as it can be. Returns False when the page cannot be mapped.
    """
    fits = find_fitting_level(decision, entry, level, own=own, cause=cause)
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
            tier_before=decision.paging.find_tier(entry.page_id) or entry.home,  # type: ignore[arg-type]  # closed words
            lookup=found.lookup if found else None,
            entry=found.read
            if found and found.read
            else _build_missing_body(decision, entry),
        )
    )
    return True


def _is_mapped_best(
    decision: Decision, entry: PageEntry, level: int, fits: int | None
) -> bool:
    """Return whether the page is mapped as faithfully as possible, up to that level."""
    frame = decision.paging.frames.get(entry.page_id)
    if frame is None or frame.parts:
        return False
    return level <= frame.level and (fits is None or fits >= frame.level)


def _build_missing_body(decision: Decision, entry: PageEntry) -> EntryBody | None:
    """Build the entry to carry when the state holds none: no look-up has read it."""
    paging = decision.paging
    if paging.find_tier(entry.page_id) or paging.tlb.find(entry.page_id):
        return None
    return build_entry_body(entry, thread=decision.state.id)


def add_made_levels(entry: PageEntry, made: MadeLevels | None) -> PageEntry:
    """Return the entry with the made levels, as far as they are new."""
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


def write_made_levels(
    decision: Decision, found: PageLookup, made: MadeLevels | None, *, by: By = "system"
) -> PageLookup:
    """Emit the levels made beforehand that are new to a page; return its look-up.

    Emits page.compressed. Levels of another version, or levels that somebody else made
    meanwhile, are left out.
    """
    entry = found.live
    if made is None or add_made_levels(entry, made) == entry:
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
        source=build_place_body(entry.full.location, decision.state.id),
    )
    thread, seq = decision.state.id, decision.state.seq + 1
    decision.emit(event, made.payload)
    return found.replace_entry(
        build_compressed_entry(entry, event, thread=thread, seq=seq), thread=thread
    )


def find_fitting_level(
    decision: Decision,
    entry: PageEntry,
    level: int,
    *,
    own: Precedence | None = None,
    cause: Cause = "command",
) -> int | None:
    """Return the most faithful existing level from `level` on that can ever fit."""
    for each in range(level, 4):
        if entry.levels[each] is None:
            continue
        if can_weigh(
            decision, entry.page_id, weigh(decision, entry, each, cause=cause), own
        ):
            return each
    return None


def weigh(
    decision: Decision, entry: PageEntry, level: int, *, cause: Cause = "command"
) -> int:
    """Return the weight of a page that is mapped, or would be for this cause."""
    frame = decision.paging.frames.get(entry.page_id)
    recalled = frame.recalled if frame else is_recalled(decision.paging, entry, cause)
    return weights.weigh_page(entry, level, recalled=recalled)


def make_room(
    decision: Decision, page_id: str, cost: int, *, own: Precedence | None = None
) -> bool:
    """Make room of `cost` tokens by evictions; return whether the page then fits.

    A page that the exchange needs comes with its `own` precedence: pages below that
    precedence leave if they must.
    """
    paging = decision.paging
    if not can_weigh(decision, page_id, cost, own):
        return False
    more = cost - _count_held_tokens(paging, page_id)
    if pins.is_charged_to_share(paging, page_id) and not pins.has_share_left(
        paging, more=more
    ):
        return False
    eviction.free_up(decision, more, cause="pressure", sparing=page_id)
    if own is not None and not _has_room(decision, more):
        for name in precedence.list_below(decision.state, own):
            if name != page_id and name in decision.paging.frames:
                eviction.evict(decision, decision.paging.frames[name], cause="pressure")
            if _has_room(decision, more):
                break
    return _has_room(decision, more)


def _has_room(decision: Decision, more: int) -> bool:
    return decision.paging.used + more <= decision.paging.settings.usable


def _count_held_tokens(paging: Paging, page_id: str) -> int:
    frame = paging.frames.get(page_id)
    return frame.tokens if frame else 0


def can_weigh(
    decision: Decision, page_id: str, cost: int, own: Precedence | None
) -> bool:
    """Return whether a level of the page may weigh that much.

    A page for which there is free room displaces nothing, so no ranking is made.
    """
    if own is None:
        return cost <= pins.compute_largest(decision.paging, page_id)
    if _has_room(decision, cost - _count_held_tokens(decision.paging, page_id)):
        return True
    return cost <= precedence.compute_room(decision.state, page_id, own)


def settle_exchange(decision: Decision) -> None:
    """Reduce pages beyond their share, now that their exchange is over.

    Emits page.evicted for calls of our tools that brought nothing, and for their
    results; page.lowered for each page that has a level within its share, else
    page.evicted.
    """
    for index in decision.paging.asking:
        eviction.evict_answered(decision, index)
    # Seldom any: the code below looks at the whole working set.
    beyond = decision.list_large_frames(decision.paging.settings.largest)
    pinned = pins.list_pinned(decision.state) if beyond else {}
    for frame in sorted(beyond, key=attrgetter("mapped_seq")):
        if frame.page_id not in decision.paging.frames:
            continue
        largest = pins.compute_largest(decision.paging, frame.page_id)
        if frame.tokens <= largest or pinned.get(frame.page_id) in (
            "explicit",
            "system",
        ):
            continue
        fits = find_fitting_level(decision, frame.entry, frame.level)
        calls = groups.can_have_results(
            decision.paging, frame, slots=decision.state.slot_count
        )
        if fits is None or calls:
            eviction.evict(decision, frame, cause="pressure")
        else:
            eviction.lower_frame(decision, frame, fits, cause="pressure")


def decide_evict_page(decision: Decision, command: EvictPage, pages: PageTable) -> None:
    """Take a page one tier down. Emits page.evicted; nothing when it is at home.

    Raises PinnedError for a pinned page, whoever or whatever pinned it, and
    PinnedByLogError for an observation of the log.
    """
    entry, found = require_page(decision, command.page_id, pages)
    if any(each.page_id == entry.page_id for each in decision.state.observing.log):
        raise PinnedByLogError
    frame = decision.paging.frames.get(entry.page_id)
    if frame is not None:
        if entry.page_id in pins.list_pinned(decision.state):
            raise PinnedError
        eviction.evict(decision, frame, by=command.by, found=found)
    elif entry.page_id in decision.paging.hot:
        eviction.send_home(decision, entry, by=command.by, found=found)


def decide_reference_pages(
    decision: Decision, command: ReferencePages, pages: PageTable
) -> None:
    """Record that pages were used. Emits page.referenced each, all or none."""
    for page_id in command.page_ids:
        entry, found = require_page(decision, page_id, pages)
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


def decide_pin_page(decision: Decision, command: PinPage, pages: PageTable) -> None:
    """Keep a page in the working set, mapping it first if need be.

    Emits page.pinned, after page.mapped; nothing when the page is pinned already.
    Raises PinBudgetError beyond the share of pins, NoRoomError when the page cannot be
    mapped.
    """
    entry, found = require_page(decision, command.page_id, pages)
    if entry.page_id in decision.paging.pins:
        return
    tier = decision.paging.find_tier(entry.page_id) or entry.home
    if tier != "L0":
        if not map_entry(decision, entry, 0, found=found, by=command.by):
            raise NoRoomError
        found = found.without_lookup
    if not pins.is_charged_to_share(decision.paging, entry.page_id):
        tokens = decision.paging.frames[entry.page_id].tokens
        pins.require_share(decision.paging, more=tokens)
    emit_lookup(decision, PagePinned, found, by=command.by, tier=tier)


def decide_unpin_page(decision: Decision, command: UnpinPage, pages: PageTable) -> None:
    """Let a page leave again. Emits page.unpinned; nothing when it is not pinned."""
    entry, found = require_page(decision, command.page_id, pages)
    if entry.page_id in decision.paging.pins:
        emit_lookup(decision, PageUnpinned, found, by=command.by)
