"""Contexts: the request of a turn packed from a state, or put together from its record.

Never writes, and never runs a policy on what was recorded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

import orjson

from memoryhub.errors import NotFoundError, NotRecordedError, PageErasedError
from memoryhub.journal.log import log
from memoryhub.journal.rows import statements
from memoryhub.journal.rows.page_rows import entry_of
from memoryhub.journal.rows.projections import Rows
from memoryhub.journal.rows.rows import LevelRow
from memoryhub.journal.rows.statements import LEVELS_READ, PAGES_READ
from memoryhub.journal.writing import texts
from memoryhub.journal.writing.page_table import PageTable
from memoryhub.journal.writing.texts import Newest
from memoryhub.kernel.levels.contexts import Record, Texts
from memoryhub.kernel.levels.recalls import ELSEWHERE
from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.packing import (
    context_records,
    packers,
    packing,
    prefixes,
    requests,
    selection,
)
from memoryhub.kernel.packing.choosing import Candidate
from memoryhub.kernel.packing.cuts import Cut, cuts
from memoryhub.kernel.packing.packing import Packed, Wanted
from memoryhub.kernel.packing.prefixes import Request
from memoryhub.kernel.packing.selection import Options
from memoryhub.kernel.state.page_events import TurnPacked
from memoryhub.kernel.state.pages import (
    FULL,
    Entry,
    Location,
    slot_page_id,
    system_prompt,
)
from memoryhub.kernel.state.paging import listed
from memoryhub.kernel.state.paging_config import Format
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import names
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import standing
from memoryhub.queries.replay import replay, tokenizers
from memoryhub.queries.search import recalls

#: Pages at home that a manifest may offer.
OFFERED = 50


class Before(NamedTuple):
    """What the turn before was packed of, and the thread that packed it."""

    record: Record
    home: UUID
    #: Its bytes, if they are at hand.
    request: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The record of a turn, and where it stands."""

    #: The thread that packed it: an ancestor, for a turn that a fork inherits.
    home: Thread
    seq: int
    event: TurnPacked
    record: Record
    #: As it was when the request was handed out; None once that is erased.
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassembled:
    """A recorded request, put together again."""

    recorded: Recorded
    #: None when a part of it was erased.
    request: bytes | None
    #: The texts that were opened for it.
    texts: Texts = field(repr=False)
    #: Ids of the pages whose text is gone.
    missing: tuple[str, ...] = ()

    @property
    def verified(self) -> bool:
        """Whether the bytes hash to what was recorded."""
        if self.request is None:
            return False
        return hashlib.sha256(self.request).hexdigest() == self.recorded.sha256

    @property
    def tokens(self) -> int:
        """As recorded; of a request that was never handed out, as they count now."""
        record = self.recorded.record
        if self.recorded.sha256 is not None or self.request is None:
            return record.tokens
        return tokenizers.nearest(record.tokenizer).count(self.request.decode())


def pack(
    thread: Thread,
    state: ThreadState,
    options: Options,
    *,
    before: Before | None,
) -> Packed:
    """Pack the request that this state leads to, after `before`.

    Counts and changes nothing. `thread` comes with its subject. Three queries for pages
    at home, one for texts, and one more for each ancestor; where an exchange begins
    that may bring something along, those of a search. Raises packing.TooSmallError.
    """
    wanted = selection.wanted(state, options, home=list_home(thread, state))
    if before and before.home == thread.id:
        wanted = selection.continued(wanted, before.record)
    if wanted.log and options.now is not None:
        ranges = [(each.begin, each.end) for each in state.observing.log]
        marks = standing.list_log_marks(thread, ranges, at=options.now)
        wanted = replace(wanted, log_marks=marks)
    places = selection.places(wanted)
    opened = texts.opened(thread, places)
    gone = {*places} - opened.keys() if len(opened) < len(places) else ()
    tokenizer = tokenizers.of(thread)
    wanted = selection.without(wanted, gone)
    if selection.looks_back(wanted, state):
        wanted = recalls.looking_back(thread, state, wanted, opened)
        wanted, brought = recalls.opened(thread, wanted, now=options.now)
        opened |= brought
        wanted = _offering_related(thread, state, wanted, opened)
        rows = [row.location(thread.id) for row in wanted.available]
        opened |= texts.opened(thread, [row for row in rows if row not in opened])
        gone = {row for row in rows if row not in opened}
        wanted = selection.without(wanted, gone)

    def count(page: Candidate) -> Count:
        entry, settings = state.paging.frames[page.page_id].entry, state.paging.settings
        return tokenizers.deriving(
            opened[page.location],
            tokens=entry.full.tokens,
            tokenizer=settings.tokenizer,
        )

    wanted = selection.placed(wanted, opened, count)
    packed = _pack_grown(thread, wanted, opened, before=before)
    if packed is None:
        packed = packing.pack(wanted, opened, tokenizer=tokenizer)
    left = _list_left_out(state, packed.record)
    return replace(packed, omitted=(*packed.omitted, *left)) if left else packed


def _pack_grown(
    thread: Thread, wanted: Wanted, opened: Texts, *, before: Before | None
) -> Packed | None:
    """Pack with what was added to blocks behind what providers have cached.

    None where nothing was, or where the head need not stay, since what follows it does
    not. Two queries where blocks have changed.
    """
    if before is None or before.home != thread.id or not wanted.blocks:
        return None
    record = before.record
    places = [ref.location(thread.id) for ref in record.refs("blocks")]
    if places == [each.place for each in wanted.blocks]:
        return None
    places += [ref.location(thread.id) for ref in record.refs("added")]
    texts_ = {**opened, **texts.opened(thread, places)}
    held = selection.growing(wanted, before.record, texts_)
    if held is None:
        return None
    if wanted.continues:
        held = replace(held, added=_not_by_model(held, before.record, texts_))
    packed = packing.pack(held, texts_, tokenizer=tokenizers.of(thread))
    added = [ref.location(thread.id) for ref in packed.record.refs("added")]
    same = added == [*held.added] and selection.goes_on(before.record, packed.record)
    return packed if same else None


def _not_by_model(
    wanted: Wanted, previous: Record, texts: Texts
) -> tuple[Location, ...]:
    """Return the additions to tell in an exchange that goes on: it begins as it began.

    What its model has added it knows by the result of its call. One query.
    """
    earlier = [ref.location(wanted.thread) for ref in previous.refs("added")]
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


def _list_left_out(state: ThreadState, record: Record) -> list[str]:
    """List messages of an observed thread that no request stands for or has room for.

    No query unless there are any, then two.
    """
    if not state.paging.settings.observe:
        return []
    ranges = state.observing.uncovered(state.slot_count)
    found = (slot_page_id(n) for begin, end in ranges for n in range(begin, end))
    away = [name for name in found if name not in state.paging.frames]
    entries = PageTable(state, Rows()).entries(away) if away else {}
    shown = {
        ref.message(state.id)
        for section in record.sections
        for ref in section.refs
        if ref.cut != 0
    }
    return [
        name
        for name in away
        if name in entries and entries[name].full.location not in shown
    ]


def _offering_related(
    thread: Thread, state: ThreadState, wanted: Wanted, opened: Texts
) -> Wanted:
    """What a manifest offers is what fits the newest message best. Two queries."""
    own = (each for each in wanted.related if each.source != ELSEWHERE)
    pages = [opened[each.place].page_id for each in own][:OFFERED]
    offered = {row.page_id for row in wanted.available}
    paging = state.paging
    away = [
        each
        for each in dict.fromkeys(pages)
        if each not in offered and each not in paging.frames and each not in paging.hot
    ]
    entries = {each.page_id: each for each in _entries(thread, state, away)}
    return selection.offering(wanted, pages, entries)


def list_home(
    thread: Thread, state: ThreadState, *, limit: int = OFFERED
) -> list[Entry]:
    """Return the newest pages that are neither mapped nor hot, as of the state.

    Three queries, none while all are. Of a fork, those that it has made itself.
    """
    paging = state.paging
    if paging.pages == paging.resident:
        return []
    held = {name for tier in (paging.frames, paging.hot) for name, _ in listed(tier)}
    # The newest are mapped or hot as a rule, and are passed over here by their ids: a
    # whole row costs fifty times as much.
    newest = statements.select_newest_pages(
        thread.id, up_to=state.seq, limit=limit + len(held)
    )
    ids = [each for each in newest if each not in held][:limit]
    return _entries(thread, state, ids)


def _entries(thread: Thread, state: ThreadState, ids: Sequence[str]) -> list[Entry]:
    """The pages of these ids that are there, in their order. Two queries."""
    if not ids:
        return []
    # By the key alone: asked for an order, or up to a seq, SQLite walks the pages of
    # the whole thread by it.
    chosen = '"thread_id" = %s AND "page_id" IN {}'
    made = PAGES_READ.where(chosen, thread.id, chosen=ids)
    home = {row.page_id: row for row in made if row.deleted_seq is None}
    levels: dict[str, list[LevelRow]] = {}
    for level in LEVELS_READ.where(chosen, thread.id, chosen=[*home]) if home else ():
        if level.seq <= state.seq and level.level > FULL:
            levels.setdefault(level.page_id, []).append(level)
    return [entry_of(home[each], levels.get(each, ())) for each in ids if each in home]


def recorded(thread: Thread, turn: int) -> Recorded:
    """Return what a turn's request was made of. At most four queries.

    `thread` comes with its subject. Raises NotFoundError for a turn that has not begun
    and NotRecordedError for one whose request was not packed here.
    """
    if not 0 < turn <= thread.turn_count:
        raise NotFoundError
    home, row = _turn(thread, turn)
    if row is None or row.packed_seq is None:
        raise NotRecordedError
    stored = Event.objects.get(thread_id=home.id, seq=row.packed_seq)
    return opened_record(thread, stored, home=home)


def opened_record(thread: Thread, stored: Event, *, home: Thread) -> Recorded:
    """Open the record in a turn.packed of `home`. `thread` comes with its subject."""
    event = log.recorded(stored).event
    assert isinstance(event, TurnPacked)
    payload = log.open_payload(thread.subject, thread.project_id, stored) or {}
    return Recorded(
        home=home,
        seq=stored.seq,
        event=event,
        record=context_records.record_of(
            event,
            payload.get("shown", ()),
            thread_name=names.called(home.name, home.subject_id),
            own=home.id,
        ),
        sha256=payload.get("sha256"),
    )


def _turn(thread: Thread, turn: int) -> tuple[Thread, Turn | None]:
    """The row of a turn, in the thread or in the ancestor that began it."""
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


def otherwise(found: Recorded, shape: Format) -> Recorded:
    """Return the record as of a request for another API, which has no hash."""
    record = requests.otherwise(found.record, shape)
    return (
        found if record is found.record else replace(found, record=record, sha256=None)
    )


def reassemble(thread: Thread, found: Recorded) -> Reassembled:
    """Put a recorded request together, byte for byte. One query a thread of lineage.

    Parts that were erased are named, not skipped over.
    """
    own = found.home.id
    places = record_places(found.record, own)
    opened = texts.opened(thread, places)
    missing = [place for place in places if place not in opened]
    if missing:
        return Reassembled(
            recorded=found,
            request=None,
            missing=page_ids(thread, missing),
            texts=opened,
        )
    packer = packers.PACKERS[found.record.packer]
    request = packer.assemble(found.record, opened, thread=own)
    return Reassembled(recorded=found, request=request, texts=opened)


class Fates(NamedTuple):
    """What became of each page that was mapped when a request was packed."""

    included: tuple[str, ...]
    cut: tuple[Cut, ...]
    omitted: tuple[str, ...]


def fates(thread: Thread, found: Recorded) -> Fates:
    """Return the fates that packing has recorded.

    Three queries; `thread` comes with its subject.
    """
    state = replay.state_at(found.home, found.event.as_of_seq).state
    frames = state.paging.in_order()
    frames.sort(key=lambda frame: not system_prompt(frame.entry))
    own = found.home.id
    cuts = {
        ref.location(own)[:2]: ref.cut is not None
        for section in found.record.sections
        if section.name != "recall"
        for ref in section.refs
    }
    fate: dict[str, bool] = {}
    for frame in frames:
        # Of one page, the newest slot may stand there less faithfully than mapped.
        places = [held.location[:2] for held in frame.entry.levels if held is not None]
        shown = [cuts[place] for place in places if place in cuts]
        if shown:
            fate[frame.page_id] = any(shown)
    ids = [frame.page_id for frame in frames]
    return Fates(
        included=tuple(each for each in ids if fate.get(each) is False),
        cut=cuts_of(found, texts.opened(thread, record_places(found.record, own))),
        omitted=(
            *(each for each in ids if each not in fate),
            *_list_left_out(state, found.record),
        ),
    )


def cuts_of(found: Recorded, opened: Texts) -> tuple[Cut, ...]:
    """Return what the request shows only in part, counted as it was packed."""
    count = tokenizers.nearest(found.record.tokenizer).count
    return cuts(found.record, opened, thread=found.home.id, count=count)


def require(found: Reassembled) -> bytes:
    """Return the request itself. Raises PageErasedError when a part of it is gone."""
    if found.request is None:
        raise PageErasedError(pages=len(found.missing))
    return found.request


def record_places(record: Record, own: UUID) -> list[Location]:
    """Return where the texts of a record lie."""
    refs = [ref for section in record.sections for ref in section.refs]
    rows = record.manifest.rows if record.manifest else ()
    places = [ref.location(own) for ref in refs]
    places += [ref.message(own) for ref in refs if ref.message_at]
    named = [record.own_tools] if record.own_tools else []
    named += record.mark_places
    return [*dict.fromkeys([*places, *(row.location(own) for row in rows), *named])]


def page_ids(thread: Thread, places: list[Location]) -> tuple[str, ...]:
    """Return the pages whose texts lie there. One query a thread."""
    found = []
    for place in places:
        # A lost ref lies before all events, its text where it was.
        rows = Event.objects.filter(thread_id=place.thread, seq=abs(place.seq))
        row = rows.defer("payload").first()
        opened = texts.opened_text(row, {}, level=place.level) if row else None
        if opened is not None:
            found.append(opened.page_id)
    return tuple(sorted(set(found)))


def before(thread: Thread, turn: int) -> Before | None:
    """Return the record of the turn before, perhaps an ancestor's; None without one."""
    kept = texts.newest.get(_place(thread))
    if kept is not None and kept.turn == turn - 1:
        return Before(kept.record, thread.id, kept.request)
    try:
        found = recorded(thread, turn - 1)
    except (NotFoundError, NotRecordedError):
        return None
    return Before(found.record, found.home.id)


def keep(thread: Thread, turn: int, packed: Packed) -> None:
    """Keep the request of a turn, now that it is on disk, for the turn after it."""
    kept = Newest(turn, packed.record, packed.request)
    texts.newest.put(_place(thread), kept, weight=len(packed.request))


def _place(thread: Thread) -> tuple[UUID, int, UUID]:
    """A subject whose epoch moves is never served what was kept of it."""
    return thread.subject_id, thread.subject.epoch, thread.id


def prefix_tokens(
    thread: Thread, turn: int, packed: Packed, *, before: Before | None
) -> int | None:
    """Count the leading tokens that a request shares with that of the turn before.

    None of the first turn's, and unknown when the turn before has no record, or has
    lost a text that would have to be compared. Recorded with the turn: what every
    screen and route says of it later.
    """
    if turn == 1:
        return 0
    if before is None:
        return None
    record, home, held = packed.record, before.home, packed.texts
    places = [each for each in record_places(before.record, home) if each not in held]
    if before.request is None:
        held = {**held, **texts.opened(thread, places)} if places else held
    elif texts.erased(places):
        return None
    previous = Request(
        record=before.record, texts=held, thread=home, made=before.request
    )
    request = Request(record=record, texts=held, thread=thread.id, made=packed.request)
    count = tokenizers.nearest(record.tokenizer).count
    try:
        return prefixes.common(previous, request, count=count).tokens
    except KeyError:
        return None
