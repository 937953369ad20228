"""Contexts: requests of turns, packed from a state or reassembled from the record.

Never writes, and never runs a policy on recorded requests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

import orjson

from memoryhub.errors import NotFoundError, NotRecordedError, PageErasedError
from memoryhub.journal import texts
from memoryhub.journal.log import log
from memoryhub.journal.rows import statements
from memoryhub.journal.rows.page_rows import build_entry
from memoryhub.journal.rows.projections import ProjectedRows
from memoryhub.journal.rows.rows import LevelRow
from memoryhub.journal.rows.statements import LEVELS_READ, PAGES_READ
from memoryhub.journal.texts import NewestRequest
from memoryhub.journal.writing.page_table import StoredPageTable
from memoryhub.kernel.context.contexts import ContextRecord, Texts
from memoryhub.kernel.context.recalls import OTHER_THREADS
from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.packing import (
    context_records,
    packers,
    packing,
    prefixes,
    requests,
    selection,
)
from memoryhub.kernel.packing.choosing import Candidate
from memoryhub.kernel.packing.cuts import TextCut, list_cuts
from memoryhub.kernel.packing.packing import Packed, PackingInput
from memoryhub.kernel.packing.prefixes import RecordedRequest
from memoryhub.kernel.packing.refusals import TooSmallError
from memoryhub.kernel.packing.selection import PackingOptions
from memoryhub.kernel.state.page_events import TurnPacked
from memoryhub.kernel.state.pages import (
    FULL,
    Location,
    PageEntry,
    build_slot_page_id,
    is_system_prompt,
)
from memoryhub.kernel.state.paging import list_items
from memoryhub.kernel.state.paging_config import Format
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import standing
from memoryhub.queries.replay import replay, tokenizers
from memoryhub.queries.search import recalls

#: Maximum number of pages outside the working set that a manifest may offer.
OFFERED = 50


class PreviousRequest(NamedTuple):
    """The record of the previous turn's request, and the thread that packed it."""

    record: ContextRecord
    home: UUID
    #: The request's bytes, if they are cached.
    request: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTurn:
    """The record of a turn's request, and its place in a journal."""

    #: The thread that packed the request: an ancestor, for a turn that a fork inherits.
    home: Thread
    seq: int
    event: TurnPacked
    record: ContextRecord
    #: Digest of the request when it was handed out; None if never, or once erased.
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassembledRequest:
    """A recorded request, reassembled from its record."""

    recorded: RecordedTurn
    #: None when a part of the request was erased.
    request: bytes | None
    #: The texts that were opened for the request.
    texts: Texts = field(repr=False)
    #: Ids of the pages whose text was erased.
    missing: tuple[str, ...] = ()

    @property
    def verified(self) -> bool:
        """Tell whether the request's digest is the recorded digest."""
        if self.request is None:
            return False
        return hashlib.sha256(self.request).hexdigest() == self.recorded.sha256

    @property
    def tokens(self) -> int:
        """Return the recorded tokens, or the current count if never handed out."""
        record = self.recorded.record
        if self.recorded.sha256 is not None or self.request is None:
            return record.tokens
        return tokenizers.get_nearest(record.tokenizer).count(self.request.decode())


def pack_request(
    thread: Thread,
    state: ThreadState,
    options: PackingOptions,
    *,
    before: PreviousRequest | None,
    unwritten: Texts = MappingProxyType({}),
) -> Packed:
    """Pack the request of this state, after the previous turn's request.

    `unwritten` are texts of a state that was computed but not stored. Updates no
    counter and no state. `thread` comes with its subject. Three queries for pages
    outside the working set, one for texts, one more for each ancestor, and the queries
    of a search where a new exchange may recall texts. Raises packing.TooSmallError.
    """
    wanted = selection.build_packing_input(
        state, options, home=list_home(thread, state)
    )
    if before and before.home == thread.id:
        wanted = selection.continue_exchange(wanted, before.record)
    if wanted.log and options.now is not None:
        ranges = [(each.begin, each.end) for each in state.observing.log]
        marks = standing.list_log_marks(thread, ranges, at=options.now)
        wanted = replace(wanted, log_marks=marks)
    places = selection.list_places(wanted)
    opened = {**texts.open_texts(thread, places), **unwritten}
    gone = {*places} - opened.keys()
    tokenizer = tokenizers.get_for_thread(thread)
    wanted = selection.drop_erased(wanted, gone)
    if selection.should_look_back(wanted, state):
        wanted, found = recalls.add_related(thread, state, wanted, opened)
        wanted, brought = recalls.open_related(thread, wanted, found, now=options.now)
        opened |= brought
        wanted = _offer_related(thread, state, wanted, opened)
        rows = [row.get_location(thread.id) for row in wanted.available]
        opened |= texts.open_texts(thread, [row for row in rows if row not in opened])
        gone = {row for row in rows if row not in opened}
        wanted = selection.drop_erased(wanted, gone)

    def count(page: Candidate) -> Count:
        entry, settings = state.paging.frames[page.page_id].entry, state.paging.settings
        return tokenizers.build_counter(
            opened[page.location],
            tokens=entry.full.tokens,
            tokenizer=settings.tokenizer,
        )

    wanted = selection.place_parts(wanted, opened, count)

    def pack_within(budget: int | None) -> Packed:
        tried = replace(wanted, token_budget=budget)
        grown = _pack_grown(thread, tried, opened, before=before)
        return grown or packing.pack(tried, opened, tokenizer=tokenizer)

    try:
        packed = pack_within(wanted.token_budget)
    except TooSmallError as refusal:
        refusal.limit, refusal.most = wanted.limit, wanted.budget_tokens
        refusal.pack_within = pack_within
        raise
    left = _list_left_out(state, packed.record)
    return replace(packed, omitted=(*packed.omitted, *left)) if left else packed


def _pack_grown(
    thread: Thread,
    wanted: PackingInput,
    opened: Texts,
    *,
    before: PreviousRequest | None,
) -> Packed | None:
    """Pack with changed blocks as additions after the prefix that providers cache.

    None if no block has additions, or if the request's head changed otherwise, so that
    the cached prefix is lost anyway. Two queries where blocks have changed.
    """
    if before is None or before.home != thread.id or not wanted.blocks:
        return None
    record = before.record
    places = [ref.get_location(thread.id) for ref in record.get_refs("blocks")]
    if places == [each.place for each in wanted.blocks]:
        return None
    places += [ref.get_location(thread.id) for ref in record.get_refs("added")]
    texts_ = {**opened, **texts.open_texts(thread, places)}
    held = selection.keep_old_blocks(wanted, before.record, texts_)
    if held is None:
        return None
    if wanted.continues:
        held = replace(held, added=_select_additions(held, before.record, texts_))
    packed = packing.pack(held, texts_, tokenizer=tokenizers.get_for_thread(thread))
    added = [ref.get_location(thread.id) for ref in packed.record.get_refs("added")]
    same = added == [*held.added] and selection.is_continuation(
        before.record, packed.record
    )
    return packed if same else None


def _select_additions(
    wanted: PackingInput, previous: ContextRecord, texts: Texts
) -> tuple[Location, ...]:
    """Return the additions for a continued exchange, without its model's own.

    The model knows its own additions from the results of its calls; its request keeps
    the additions from the start of the exchange. One query.
    """
    earlier = [ref.get_location(wanted.thread) for ref in previous.get_refs("added")]
    before = {texts[each].page_id: each for each in earlier if each in texts}
    fresh = [each for each in wanted.added if each not in earlier]
    rows = Event.objects.filter(
        thread_id__in={each.thread for each in fresh},
        seq__in=[each.seq for each in fresh],
    )
    own = {row.seq for row in rows if orjson.loads(row.body).get("by") == "model"}
    found = (
        before.get(texts[each].page_id) if each in fresh and each.seq in own else each
        for each in wanted.added
    )
    return tuple(each for each in found if each)


def _list_left_out(state: ThreadState, record: ContextRecord) -> list[str]:
    """List messages that neither the observation log nor the request contains.

    For observed threads only. No query without candidates, else two.
    """
    if not state.paging.settings.observe:
        return []
    ranges = state.observing.list_uncovered(state.slot_count)
    found = (build_slot_page_id(n) for begin, end in ranges for n in range(begin, end))
    away = [name for name in found if name not in state.paging.frames]
    entries = StoredPageTable(state, ProjectedRows()).list_entries(away) if away else {}
    shown = {
        ref.get_message_location(state.id)
        for section in record.sections
        for ref in section.refs
        if ref.cut != 0
    }
    return [
        name
        for name in away
        if name in entries and entries[name].full.location not in shown
    ]


def _offer_related(
    thread: Thread, state: ThreadState, wanted: PackingInput, opened: Texts
) -> PackingInput:
    """Offer the pages most related to the newest message. Two queries."""
    own = (each for each in wanted.related if each.source not in OTHER_THREADS)
    pages = [opened[each.place].page_id for each in own][:OFFERED]
    offered = {row.page_id for row in wanted.available}
    paging = state.paging
    away = [
        each
        for each in dict.fromkeys(pages)
        if each not in offered and each not in paging.frames and each not in paging.hot
    ]
    entries = {each.page_id: each for each in _list_entries(thread, state, away)}
    return selection.offer_pages(wanted, pages, entries)


def list_home(
    thread: Thread, state: ThreadState, *, limit: int = OFFERED
) -> list[PageEntry]:
    """List the newest pages that are neither mapped nor hot, as of the state.

    Three queries, none if all pages are mapped or hot. In a fork, only the fork's own
    pages.
    """
    paging = state.paging
    if paging.pages == paging.resident:
        return []
    held = {
        name for tier in (paging.frames, paging.hot) for name, _ in list_items(tier)
    }
    # The newest pages are mapped or hot as a rule. Skip them by id: a whole row costs
    # fifty times as much.
    newest = statements.select_newest_pages(
        thread.id, up_to=state.seq, limit=limit + len(held)
    )
    ids = [each for each in newest if each not in held][:limit]
    return _list_entries(thread, state, ids)


def _list_entries(
    thread: Thread, state: ThreadState, ids: Sequence[str]
) -> list[PageEntry]:
    """Return the live pages of these ids, in the given order. Two queries."""
    if not ids:
        return []
    # Filter by the key alone: with an order or a bound on seq, SQLite would walk the
    # pages of the whole thread.
    chosen = '"thread_id" = %s AND "page_id" IN {}'
    made = PAGES_READ.select(chosen, thread.id, chosen=ids)
    home = {row.page_id: row for row in made if row.deleted_seq is None}
    levels: dict[str, list[LevelRow]] = {}
    for level in LEVELS_READ.select(chosen, thread.id, chosen=[*home]) if home else ():
        if level.seq <= state.seq and level.level > FULL:
            levels.setdefault(level.page_id, []).append(level)
    return [
        build_entry(home[each], levels.get(each, ())) for each in ids if each in home
    ]


def get_recorded_turn(thread: Thread, turn: int) -> RecordedTurn:
    """Return the record of a turn's request. At most four queries.

    `thread` comes with its subject. Raises NotFoundError for a turn that has not begun
    and NotRecordedError for a turn whose request was not packed by this server.
    """
    if not 0 < turn <= thread.turn_count:
        raise NotFoundError
    home, row = _find_turn(thread, turn)
    if row is None or row.packed_seq is None:
        raise NotRecordedError
    stored = Event.objects.get(thread_id=home.id, seq=row.packed_seq)
    return open_record(thread, stored, home=home)


def open_record(thread: Thread, stored: Event, *, home: Thread) -> RecordedTurn:
    """Open the record in a turn.packed event of `home`.

    `thread` comes with its subject.
    """
    event = log.to_recorded(stored).event
    assert isinstance(event, TurnPacked)
    payload = texts.open_content(thread, stored)
    return RecordedTurn(
        home=home,
        seq=stored.seq,
        event=event,
        record=context_records.build_record(
            event,
            payload.get("shown", ()),
            thread_name=names.remove_subject(home.name, home.subject_id),
            own=home.id,
        ),
        sha256=payload.get("sha256"),
    )


def _find_turn(thread: Thread, turn: int) -> tuple[Thread, Turn | None]:
    """Return the row of a turn, and the thread or ancestor that began the turn."""
    home: Thread | None = thread
    up_to = None
    while home is not None:
        rows = Turn.objects.filter(thread=home, n=turn)
        if up_to is not None:
            rows = rows.filter(seq__lte=up_to)
        if row := rows.first():
            if up_to is not None and (row.packed_seq or 0) > up_to:
                row.packed_seq = None
            return home, row
        up_to, home = home.fork_seq, home.parent
    return thread, None


def convert_format(found: RecordedTurn, shape: Format) -> RecordedTurn:
    """Convert a record to another API's format, without a digest; else unchanged."""
    record = requests.convert_record(found.record, shape)
    return (
        found if record is found.record else replace(found, record=record, sha256=None)
    )


def reassemble_request(thread: Thread, found: RecordedTurn) -> ReassembledRequest:
    """Reassemble a recorded request, byte for byte.

    One query per thread of the lineage. The result names erased parts; it does not skip
    them.
    """
    own = found.home.id
    places = list_places(found.record, own)
    opened = texts.open_texts(thread, places)
    missing = [place for place in places if place not in opened]
    if missing:
        return ReassembledRequest(
            recorded=found,
            request=None,
            missing=list_page_ids(thread, missing),
            texts=opened,
        )
    packer = packers.PACKERS[found.record.packer]
    request = packer.assemble(found.record, opened, thread=own)
    return ReassembledRequest(recorded=found, request=request, texts=opened)


class PageFates(NamedTuple):
    """Pages mapped when a request was packed: included, cut or omitted."""

    included: tuple[str, ...]
    cut: tuple[TextCut, ...]
    omitted: tuple[str, ...]


def list_fates(thread: Thread, found: RecordedTurn) -> PageFates:
    """Return the fates of pages in a recorded request.

    Three queries; `thread` comes with its subject.
    """
    state = replay.load_state_at(found.home, found.event.as_of_seq).state
    frames = state.paging.list_in_context_order()
    frames.sort(key=lambda frame: not is_system_prompt(frame.entry))
    own = found.home.id
    cuts = {
        ref.get_location(own)[:2]: ref.cut is not None
        for section in found.record.sections
        if section.name != "recall"
        for ref in section.refs
    }
    fate: dict[str, bool] = {}
    for frame in frames:
        # The newest slot's page may appear at a lower level than the mapped one.
        places = [held.location[:2] for held in frame.entry.levels if held is not None]
        shown = [cuts[place] for place in places if place in cuts]
        if shown:
            fate[frame.page_id] = any(shown)
    ids = [frame.page_id for frame in frames]
    return PageFates(
        included=tuple(each for each in ids if fate.get(each) is False),
        cut=list_partial_texts(
            found, texts.open_texts(thread, list_places(found.record, own))
        ),
        omitted=(
            *(each for each in ids if each not in fate),
            *_list_left_out(state, found.record),
        ),
    )


def list_partial_texts(found: RecordedTurn, opened: Texts) -> tuple[TextCut, ...]:
    """Return texts that the request shows only in part, counted as at its packing."""
    count = tokenizers.get_nearest(found.record.tokenizer).count
    return list_cuts(found.record, opened, thread=found.home.id, count=count)


def require_request(found: ReassembledRequest) -> bytes:
    """Return the request's bytes. Raises PageErasedError if a part was erased."""
    if found.request is None:
        raise PageErasedError(pages=len(found.missing))
    return found.request


def list_places(record: ContextRecord, own: UUID) -> list[Location]:
    """List the locations of a record's texts."""
    refs = [ref for section in record.sections for ref in section.refs]
    rows = record.manifest.rows if record.manifest else ()
    places = [ref.get_location(own) for ref in refs]
    places += [ref.get_message_location(own) for ref in refs if ref.message_at]
    named = [record.own_tools] if record.own_tools else []
    named += record.mark_places
    return [*dict.fromkeys([*places, *(row.get_location(own) for row in rows), *named])]


def list_page_ids(thread: Thread, places: list[Location]) -> tuple[str, ...]:
    """Return ids of the pages whose texts lie at these places. One query each."""
    found = []
    for place in places:
        # The place of a lost ref has a negative seq; its text lies at the absolute
        # value.
        rows = Event.objects.filter(thread_id=place.thread, seq=abs(place.seq))
        row = rows.defer("payload").first()
        opened = texts.build_text(row, {}, level=place.level) if row else None
        if opened is not None:
            found.append(opened.page_id)
    return tuple(sorted(set(found)))


def find_previous(thread: Thread, turn: int) -> PreviousRequest | None:
    """Find the record of the previous turn, maybe an ancestor's; None without one."""
    kept = texts.newest.get(_build_cache_key(thread))
    if kept is not None and kept.turn == turn - 1:
        return PreviousRequest(kept.record, thread.id, kept.request)
    try:
        found = get_recorded_turn(thread, turn - 1)
    except (NotFoundError, NotRecordedError):
        return None
    return PreviousRequest(found.record, found.home.id)


def cache_request(thread: Thread, turn: int, packed: Packed) -> None:
    """Cache the request of a turn for the next turn, once the request is stored."""
    kept = NewestRequest(turn, packed.record, packed.request)
    texts.newest.put(_build_cache_key(thread), kept, weight=len(packed.request))


def _build_cache_key(thread: Thread) -> tuple[UUID, int, UUID]:
    """Build the cache key: the subject's epoch in it invalidates earlier requests."""
    return thread.subject_id, thread.subject.epoch, thread.id


def count_prefix_tokens(
    thread: Thread, turn: int, packed: Packed, *, before: PreviousRequest | None
) -> int | None:
    """Count the leading tokens that a request shares with the previous turn's.

    0 for the first turn. None when the previous turn has no record, or when a text to
    compare was erased. The count is recorded with the turn; pages and API routes show
    the recorded count.
    """
    if turn == 1:
        return 0
    if before is None:
        return None
    record, home, held = packed.record, before.home, packed.texts
    places = [each for each in list_places(before.record, home) if each not in held]
    if before.request is None:
        held = {**held, **texts.open_texts(thread, places)} if places else held
    elif texts.list_erased(places):
        return None
    previous = RecordedRequest(
        record=before.record, texts=held, thread=home, made=before.request
    )
    request = RecordedRequest(
        record=record, texts=held, thread=thread.id, made=packed.request
    )
    count = tokenizers.get_nearest(record.tokenizer).count
    try:
        return prefixes.measure_common_prefix(previous, request, count=count).tokens
    except KeyError:
        return None
