"""Search terms of threads: read from events, sealed in segments, opened again."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from datetime import datetime
from functools import cache, partial
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import transaction

from memoryhub.errors import KeyMissingError, SubjectErasedError
from memoryhub.journal.log import fence, log
from memoryhub.journal.rows.rows import EventTableRow
from memoryhub.journal.rows.statements import EVENTS_READ
from memoryhub.kernel.memory.key_events import KeyRetimed, KeySet
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.search import contents, segments, terms
from memoryhub.kernel.search.arrays import Numbers, np
from memoryhub.kernel.search.index import Index, Span
from memoryhub.kernel.search.parsing import to_microseconds
from memoryhub.kernel.search.segments import (
    DELETED,
    ERASED,
    STRUCK,
    IndexSegment,
    SearchRecord,
)
from memoryhub.kernel.state.bodies import EventBody as Body
from memoryhub.kernel.state.erase_events import RecordsErased
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import PageDeleted, PageUpdated, SlotStruck
from memoryhub.kernel.state.pages import compute_request_turn
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.threads.slots import parse_agent_time
from memoryhub.models.events import Event, ThreadTerms
from memoryhub.models.slots import Turn
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import DueValue, Key
from memoryhub.vault.keys import keys, payloads
from memoryhub.vault.registry.lru import Lru

#: Events that end a record found earlier, and events read for searches.
ENDING = (PageDeleted.event_type, RecordsErased.event_type, KeyRetimed.event_type)
READ = (
    *(name for name, event in TYPES.items() if event.searched),
    *ENDING,
    SlotStruck.event_type,
)
#: Events read in one statement.
CHUNK = 1_000

#: The process's indexes, by subject and epoch; for one thread and its forks also by the
#: oldest thread, so that a turn never searches everything of a subject.
indexes: Lru[tuple[UUID, int, UUID | None], Index] = Lru(
    settings.SEARCH_BYTES,
    name="indexes for searches",
    unit_bytes=1,
    # A thread of 200,000 events fills the cache: made anew, its index costs a search
    # half a second of CPU, and takes as much memory as it does here.
    largest=4 * settings.SEARCH_BYTES,
)


#: Most events of a thread whose words are hashed: a longer one has an index.
SHORT = 1_000
_HASH = 0xFFFFFFFF
#: Microseconds.
_DAY = 86_400_000_000


class ThreadHashes(NamedTuple):
    """Sorted hashes of the terms, stems and neighbours in a thread, up to its head.

    Python hashes text by a secret of the process, so no hash tells its word.
    """

    epoch: int
    head: int
    values: Numbers


#: The process's hashes by thread, which say what a thread can't hold.
hashed: Lru[UUID, ThreadHashes] = Lru(
    32 * 1_048_576, name="hashed words of threads", unit_bytes=1
)


class ReadRecords(NamedTuple):
    """Records of a thread, and up to which seq the thread was read."""

    records: list[SearchRecord]
    #: Last seq that was read.
    upto: int
    #: An event was read that may end a record found earlier.
    ending: bool
    #: Number of events that were opened.
    opened: int


def forget(subject: UUID) -> None:
    """Drop this process's indexes of a subject; others notice by stored rows."""
    indexes.drop(lambda key, _: key[0] == subject)


def hash_term(term: str) -> int:
    """Hash a term or a stem as `read_hashes` does."""
    return hash(term) & _HASH


def hash_neighbours(found: Sequence[str]) -> set[int]:
    """Hash each two terms that follow each other, as `read_hashes` does."""
    return {hash(pair) & _HASH for pair in pairwise(found)}


def read_hashes(threads: Sequence[Thread]) -> dict[UUID, Numbers]:
    """Read the hashes of short threads that are no forks; leave out the others.

    `threads` come with their subjects. Two queries, or none where no thread moved.
    """
    short = {
        each.id: each
        for each in threads
        if each.parent_id is None and each.head_seq <= SHORT
    }
    found, new = dict[UUID, Numbers](), dict[UUID, Thread]()
    for row in short.values():
        held = hashed.get(row.id)
        if held and (held.epoch, held.head) == (row.subject.epoch, row.head_seq):
            found[row.id] = held.values
        else:
            new[row.id] = row
    if not new:
        return found
    keys.load_subject_keys({row.subject_id: row.subject.epoch for row in new.values()})
    for row, values in _iter_hashes(new):
        found[row.id] = values
        held = ThreadHashes(row.subject.epoch, row.head_seq, values)
        hashed.put(row.id, held, weight=values.nbytes + 300)
    return found


def _iter_hashes(new: dict[UUID, Thread]) -> Iterator[tuple[Thread, Numbers]]:
    types = ", ".join(["%s"] * len(READ))
    condition = f'"type" IN ({types}) AND "thread_id" IN {{}}'
    events = defaultdict[UUID, list[EventTableRow]](list)
    for event in EVENTS_READ.select(condition, *READ, chosen=[*new]):
        events[event.thread_id].append(event)
    # Stems and dates are kept for these threads only.
    stem, build_dates = cache(terms.build_stemmer()), cache(terms.build_date_terms)
    for row in new.values():
        try:
            reading = _RecordReader.build(row)
        except (KeyMissingError, SubjectErasedError):
            continue
        every, pairs = set[str](), set[int]()
        for record in filter(None, map(reading.read_record, events[row.id])):
            found = terms.list_terms(record.text)
            every.update(found)
            pairs |= hash_neighbours(found)
            every.update(terms.list_terms(record.sender))
            every.update(build_dates(record.time // _DAY * _DAY))
        yield row, _sort_hashes({*map(hash_term, {*every, *map(stem, every)}), *pairs})


def _sort_hashes(hashes: Iterable[int]) -> Numbers:
    values = np.fromiter(hashes, np.uint32)
    values.sort()
    return values


def read(thread: Thread, span: Span, *, most: int) -> ReadRecords:
    """Read the records of a span of a thread, opening `most` of its events at most.

    `thread` comes with its subject. Two queries, one for each thousand events, two more
    where the span has values.
    """
    first, last = span
    reading = _RecordReader.start(thread, span)
    records, upto, ending, opened = list[SearchRecord](), last, False, 0
    for row in _iter_rows(thread.id, first, last):
        if opened >= most:
            return ReadRecords(records, row.seq - 1, ending, opened)
        event = log.to_recorded(row).event
        ending |= _is_ending(event)
        opened += event.searched is not None
        if (record := reading.to_record(row, event)) is not None:
            records.append(record)
    return ReadRecords(records, upto, ending, opened)


def _iter_rows(thread: UUID, first: int, last: int) -> Iterator[EventTableRow]:
    after = first - 1
    while after < last:
        batch = EVENTS_READ.select(
            f'"thread_id" = %s AND "seq" > %s AND "seq" <= %s AND "type" IN {{}} '
            f'ORDER BY "seq" LIMIT {CHUNK}',
            *(thread, after, last),
            chosen=READ,
        )
        yield from batch
        if len(batch) < CHUNK:
            return
        after = batch[-1].seq


def _is_ending(event: Body) -> bool:
    if isinstance(event, KeyRetimed):
        return event.expires_at is not None
    return event.event_type in ENDING


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecordReader:
    """Reader of a thread's events as records, with its key and turns."""

    opener: Any
    #: Seqs at which turns of the span began, and the number of the first turn.
    turns: Sequence[int]
    first_turn: int
    #: Seqs of values that expire; read when the first value comes.
    passing: Callable[[], Collection[int]]

    @classmethod
    def build(cls, thread: Thread) -> _RecordReader:
        """Build a reader of texts, which knows neither turns nor expiring values."""
        address = _build_address(thread, 0, payloads.Purpose.PAYLOAD)
        key = keys.get_subject_keys(thread.subject_id, epoch=thread.subject.epoch)
        opener = payloads.build_opener(key, address)
        return cls(opener=opener, turns=(), first_turn=1, passing=frozenset)

    @classmethod
    def start(cls, thread: Thread, span: Span) -> _RecordReader:
        turns = Turn.objects.filter(thread=thread).order_by("n")
        began = [*turns.filter(seq__range=span).values_list("n", "seq")]
        before = None
        if not began:
            before = turns.filter(seq__lt=span[0]).values_list("n", flat=True).last()
        return replace_fields(
            cls.build(thread),
            turns=[seq for _, seq in began],
            first_turn=began[0][0] if began else (before or thread.turn_count) + 1,
            passing=cache(partial(_list_expiring, thread.id)),
        )

    def read_record(self, row: EventTableRow) -> SearchRecord | None:
        """Read an event as a record; None for an event without anything to find."""
        return self.to_record(row, log.to_recorded(row).event)

    def to_record(self, row: EventTableRow, event: Body) -> SearchRecord | None:
        """Return an event as a record; None for an event without anything to find."""
        page = contents.get_page_id(event)
        if isinstance(event, SlotStruck):
            return self._build_record(row, event, STRUCK, "")
        if isinstance(event, PageDeleted):
            return self._build_record(row, event, DELETED, "", page=event.page_id)
        if isinstance(event, RecordsErased):
            inherited = any(each[0] != row.thread_id for each in event.ranges)
            return self._build_record(row, event, ERASED, "") if inherited else None
        if (
            event.searched is None
            or row.payload is None
            or self._is_expiring(row, event)
        ):
            return None
        payload = strict_json.parse_stored(self.opener(row.seq, bytes(row.payload)))
        # A changed importance is no new version.
        if isinstance(event, PageUpdated) and "content" not in payload:
            return None
        text = contents.build_text(event, payload)
        if text is None:
            return None
        kind, at = contents.get_kind(event), parse_agent_time(payload)
        return self._build_record(row, event, kind, text, page=page, at=at)

    def _build_record(
        self,
        row: EventTableRow,
        event: Body,
        kind: str,
        text: str,
        *,
        page: str = "",
        at: datetime | None = None,
    ) -> SearchRecord:
        turn = self.first_turn - 1 + bisect_right(self.turns, row.seq)
        if isinstance(event, SlotAppended):
            turn = compute_request_turn(turn, event.role)
        return SearchRecord(
            seq=row.seq,
            time=to_microseconds(at or row.at),
            turn=turn,
            kind=kind,
            role=getattr(event, "role", None) or "",
            type=getattr(event, "type", None) or "",
            page=page,
            text=text,
            sender=event.from_name if isinstance(event, SlotAppended) else "",
        )

    def _is_expiring(self, row: EventTableRow, event: Body) -> bool:
        if not isinstance(event, KeySet):
            return False
        return event.expires_at is not None or row.seq in self.passing()


def _list_expiring(thread: UUID) -> set[int]:
    dues = DueValue.objects.filter(thread_id=thread).values_list("seq", flat=True)
    held = Key.objects.filter(value_thread=thread, expires_at__isnull=False)
    return {*dues, *held.values_list("value_seq", flat=True)}


def seal_row(thread: Thread, span: Span, segment: IndexSegment) -> ThreadTerms:
    """Seal a segment into its row. `thread` comes with its subject."""
    key = keys.get_subject_keys(thread.subject_id, epoch=thread.subject.epoch)
    address = _build_address(thread, span[1], payloads.Purpose.TERMS)
    return ThreadTerms(
        thread_id=thread.id,
        first_seq=span[0],
        upto_seq=span[1],
        sealed=payloads.seal(key, address, segments.to_bytes(segment)),
    )


def open_segment(thread: Thread, row: ThreadTerms) -> IndexSegment | None:
    """Open a segment; None when its terms are of another version."""
    key = keys.get_subject_keys(thread.subject_id, epoch=thread.subject.epoch)
    address = _build_address(thread, row.upto_seq, payloads.Purpose.TERMS)
    return segments.from_bytes(payloads.open_sealed(key, address, bytes(row.sealed)))


def replace(
    thread: Thread, old: Sequence[ThreadTerms], new: ThreadTerms, *, head: int
) -> bool:
    """Replace segments by one; False if the source events or segments have changed.

    In the writer's transaction. `head` is up to where the thread was read: what was
    erased since then must not come back.
    """
    with transaction.atomic():
        fenced = fence.hold([thread.subject_id]).get(thread.subject_id)
        if fenced is None or fenced.epoch != thread.subject.epoch:
            return False
        alive = fenced.state in (Subject.State.ACTIVE, Subject.State.RESTRICTED)
        rows = Thread.objects.select_for_update().filter(id=thread.id)
        status = rows.values_list("status", flat=True).first()
        if not alive or status in (None, Thread.Status.ERASED):
            return False
        ended = Event.objects.filter(thread_id=thread.id, seq__gt=head, type__in=ENDING)
        seqs = [row.upto_seq for row in old]
        there = ThreadTerms.objects.filter(thread=thread, upto_seq__in=seqs)
        if ended.exists() or there.count() != len(seqs):
            return False
        there.delete()
        new.save(force_insert=True)
    return True


def _build_address(
    thread: Thread, seq: int, purpose: payloads.Purpose
) -> payloads.PayloadAddress:
    return payloads.PayloadAddress(
        project=thread.project_id,
        subject=thread.subject_id,
        thread=thread.id,
        seq=seq,
        purpose=purpose,
    )
