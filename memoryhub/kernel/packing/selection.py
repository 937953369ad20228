"""Selection: a thread's state becomes the input of packing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from memoryhub.kernel.context import block_lines
from memoryhub.kernel.context.block_lines import CarriedBlock
from memoryhub.kernel.context.contexts import (
    ContextRecord,
    FaultPolicies,
    ManifestRow,
    Texts,
    list_log_mark_places,
)
from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.levels.levels import can_produce
from memoryhub.kernel.packing import ranges
from memoryhub.kernel.packing.choosing import CALLING, Candidate
from memoryhub.kernel.packing.packing import PackingInput
from memoryhub.kernel.paging.eviction import pins, precedence, weights
from memoryhub.kernel.paging.eviction.precedence import Precedence
from memoryhub.kernel.state import policies
from memoryhub.kernel.state.pages import (
    FULL,
    REFERENCE,
    Location,
    PageEntry,
    build_slot_page_id,
    is_system_prompt,
)
from memoryhub.kernel.state.paging import Frame, Paging, list_values
from memoryhub.kernel.state.paging_config import PagingSettings
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import prompts
from memoryhub.kernel.tools import tools


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingOptions:
    """Options of the caller for one request."""

    #: The thread's name, as the manifest shows it.
    name: str
    turn: int
    mode: str | None = None
    token_budget: int | None = None
    tools: str = tools.CURRENT
    #: The subject's blocks, in their order.
    blocks: tuple[CarriedBlock, ...] = ()
    #: Instant as of which outdated claims are marked; None: no marks.
    now: datetime | None = None


def build_packing_input(
    state: ThreadState, options: PackingOptions, *, home: Sequence[PageEntry]
) -> PackingInput:
    """Build the input of packing. `home` are pages in their home tier, newest first."""
    paging, settings = state.paging, state.paging.settings
    system, mapped = _build_candidates(state)
    candidates = _add_stubs(state, mapped, home)
    offered = _list_offered(state, home)
    return PackingInput(
        thread=state.id,
        thread_name=options.name,
        turn=options.turn,
        mode=options.mode or settings.mode,
        budget_tokens=settings.budget_tokens,
        reserved_tokens=settings.reserved_tokens,
        policies=build_policies(paging),
        token_budget=options.token_budget,
        system=tuple(system),
        candidates=tuple(candidates),
        last_user_slot=paging.find_exchange_begin(state.slot_count),
        newest=_list_newest_forms(paging),
        mapped=len(paging.frames),
        available=tuple(offered),
        unlisted=paging.pages - len(paging.frames) - len(offered),
        tools=_choose_tools(settings, options),
        own_tools=paging.own_tools.place if paging.own_tools else None,
        blocks=tuple(block_lines.choose_blocks(options.blocks, settings.blocks_tokens)),
        log=tuple(
            Location(*state.locate_event(each.clock), FULL)
            for each in state.observing.log
        ),
        instructions_role=settings.instructions_role,
        format=settings.format,
        since=paging.last_user.seq if paging.last_user else None,
        recall_tokens=settings.recall_room,
        recall_asked=settings.recall_asked,
    )


def _list_offered(state: ThreadState, home: Sequence[PageEntry]) -> list[ManifestRow]:
    found = [
        build_row(entry, tier="L1", own=state.id) for entry in _sort_hot_pages(state)
    ]
    return found + [build_row(entry, tier=entry.home, own=state.id) for entry in home]


def _choose_tools(settings: PagingSettings, options: PackingOptions) -> str:
    form = options.tools if settings.search_tool else tools.WITHOUT_SEARCH
    return tools.add_memory_tools(form) if settings.model_tools else form


def _build_candidates(state: ThreadState) -> tuple[list[Candidate], list[Candidate]]:
    """Build candidates of the system prompt, and of all other frames, in order."""
    paging, rules = state.paging, pins.list_pinned(state)
    scores = policies.score_frames(paging, turn=state.turn_count)
    ranks = precedence.rank_pages(state, rules)
    system, others = list[Candidate](), list[Candidate]()
    for frame in paging.list_in_context_order():
        name = frame.page_id
        page = _build_candidate(
            frame, keep=scores[name], pinned=name in rules, precedence=ranks[name]
        )
        side = system if is_system_prompt(frame.entry) else others
        if not frame.parts:
            side.append(page)
        for part in frame.parts:
            side.append(page._replace(tokens=part[:2], cost=part.cost, at=part.seq))
    return system, others


def _add_stubs(
    state: ThreadState, candidates: Sequence[Candidate], home: Sequence[PageEntry]
) -> list[Candidate]:
    """Add stubs of evicted results behind the calls that stand in the conversation.

    In the exchange, evicted calls before these are added as well: in some APIs each of
    several calls is a message.
    """
    paging, found = state.paging, list[Candidate]()
    back = (frame.entry for frame in list_values(paging.frames) if frame.recalled)
    away = {
        each.slot: each
        for each in (*back, *(page.entry for page in list_values(paging.hot)), *home)
        if each.role in CALLING and each.slot is not None
    }
    results = {slot for slot, each in away.items() if each.role == "tool"}
    begins = paging.find_exchange_begin(state.slot_count)
    shown = {each.slot for each in candidates if not each.recalled}
    for each in candidates:
        if each.slot is None or each.recalled or each.role not in CALLING:
            found.append(each)
            continue
        index = before = each.slot
        while begins is not None and begins < before and each.role == "assistant":
            if before - 1 in shown or before - 1 in results or before - 1 not in away:
                break
            before -= 1
        found += [_build_stub(away[slot], each) for slot in range(before, index)]
        found.append(each)
        index += 1
        while index in results and index not in shown:
            found.append(_build_stub(away[index], each))
            index += 1
    return found


def _build_stub(entry: PageEntry, before: Candidate) -> Candidate:
    return Candidate(
        page_id=entry.page_id,
        level=FULL,
        location=entry.full.location,
        version=entry.version,
        cost=weights.STUB + len(entry.page_id),
        keep=before.keep,
        precedence=before.precedence,
        slot=entry.slot,
        role=entry.role,
        at=entry.created_seq,
        stub=True,
    )


def list_places(wanted: PackingInput) -> list[Location]:
    """List the locations of the texts that packing may need."""
    pages = (*wanted.system, *wanted.candidates, *wanted.newest)
    forms = (*wanted.candidates, *wanted.newest)
    messages = (page.full for page in forms if page.full is not None)
    offered = wanted.offered.rows if wanted.offered else ()
    rows = (row.get_location(wanted.thread) for row in (*wanted.available, *offered))
    own = [wanted.own_tools] if wanted.own_tools else []
    own += [*(each.place for each in wanted.blocks), *wanted.log]
    own += [ref.get_location(wanted.thread) for ref in wanted.recalled]
    own += wanted.recall.mark_places if wanted.recall else []
    own += list_log_mark_places(wanted.log_marks)
    texts = (page.location for page in pages)
    return [*dict.fromkeys([*texts, *messages, *rows, *own])]


def place_parts(
    wanted: PackingInput, texts: Texts, count: Callable[[Candidate], Count]
) -> PackingInput:
    """Return the input with the character ranges of parts, counted by `count`."""

    def place_part(page: Candidate) -> Candidate:
        opened = texts.get(page.location)
        if page.tokens is None or opened is None:
            return page
        return page._replace(
            part=ranges.find_characters(opened, *page.tokens, count=count(page))
        )

    return replace(
        wanted,
        system=tuple(map(place_part, wanted.system)),
        candidates=tuple(map(place_part, wanted.candidates)),
    )


def continue_exchange(
    wanted: PackingInput, previous: ContextRecord | None
) -> PackingInput:
    """Return the input with the manifest and recall of the exchange so far.

    The prefix then stays the same. `previous` is the request of the turn before.
    """
    if previous is None or not wanted.newest:
        return wanted
    sections = {section.name: section for section in previous.sections}
    opened = sections["exchange"].refs if "exchange" in sections else ()
    newest = wanted.newest[0]
    message = newest.full or newest.location
    if not opened or opened[0].get_message_location(wanted.thread) != message:
        return wanted
    return replace(
        wanted,
        offered=previous.manifest,
        recall=previous.recall,
        recalled=sections["recall"].refs if "recall" in sections else (),
        cut_before={
            ref.get_message_location(wanted.thread): ref
            for ref in opened
            if ref.kept or ref.due
        },
        continues=True,
    )


def keep_old_blocks(
    wanted: PackingInput, previous: ContextRecord, texts: Texts
) -> PackingInput | None:
    """Return the input with blocks as they stood in the request before.

    The prefix then stays the same: a separate message tells the text added to the end
    of some blocks since. None without such a change, or with any other change. `texts`
    has the old versions of blocks, as far as they still exist.
    """
    own, now = wanted.thread, wanted.blocks
    before = [ref.get_location(own) for ref in previous.get_refs("blocks")]
    whole = all(each.whole for each in now)
    whole &= all(ref.cut is None for ref in previous.get_refs("blocks"))
    if prompts.CURRENT[wanted.mode] is None or not whole or len(before) != len(now):
        return None
    pairs = [*zip(before, now, strict=True)]
    if any(place not in texts for place in before) or not all(
        block_lines.is_longer(texts[place], texts[each.place]) for place, each in pairs
    ):
        return None
    added = tuple(each.place for place, each in pairs if place != each.place)
    blocks = tuple(each._replace(place=place) for place, each in pairs)
    return replace(wanted, blocks=blocks, added=added) if added else None


def is_continuation(previous: ContextRecord, record: ContextRecord) -> bool:
    """Return whether a request begins like the one before, up to its history's end."""
    heads = ("system", "rules", "log", "context")
    same = all(previous.get_refs(name) == record.get_refs(name) for name in heads)
    same &= (previous.rules, previous.log_marks) == (record.rules, record.log_marks)
    before = previous.get_refs("history")
    return same and record.get_refs("history")[: len(before)] == before


def should_look_back(wanted: PackingInput, state: ThreadState) -> bool:
    """Return whether an exchange begins here, and a page it may need is not shown."""
    paging = state.paging
    begins = wanted.since is not None and not wanted.continues
    if not begins or wanted.mode == "passive":
        return False
    if paging.settings.recall == "subject":
        return True
    whole = sum(
        not frame.level and not frame.parts for frame in list_values(paging.frames)
    )
    return whole < paging.pages


def offer_pages(
    wanted: PackingInput, pages: Sequence[str], entries: Mapping[str, PageEntry]
) -> PackingInput:
    """Return the input with a manifest that offers these pages first, in their order.

    `entries` are the pages that the manifest would not have offered.
    """
    own = wanted.thread
    rows = {row.page_id: row for row in wanted.available}
    rows |= {name: build_row(at, tier=at.home, own=own) for name, at in entries.items()}
    first = [rows.pop(each) for each in dict.fromkeys(pages) if each in rows]
    return replace(
        wanted,
        available=(*first, *rows.values()),
        unlisted=wanted.unlisted - len(entries),
    )


def list_shown_places(wanted: PackingInput) -> set[Location]:
    """Return the locations of the texts that the request shows whole anyway."""
    pages = (*wanted.system, *wanted.candidates, *wanted.newest)
    whole = (page for page in pages if page.level == FULL and page.tokens is None)
    return {page.location for page in whole if not page.stub}


def drop_erased(wanted: PackingInput, gone: Collection[Location]) -> PackingInput:
    """Return the input without the erased texts at these places.

    A fork may still hold a page whose text its ancestor has deleted.
    """
    if not gone:
        return wanted
    there = {*gone}
    if wanted.own_tools in there:
        wanted = replace(wanted, own_tools=None)

    def filter_pages(pages: Iterable[Candidate]) -> tuple[Candidate, ...]:
        return tuple(page for page in pages if there.isdisjoint(list_needed(page)))

    def list_needed(page: Candidate) -> set[Location]:
        # Without the message as it was said, the page has no speaker.
        return {page.location} if page.full is None else {page.location, page.full}

    recall = wanted.recall
    lost = [ref.get_location(wanted.thread) in there for ref in wanted.recalled]
    if recall is not None:
        # Without the texts of its marks, nothing says that a recalled text no longer
        # holds.
        lost = [
            gone
            or not there.isdisjoint(at for m in recall.get_marks(n) for at in m.places)
            for n, gone in enumerate(lost)
        ]
    left = [n for n, each in enumerate(lost) if not each]

    def filter_rows(offered: Iterable[ManifestRow]) -> tuple[ManifestRow, ...]:
        return tuple(row for row in offered if row.get_location(own) not in there)

    own = wanted.thread
    return replace(
        wanted,
        system=filter_pages(wanted.system),
        candidates=filter_pages(wanted.candidates),
        newest=filter_pages(wanted.newest),
        blocks=tuple(each for each in wanted.blocks if each.place not in there),
        log=tuple(place for place in wanted.log if place not in there),
        log_marks=tuple(
            each
            for each in wanted.log_marks
            if there.isdisjoint(list_log_mark_places([each]))
        ),
        available=filter_rows(wanted.available),
        offered=wanted.offered
        and replace(wanted.offered, rows=filter_rows(wanted.offered.rows)),
        recall=recall and recall.keep_places(left),
        recalled=tuple(wanted.recalled[n] for n in left),
    )


def _build_candidate(
    frame: Frame,
    *,
    keep: float,
    pinned: bool,
    precedence: Precedence = precedence.HISTORY,
) -> Candidate:
    entry = frame.entry
    brought = frame.recalled or entry.slot is None
    return Candidate(
        page_id=entry.page_id,
        level=frame.level,
        location=entry.require_level(frame.level).location,
        version=entry.version,
        cost=frame.tokens,
        keep=keep,
        pinned=pinned,
        precedence=precedence,
        slot=entry.slot,
        role=entry.role,
        importance=entry.importance,
        recalled=frame.recalled,
        full=entry.full.location if frame.level and entry.slot is not None else None,
        at=frame.mapped_seq if brought else entry.created_seq,
    )


def _list_newest_forms(paging: Paging) -> tuple[Candidate, ...]:
    """Return the last user slot as it is mapped, and at every level below that."""
    if paging.last_user is None:
        return ()
    frame = paging.frames.get(build_slot_page_id(paging.last_user.slot))
    if frame is None:
        return ()
    return tuple(
        _build_candidate(_lower_frame(frame, level), keep=1.0, pinned=True)
        for level, held in enumerate(frame.entry.levels)
        if held is not None and level >= frame.level
    )


def _lower_frame(frame: Frame, level: int) -> Frame:
    tokens = weights.weigh_page(frame.entry, level, recalled=frame.recalled)
    return frame._replace(level=level, tokens=tokens)


def _sort_hot_pages(state: ThreadState) -> list[PageEntry]:
    """Return the pages of the hot list, most worth keeping first."""
    paging, turn = state.paging, state.turn_count
    pages = sorted(
        list_values(paging.hot),
        key=lambda page: (
            -policies.score_hot_page(page, paging, turn=turn),
            -page.since_seq,
            page.page_id,
        ),
    )
    return [page.entry for page in pages]


def build_row(entry: PageEntry, *, tier: str, own: UUID) -> ManifestRow:
    """Build a page's row in the manifest: its hint, else its beginning."""
    # All lower levels are made at once: a level missing beside another cannot be made.
    makable = can_produce(entry.modality) and not any(entry.levels[1:])
    levels = [n for n in range(REFERENCE + 1) if entry.levels[n] or makable]
    place = entry.hint or entry.full.location
    return ManifestRow(
        entry.page_id,
        tier,
        "".join(map(str, levels)),
        place.seq,
        place.level,
        place.find_home(own),
    )


def build_policies(paging: Paging) -> FaultPolicies:
    """Build the policies: what the model may still do in this exchange."""
    settings: PagingSettings = paging.settings
    left = max(0, settings.max_faults_per_turn - paging.spent.faults)
    tokens = max(0, settings.max_fault_tokens_per_turn - paging.spent.tokens)
    return FaultPolicies(
        left > 0 and tokens > 0, settings.max_faults_per_turn, left, tokens
    )
