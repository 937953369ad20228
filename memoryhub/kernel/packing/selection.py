"""From a thread's state to what its next request should hold. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from memoryhub.kernel.levels import block_lines, recalls, tools
from memoryhub.kernel.levels.block_lines import Carried
from memoryhub.kernel.levels.contexts import (
    Policies,
    Record,
    Row,
    Texts,
    places_of,
)
from memoryhub.kernel.levels.levels import producible
from memoryhub.kernel.levels.recalls import Related
from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.packing import ranges
from memoryhub.kernel.packing.choosing import CALLING, Candidate
from memoryhub.kernel.packing.packing import Wanted
from memoryhub.kernel.paging import pins, precedence, prerequisites, weights
from memoryhub.kernel.paging.precedence import Precedence
from memoryhub.kernel.state import policies
from memoryhub.kernel.state.pages import (
    FULL,
    REFERENCE,
    Entry,
    Location,
    slot_page_id,
    system_prompt,
)
from memoryhub.kernel.state.paging import Frame, Hot, Paging, values
from memoryhub.kernel.state.paging_config import Settings
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import prompts

#: Pages that a turn may bring along though nobody asks for them, and claims of those.
PREFETCHED, CLAIMS = 5, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the caller says about one request."""

    #: The thread's name, as the manifest says it.
    name: str
    turn: int
    mode: str | None = None
    token_budget: int | None = None
    tools: str = tools.CURRENT
    #: The subject's blocks, in their order.
    blocks: tuple[Carried, ...] = ()
    #: By when what is brought along is judged to hold; None: it is not.
    now: datetime | None = None


def wanted(state: ThreadState, options: Options, *, home: Sequence[Entry]) -> Wanted:
    """Return all that packing needs. `home` are pages at home, newest first."""
    paging, settings = state.paging, state.paging.settings
    system, mapped = _mapped(state)
    candidates = _with_stubs(state, mapped, home)
    offered = _offered(state, home)
    return Wanted(
        thread=state.id,
        thread_name=options.name,
        turn=options.turn,
        mode=options.mode or settings.mode,
        budget_tokens=settings.budget_tokens,
        reserved_tokens=settings.reserved_tokens,
        policies=policies_of(paging),
        token_budget=options.token_budget,
        system=tuple(system),
        candidates=tuple(candidates),
        last_user_slot=paging.exchange(state.slot_count),
        newest=_newest(paging),
        mapped=len(paging.frames),
        available=tuple(offered),
        unlisted=paging.pages - len(paging.frames) - len(offered),
        tools=_tools(settings, options),
        own_tools=paging.own_tools.place if paging.own_tools else None,
        blocks=tuple(block_lines.chosen(options.blocks, settings.blocks_tokens)),
        log=tuple(
            Location(*state.place(each.clock), FULL) for each in state.observing.log
        ),
        instructions_role=settings.instructions_role,
        format=settings.format,
        since=paging.last_user.seq if paging.last_user else None,
        recall_tokens=settings.recall_room,
        recall_asked=settings.recall_asked,
    )


def _offered(state: ThreadState, home: Sequence[Entry]) -> list[Row]:
    found = [row(entry, tier="L1", own=state.id) for entry in _hot(state)]
    return found + [row(entry, tier=entry.home, own=state.id) for entry in home]


def _tools(settings: Settings, options: Options) -> str:
    return tools.with_memory(options.tools) if settings.model_tools else options.tools


def _mapped(state: ThreadState) -> tuple[list[Candidate], list[Candidate]]:
    """The system prompt, and all other frames, as they stand in the context."""
    paging, rules = state.paging, pins.pinned(state)
    scores = policies.frame_scores(paging, turn=state.turn_count)
    ranks = precedence.precedence(state, rules)
    system, others = list[Candidate](), list[Candidate]()
    for frame in paging.in_order():
        name = frame.page_id
        page = _candidate(
            frame, keep=scores[name], pinned=name in rules, precedence=ranks[name]
        )
        side = system if system_prompt(frame.entry) else others
        if not frame.parts:
            side.append(page)
        for part in frame.parts:
            side.append(page._replace(tokens=part[:2], cost=part.cost, at=part.seq))
    return system, others


def _with_stubs(
    state: ThreadState, candidates: Sequence[Candidate], home: Sequence[Entry]
) -> list[Candidate]:
    """With the results that left from behind calls that stand in the conversation.

    And in the exchange with calls that left from before these: of some APIs each of
    several calls is a message.
    """
    paging, found = state.paging, list[Candidate]()
    back = (frame.entry for frame in values(paging.frames) if frame.recalled)
    away = {
        each.slot: each
        for each in (*back, *(page.entry for page in values(paging.hot)), *home)
        if each.role in CALLING and each.slot is not None
    }
    results = {slot for slot, each in away.items() if each.role == "tool"}
    begins = paging.exchange(state.slot_count)
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
        found += [_stub(away[slot], each) for slot in range(before, index)]
        found.append(each)
        index += 1
        while index in results and index not in shown:
            found.append(_stub(away[index], each))
            index += 1
    return found


def _stub(entry: Entry, before: Candidate) -> Candidate:
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


def places(wanted: Wanted) -> list[Location]:
    """Return where the texts lie that packing may need."""
    pages = (*wanted.system, *wanted.candidates, *wanted.newest)
    forms = (*wanted.candidates, *wanted.newest)
    messages = (page.full for page in forms if page.full is not None)
    offered = wanted.offered.rows if wanted.offered else ()
    rows = (row.location(wanted.thread) for row in (*wanted.available, *offered))
    own = [wanted.own_tools] if wanted.own_tools else []
    own += [*(each.place for each in wanted.blocks), *wanted.log]
    own += [ref.location(wanted.thread) for ref in wanted.recalled]
    own += wanted.recall.mark_places if wanted.recall else []
    own += places_of(wanted.log_marks)
    texts = (page.location for page in pages)
    return [*dict.fromkeys([*texts, *messages, *rows, *own])]


def placed(wanted: Wanted, texts: Texts, count: Callable[[Candidate], Count]) -> Wanted:
    """Return the same with parts where they stand in their texts, as each counts."""

    def found(page: Candidate) -> Candidate:
        opened = texts.get(page.location)
        if page.tokens is None or opened is None:
            return page
        return page._replace(
            part=ranges.characters(opened, *page.tokens, count=count(page))
        )

    return replace(
        wanted,
        system=tuple(map(found, wanted.system)),
        candidates=tuple(map(found, wanted.candidates)),
    )


def continued(wanted: Wanted, previous: Record | None) -> Wanted:
    """Continue with what the exchange was offered before: that breaks no prefix.

    `previous` is the request of the turn before.
    """
    if previous is None or not wanted.newest:
        return wanted
    sections = {section.name: section for section in previous.sections}
    opened = sections["exchange"].refs if "exchange" in sections else ()
    newest = wanted.newest[0]
    message = newest.full or newest.location
    if not opened or opened[0].message(wanted.thread) != message:
        return wanted
    return replace(
        wanted,
        offered=previous.manifest,
        recall=previous.recall,
        recalled=sections["recall"].refs if "recall" in sections else (),
        cut_before={
            ref.message(wanted.thread): ref for ref in opened if ref.kept or ref.due
        },
        continues=True,
    )


def growing(wanted: Wanted, previous: Record, texts: Texts) -> Wanted | None:
    """Return the same with blocks as they stood in the request before.

    For its prefix's sake: what was added to the end of some since then is told apart.
    None where there is no such change, or another one as well; `texts` has them as they
    stood, if they are there still.
    """
    own, now = wanted.thread, wanted.blocks
    before = [ref.location(own) for ref in previous.refs("blocks")]
    whole = all(each.whole for each in now)
    whole &= all(ref.cut is None for ref in previous.refs("blocks"))
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


def goes_on(previous: Record, record: Record) -> bool:
    """Return whether a request begins as the one before, up to its history's end."""
    heads = ("system", "rules", "log", "context")
    same = all(previous.refs(name) == record.refs(name) for name in heads)
    same &= (previous.rules, previous.log_marks) == (record.rules, record.log_marks)
    before = previous.refs("history")
    return same and record.refs("history")[: len(before)] == before


def looks_back(wanted: Wanted, state: ThreadState) -> bool:
    """Return whether an exchange begins here, and something it may need is away."""
    paging = state.paging
    begins = wanted.since is not None and not wanted.continues
    if not begins or wanted.mode == "passive":
        return False
    if paging.settings.recall == "subject":
        return True
    whole = sum(not frame.level and not frame.parts for frame in values(paging.frames))
    return whole < paging.pages


def prefetched(wanted: Wanted, state: ThreadState) -> list[Related]:
    """List what an exchange may need whatever it asks, at most five pages.

    The newest summary, the three claims that were referred to most, and what is usually
    read before the tools called last; as far as it is at hand but not shown whole.
    """
    paging, whole = state.paging, shown(wanted)
    pages: list[Frame | Hot] = [*values(paging.frames), *values(paging.hot)]
    away = [each for each in pages if each.entry.full.location not in whole]
    summaries = [each for each in pages if each.entry.type == "summary"]
    newest = max(summaries, key=lambda each: each.entry.created_seq, default=None)
    # To be made is a reference, too.
    claims = [
        each for each in away if each.entry.type == "claim" and each.references > 1
    ]
    claims.sort(key=lambda each: (-each.references, -each.referenced_seq))
    found = [(each, recalls.SUMMARY) for each in away if each is newest]
    found += [(each, recalls.CLAIM) for each in claims[:CLAIMS]]
    places = [(each.entry.full.location, source) for each, source in found]
    for page_id in prerequisites.usual(paging):
        at = paging.frames.get(page_id) or paging.hot.get(page_id)
        entry = at.entry if at else paging.tlb.find(page_id)
        if entry is not None and entry.full.location not in whole:
            places.append((entry.full.location, recalls.PREREQUISITE))
    sources = dict(reversed(places))
    return [Related(at, sources[at]) for at in dict(places)][:PREFETCHED]


def offering(
    wanted: Wanted, pages: Sequence[str], entries: Mapping[str, Entry]
) -> Wanted:
    """Return the same with a manifest that offers these pages first, in their order.

    `entries` are those of them that it would not have offered.
    """
    own = wanted.thread
    rows = {row.page_id: row for row in wanted.available}
    rows |= {name: row(at, tier=at.home, own=own) for name, at in entries.items()}
    first = [rows.pop(each) for each in dict.fromkeys(pages) if each in rows]
    return replace(
        wanted,
        available=(*first, *rows.values()),
        unlisted=wanted.unlisted - len(entries),
    )


def shown(wanted: Wanted) -> set[Location]:
    """Return where the texts lie that the request shows whole anyway."""
    pages = (*wanted.system, *wanted.candidates, *wanted.newest)
    whole = (page for page in pages if page.level == FULL and page.tokens is None)
    return {page.location for page in whole if not page.stub}


def without(wanted: Wanted, gone: Collection[Location]) -> Wanted:
    """Return the same without the texts at these places, erased since.

    A fork may still hold a page whose text its ancestor has deleted.
    """
    if not gone:
        return wanted
    there = {*gone}
    if wanted.own_tools in there:
        wanted = replace(wanted, own_tools=None)

    def kept(pages: Iterable[Candidate]) -> tuple[Candidate, ...]:
        return tuple(page for page in pages if there.isdisjoint(needed(page)))

    def needed(page: Candidate) -> set[Location]:
        # Without the message as it was said nobody would speak.
        return {page.location} if page.full is None else {page.location, page.full}

    recall = wanted.recall
    lost = [ref.location(wanted.thread) in there for ref in wanted.recalled]
    if recall is not None:
        # Without what its marks are told by, nothing says that it no longer holds.
        lost = [
            gone
            or not there.isdisjoint(at for m in recall.marked(n) for at in m.places)
            for n, gone in enumerate(lost)
        ]
    left = [n for n, each in enumerate(lost) if not each]

    def rows(offered: Iterable[Row]) -> tuple[Row, ...]:
        return tuple(row for row in offered if row.location(own) not in there)

    own = wanted.thread
    return replace(
        wanted,
        system=kept(wanted.system),
        candidates=kept(wanted.candidates),
        newest=kept(wanted.newest),
        blocks=tuple(each for each in wanted.blocks if each.place not in there),
        log=tuple(place for place in wanted.log if place not in there),
        log_marks=tuple(
            each for each in wanted.log_marks if there.isdisjoint(places_of([each]))
        ),
        available=rows(wanted.available),
        offered=wanted.offered
        and replace(wanted.offered, rows=rows(wanted.offered.rows)),
        recall=recall and recall.only(left),
        recalled=tuple(wanted.recalled[n] for n in left),
    )


def _candidate(
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
        location=entry.at(frame.level).location,
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


def _newest(paging: Paging) -> tuple[Candidate, ...]:
    """The last user slot as it is mapped, and at every level below that."""
    if paging.last_user is None:
        return ()
    frame = paging.frames.get(slot_page_id(paging.last_user.slot))
    if frame is None:
        return ()
    return tuple(
        _candidate(_at(frame, level), keep=1.0, pinned=True)
        for level, held in enumerate(frame.entry.levels)
        if held is not None and level >= frame.level
    )


def _at(frame: Frame, level: int) -> Frame:
    tokens = weights.weight(frame.entry, level, recalled=frame.recalled)
    return frame._replace(level=level, tokens=tokens)


def _hot(state: ThreadState) -> list[Entry]:
    """Pages of the hot list, the one most worth keeping first."""
    paging, turn = state.paging, state.turn_count
    pages = sorted(
        values(paging.hot),
        key=lambda page: (
            -policies.hot_score(page, paging, turn=turn),
            -page.since_seq,
            page.page_id,
        ),
    )
    return [page.entry for page in pages]


def row(entry: Entry, *, tier: str, own: UUID) -> Row:
    """Return a page's row in the manifest: its hint, else how it begins."""
    # They are made all at once, so what is missing beside one there can't be.
    makable = producible(entry.modality) and not any(entry.levels[1:])
    levels = [n for n in range(REFERENCE + 1) if entry.levels[n] or makable]
    place = entry.hint or entry.full.location
    return Row(
        entry.page_id,
        tier,
        "".join(map(str, levels)),
        place.seq,
        place.level,
        place.elsewhere(own),
    )


def policies_of(paging: Paging) -> Policies:
    """Return what the model may still do in this exchange."""
    settings: Settings = paging.settings
    left = max(0, settings.max_faults_per_turn - paging.spent.faults)
    tokens = max(0, settings.max_fault_tokens_per_turn - paging.spent.tokens)
    return Policies(left > 0 and tokens > 0, settings.max_faults_per_turn, left, tokens)
