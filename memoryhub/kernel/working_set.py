"""The working set: what is mapped, what leaves for it, by the thread's policy. Pure.

Verbs decide; how events fold is in `residency`.
"""

from __future__ import annotations

from memoryhub.errors import NoRoomError, PinnedError
from memoryhub.kernel import eviction, pins
from memoryhub.kernel.course import Course, PageTable
from memoryhub.kernel.entries import compressed_entry, entry_body, place_body
from memoryhub.kernel.lookups import Found, find_live, tell
from memoryhub.kernel.padding import padded
from memoryhub.kernel.page_commands import (
    EvictPage,
    MadeLevels,
    MapPage,
    PinPage,
    ReferencePages,
    UnpinPage,
)
from memoryhub.kernel.page_events import (
    By,
    Cause,
    EntryBody,
    PageCompressed,
    PageMapped,
    PagePinned,
    PageReferenced,
    PageUnpinned,
)
from memoryhub.kernel.pages import Entry, LevelEntry


def map_page(course: Course, command: MapPage, pages: PageTable) -> None:
    """Map a page at a level. Emits page.mapped; nothing when it stands so already.

    Raises NoRoomError when it fits at no level even after an eviction run, PinnedError
    when that would lower a pinned page, PinBudgetError when it would outgrow its pin.
    """
    _, found = find_live(course, command.page_id, pages)
    found = write_made(course, found, command.made, by=command.by)
    entry = found.live
    level = entry.at_most(command.level)
    frame = course.paging.frames.get(entry.page_id)
    if frame and level > frame.level and entry.page_id in pins.pinned(course.state):
        raise PinnedError
    if pins.held(course.paging, entry.page_id):
        more = entry.at(level).cost - (frame.tokens if frame else 0)
        pins.require_share(course.paging, more=more)
    if not map_entry(course, entry, level, found=found, by=command.by):
        raise NoRoomError


def map_entry(
    course: Course,
    entry: Entry,
    level: int,
    *,
    found: Found | None = None,
    cause: Cause = "command",
    by: By = "system",
) -> bool:
    """Give the page a frame at `level` or the most faithful below that fits.

    Emits page.mapped after what leaves for it; nothing when it stands so already, or as
    well as it can. False when it can't be mapped.
    """
    frame = course.paging.frames.get(entry.page_id)
    fits = fitting(course, entry, level)
    if frame and level <= frame.level and (fits is None or fits >= frame.level):
        return True
    if fits is None or not make_room(course, entry.page_id, entry.at(fits).cost):
        return False
    tier = course.paging.tier(entry.page_id) or entry.home
    course.emit(
        PageMapped(
            turn=course.turn,
            cause=cause,
            by=by,
            page_id=entry.page_id,
            level=fits,  # type: ignore[arg-type]  # 0 to 3
            tokens=entry.at(fits).cost,
            tier_before=tier,  # type: ignore[arg-type]  # closed words
            lookup=found.lookup if found else None,
            entry=found.read if found and found.read else _unheld(course, entry),
        )
    )
    return True


def _unheld(course: Course, entry: Entry) -> EntryBody | None:
    """The entry to carry when the state holds none: nobody looked the page up."""
    paging = course.paging
    if paging.tier(entry.page_id) or paging.tlb.find(entry.page_id):
        return None
    return entry_body(entry, thread=course.state.id)


def with_made(entry: Entry, made: MadeLevels | None) -> Entry:
    """The entry as it would be with those levels, as far as they are news."""
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
    course: Course, found: Found, made: MadeLevels | None, *, by: By = "system"
) -> Found:
    """What was found, with levels that were made beforehand as far as they are news.

    Emits page.compressed. Levels of another version, or that somebody else made
    meanwhile, are left out.
    """
    entry = found.live
    if made is None or with_made(entry, made) == entry:
        return found
    event = PageCompressed(
        turn=course.turn,
        by=by,
        page_id=entry.page_id,
        version=entry.version,
        type=entry.type,
        modality=entry.modality,
        role=entry.role,
        slot=entry.slot,
        producer=made.producer,
        bytes=padded(len(made.payload)),
        levels=list(made.levels),
        source=place_body(entry.full.location, course.state.id),
    )
    thread, seq = course.state.id, course.state.seq + 1
    course.emit(event, made.payload)
    return found.renewed(
        compressed_entry(entry, event, thread=thread, seq=seq), thread=thread
    )


def fitting(course: Course, entry: Entry, level: int) -> int | None:
    """The most faithful existing level from `level` on that a page may have at all."""
    largest = pins.largest(course.paging, entry.page_id)
    for each in range(level, 4):
        held = entry.levels[each]
        if held is not None and held.cost <= largest:
            return each
    return None


def make_room(course: Course, page_id: str, cost: int) -> bool:
    """Whether the page fits at that cost, once the run that it calls for is over."""
    paging = course.paging
    if cost > pins.largest(paging, page_id):
        return False
    frame = paging.frames.get(page_id)
    more = cost - (frame.tokens if frame else 0)
    if pins.held(paging, page_id) and not pins.shared(paging, more=more):
        return False
    eviction.free_up(course, more, cause="pressure", sparing=page_id)
    paging = course.paging
    return paging.used + more <= paging.settings.usable


def evict_page(course: Course, command: EvictPage, pages: PageTable) -> None:
    """Take a page one tier down. Emits page.evicted; nothing when it is at home.

    Raises PinnedError for a pinned page, whoever or whatever pinned it.
    """
    entry, found = find_live(course, command.page_id, pages)
    frame = course.paging.frames.get(entry.page_id)
    if frame is not None:
        if entry.page_id in pins.pinned(course.state):
            raise PinnedError
        eviction.evict(course, frame, by=command.by, found=found)
    elif entry.page_id in course.paging.hot:
        eviction.send_home(course, entry, by=command.by, found=found)


def reference_pages(course: Course, command: ReferencePages, pages: PageTable) -> None:
    """Tell that pages were used. Emits page.referenced each, all or none."""
    for page_id in command.page_ids:
        entry, found = find_live(course, page_id, pages)
        course.emit(
            PageReferenced(
                turn=course.turn,
                by=command.by,
                page_id=entry.page_id,
                how=command.how,  # type: ignore[arg-type]  # closed words
                lookup=found.lookup,
                entry=found.read,
            )
        )


def pin_page(course: Course, command: PinPage, pages: PageTable) -> None:
    """Keep a page in the working set, mapping it first if need be.

    Emits page.pinned, after page.mapped; nothing when it is pinned already. Raises
    PinBudgetError beyond the share of pins, NoRoomError when it can't be mapped.
    """
    entry, found = find_live(course, command.page_id, pages)
    if entry.page_id in course.paging.pins:
        return
    tier = course.paging.tier(entry.page_id) or entry.home
    if tier != "L0":
        if not map_entry(course, entry, 0, found=found, by=command.by):
            raise NoRoomError
        found = found.told
    if not pins.held(course.paging, entry.page_id):
        tokens = course.paging.frames[entry.page_id].tokens
        pins.require_share(course.paging, more=tokens)
    tell(course, PagePinned, found, by=command.by, tier=tier)


def unpin_page(course: Course, command: UnpinPage, pages: PageTable) -> None:
    """Let a page leave again. Emits page.unpinned; nothing when it is not pinned."""
    entry, found = find_live(course, command.page_id, pages)
    if entry.page_id in course.paging.pins:
        tell(course, PageUnpinned, found, by=command.by)
