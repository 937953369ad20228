"""Episodes: exchanges of a subject's threads, newest first. Never writes.

Episodes have no table. An episode begins at each message of the user that is not
erased, and ends before the next message of the user.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from django.db.models import OuterRef, Q, QuerySet, Subquery

from memoryhub.journal import texts
from memoryhub.kernel.threads import exchanges
from memoryhub.kernel.threads.exchanges import AssistantCall
from memoryhub.kernel.threads.slots import compute_occurred, parse_agent_time
from memoryhub.models.events import Event
from memoryhub.models.slots import SHOWN, Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import (
    PART_BYTES,
    ListBatch,
    ListScope,
    count_fitting,
)
from memoryhub.queries.threads import slots
from memoryhub.queries.threads.events import get_rows_at
from memoryhub.queries.threads.forks import get_segments
from memoryhub.queries.threads.slots import SlotLine

#: Silence of a thread after which its last exchange is over.
SILENCE: Final = timedelta(minutes=10)
#: Messages that are read of an exchange, at its begin and again at its end.
READ: Final = 32
#: Most episodes that a filtered list looks at, and of these at once.
LOOKED: Final = 2_000
_AT_ONCE: Final = 200
#: Threads of these states have no episodes.
_HIDDEN = (Thread.Status.IMPORTING, Thread.Status.ERASED)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeView:
    """An exchange: a message of the user, and the messages that follow."""

    #: The thread that the episode was read in, with its subject.
    thread: Thread
    input: SlotLine
    #: The assistant's last message with words; None without one.
    output: SlotLine | None
    #: Messages of the user and the assistant that were read, in order.
    lines: tuple[SlotLine, ...]
    #: Tool calls of the messages that were read, in order.
    tool_calls: tuple[tuple[SlotLine, AssistantCall], ...]
    #: Index of the slot after the last slot.
    end: int
    ended_at: datetime
    over: bool

    @property
    def occurred_at(self) -> datetime:
        """Return when it was: the agent's time, but not later than its recording."""
        return compute_occurred(self.input.agent_at, self.input.at)

    @property
    def messages(self) -> int:
        return self.end - self.input.index

    @property
    def cut(self) -> bool:
        """Tell whether some messages of the episode were not read."""
        return self.messages > 2 * READ


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFilter:
    """Filter of episodes by thread and by when they were, begin <= occurred < end."""

    #: A thread of the subject, with the subject; None for all threads.
    thread: Thread | None = None
    begin: datetime | None = None
    end: datetime | None = None
    #: Time before which the episodes were recorded.
    recorded_before: datetime | None = None
    #: State of consolidation, for the cursor; the caller's `keeps` compares it.
    consolidation: str | None = None

    def to_json(self) -> list[Any]:
        thread = self.thread and self.thread.id
        others = [self.recorded_before, self.consolidation]
        return [thread, self.begin, self.end, *others]

    def has_time(self, at: datetime) -> bool:
        """Tell whether an episode of that time passes."""
        return (self.begin is None or self.begin <= at) and (
            self.end is None or at < self.end
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _EpisodeSpan:
    """Slot indexes [begin, end) of an episode in the thread that it is read in."""

    thread: Thread
    begin: int
    end: int
    #: Whether another exchange follows.
    ended: bool

    @property
    def parts(self) -> Iterator[tuple[UUID, int, int]]:
        """Yield each thread that stores slots of the episode: (thread, first, end)."""
        for part in get_segments(self.thread):
            first, end = max(self.begin, part.first), min(self.end, part.end)
            if first < end:
                yield part.thread, first, end

    @property
    def where(self) -> Q:
        """Return the condition of the slots to read of the episode."""
        near = Q(index__lt=self.begin + READ) | Q(index__gte=self.end - READ)
        found = Q()
        for home, first, end in self.parts:
            found |= Q(thread_id=home, index__gte=first, index__lt=end) & near
        return found

    def iter_own_slots(self, homes: Mapping[UUID, Sequence[Slot]]) -> Iterator[Slot]:
        """Yield the slots of the episode out of `homes`: rows by thread, by index."""
        index = attrgetter("index")
        for home, first, end in self.parts:
            rows = homes.get(home, ())
            begin = bisect_left(rows, first, key=index)
            yield from rows[begin : bisect_left(rows, end, key=index)]


def list_episodes(
    subject: Subject,
    where: EpisodeFilter | None = None,
    *,
    now: datetime,
    after: str | None = None,
    limit: int = 50,
    keeps: Callable[[UUID, int], bool] | None = None,
) -> ListBatch[EpisodeView]:
    """List episodes of a subject, newest record first, in batches of about 4 MiB.

    Episodes of a forked thread include the inherited ones. `keeps` filters by the
    thread and the index of the first slot. A filter of times opens the first messages;
    a batch ends after LOOKED episodes. `subject` comes with its project. Three queries,
    with times one more for 200 episodes, in a fork one for each journal that it
    inherits. Raises BadCursorError.
    """
    where = where or EpisodeFilter()
    listing = ListScope(
        name="episodes",
        project=subject.project_id,
        filters=[subject.id, *where.to_json()],
    )
    rows = _select_matching_begins(subject, where)
    if after is not None:
        rows = rows.filter(
            _filter_after_cursor(listing.open(after), by_index=bool(where.thread))
        )
    found, stopped = _find_begins(subject, rows, where, keeps, limit=limit)
    spans = [_build_span(row, where.thread, subject) for row in found[:limit]]
    made, sizes = _read_episodes(spans, now=now)
    size = count_fitting(sizes, max_bytes=PART_BYTES)
    rest, last = size < len(found), found[size - 1] if size else None
    if stopped is not None and not rest:
        rest, last = True, stopped
    place = last and [last.at.isoformat(), str(last.thread_id), last.index]
    return ListBatch(
        items=tuple(each for each in made[:size] if each),
        next=listing.seal(place) if rest and place else None,
    )


def _select_matching_begins(subject: Subject, where: EpisodeFilter) -> QuerySet[Slot]:
    """Select the messages that begin matching episodes, newest first."""
    rows = (
        _select_thread_begins(where.thread)
        if where.thread
        else _select_subject_begins(subject)
    )
    if where.begin is not None:
        # Nothing happened after it was recorded.
        rows = rows.filter(at__gte=where.begin)
    if where.recorded_before is not None:
        rows = rows.filter(at__lt=where.recorded_before)
    return rows


def _find_begins(
    subject: Subject,
    rows: QuerySet[Slot],
    where: EpisodeFilter,
    keeps: Callable[[UUID, int], bool] | None,
    *,
    limit: int,
) -> tuple[list[Slot], Slot | None]:
    """Find the first `limit` + 1 begins that pass, and where the search stopped short.

    None unless LOOKED begins were looked at and more may follow.
    """
    timed = where.begin is not None or where.end is not None
    if not timed and keeps is None:
        return list(rows[: limit + 1]), None
    found, last, looked = list[Slot](), None, 0
    every = rows[:LOOKED].iterator(chunk_size=_AT_ONCE)
    while len(found) <= limit and (batch := [*islice(every, _AT_ONCE)]):
        last, looked = batch[-1], looked + len(batch)
        own = [row for row in batch if keeps is None or keeps(row.thread_id, row.index)]
        times = _open_times(subject, own) if timed else {}
        found += [
            row
            for row in own
            if not timed
            or where.has_time(
                compute_occurred(times.get((row.thread_id, row.seq)), row.at)
            )
        ]
    return found[: limit + 1], last if looked == LOOKED else None


def _open_times(
    subject: Subject, rows: Sequence[Slot]
) -> dict[tuple[UUID, int], datetime | None]:
    """Return the agents' times of messages, by thread and seq. One query."""
    events = Event.objects.filter_places([(row.thread_id, row.seq) for row in rows])
    opened = (
        (row, texts.open_payload(subject, subject.project_id, row))
        for row in events.only("thread_id", "seq", "payload")
    )
    return {
        (row.thread_id, row.seq): parse_agent_time(payload or {})
        for row, payload in opened
    }


def _select_begins(until: QuerySet[Slot]) -> QuerySet[Slot]:
    """Select slots that begin an episode; `until` is the index of the next begin."""
    following = until.filter(role="user", index__gt=OuterRef("index"))
    rows = Slot.objects.filter(SHOWN, role="user")
    return rows.annotate(
        until=Subquery(following.order_by("index").values("index")[:1])
    )


def _select_subject_begins(subject: Subject) -> QuerySet[Slot]:
    rows = _select_begins(Slot.objects.filter(thread=OuterRef("thread")))
    rows = rows.filter(subject=subject).exclude(thread__status__in=_HIDDEN)
    rows = rows.select_related("thread")
    return rows.order_by("-at", "-thread_id", "-index")


def _select_thread_begins(thread: Thread) -> QuerySet[Slot]:
    own = Q()
    for part in get_segments(thread):
        own |= Q(thread_id=part.thread, index__gte=part.first, index__lt=part.end)
    rows = _select_begins(Slot.objects.filter(thread=OuterRef("thread")))
    return rows.filter(own).order_by("-index")


def _find_next_begin(thread: Thread, row: Slot, until: int | None) -> int | None:
    """Find the next begin after an episode of the thread, which a fork may inherit.

    `until` is the next begin in the journal that stores the row. One query for each
    later journal up to the begin, if the journal has none before the fork.
    """
    parts = get_segments(thread)
    place = next(n for n, part in enumerate(parts) if row.thread_id == part.thread)
    later = parts[place + 1 :]
    if not later or (until is not None and until < parts[place].end):
        return until
    for part in later:
        rows = Slot.objects.filter(thread=part.thread, role="user")
        rows = rows.filter(index__gte=part.first, index__lt=part.end)
        begin = rows.order_by("index").values_list("index", flat=True).first()
        if begin is not None:
            return begin
    return None


def _filter_after_cursor(position: Sequence[Any], *, by_index: bool) -> Q:
    at, thread, index = position
    if by_index:
        return Q(index__lt=index)
    moment, home = datetime.fromisoformat(at), UUID(thread)
    same = Q(at=moment) & (Q(thread_id__lt=home) | Q(thread_id=home, index__lt=index))
    # The database index uses the first bound.
    return Q(at__lte=moment) & (Q(at__lt=moment) | same)


def _build_span(row: Slot, thread: Thread | None, subject: Subject) -> _EpisodeSpan:
    read_in = thread or row.thread
    read_in.subject = subject
    until = row.until  # type: ignore[attr-defined]  # annotated
    if thread:
        until = _find_next_begin(thread, row, until)
    end = read_in.slot_count if until is None else until
    return _EpisodeSpan(
        thread=read_in,
        begin=row.index,
        end=max(end, row.index + 1),
        ended=until is not None,
    )


def _read_episodes(
    spans: Sequence[_EpisodeSpan], *, now: datetime
) -> tuple[list[EpisodeView | None], list[int]]:
    """Read the episodes of spans, and the bytes read of each. Two queries.

    None for an episode that was purged meanwhile.
    """
    where = Q()
    for span in spans:
        where |= span.where
    rows = (
        [*Slot.objects.filter(where, struck_seq=None).order_by("index")]
        if spans
        else []
    )
    spoken = [row for row in rows if row.role in ("user", "assistant")]
    events = get_rows_at([(row.thread_id, row.seq) for row in spoken], content=True)
    homes: dict[UUID, list[Slot]] = {}
    for row in rows:
        homes.setdefault(row.thread_id, []).append(row)
    made, sizes = list[EpisodeView | None](), list[int]()
    for span in spans:
        own = [*span.iter_own_slots(homes)]
        lines = [
            slots.build_line(span.thread, row, stored, content=True)
            for row in own
            if (stored := events.get((row.thread_id, row.seq)))
        ]
        there = bool(lines) and lines[0].index == span.begin
        made.append(_build_episode(span, lines, own[-1].at, now=now) if there else None)
        sizes.append(sum(line.bytes for line in lines))
    return made, sizes


def _build_episode(
    span: _EpisodeSpan, lines: Sequence[SlotLine], ended_at: datetime, *, now: datetime
) -> EpisodeView:
    """Build an episode: its first line is the user's, the others the assistant's."""
    spoken = [
        line for line in lines[1:] if line.erased or exchanges.has_words(line.content)
    ]
    silent = now - ended_at >= SILENCE
    return EpisodeView(
        thread=span.thread,
        input=lines[0],
        output=spoken[-1] if spoken else None,
        lines=tuple(lines),
        tool_calls=tuple(
            (line, call)
            for line in lines[1:]
            for call in exchanges.list_tool_calls(line.content)
        ),
        end=span.end,
        ended_at=ended_at,
        over=span.ended or span.thread.status != Thread.Status.OPEN or silent,
    )


def list_own(
    thread: Thread, where: Q, *, now: datetime, limit: int = 1
) -> list[EpisodeView]:
    """List the thread's own episodes that begin at slots of `where`, newest first.

    Leaves out episodes that a fork inherited. `thread` comes with its subject. Three
    queries.
    """
    rows = _select_begins(Slot.objects.filter(thread=thread)).filter(
        where, thread=thread
    )
    spans = [
        _build_span(row, thread, thread.subject)
        for row in rows.order_by("-index")[:limit]
    ]
    made, _ = _read_episodes(spans, now=now)
    return [each for each in made if each]


def select_ended_begins(subject: Subject, *, now: datetime) -> QuerySet[Slot]:
    """Select the messages that begin episodes that are over, newest first.

    Rows come with their threads; forks leave out what they inherit.
    """
    newest = Slot.objects.filter(thread=OuterRef("thread")).order_by("-index")
    rows = _select_subject_begins(subject).annotate(last=newest.values("at")[:1])
    closed = ~Q(thread__status=Thread.Status.OPEN)
    return rows.filter(closed | Q(until__isnull=False) | Q(last__lte=now - SILENCE))


def list_alike(episode: EpisodeView, *, now: datetime, limit: int) -> list[EpisodeView]:
    """List the subject's other episodes whose first message is as long, newest first.

    Three queries; one of the three scans all of the subject's episodes.
    """
    begin = episode.input
    rows = _select_subject_begins(episode.thread.subject)
    rows = rows.filter(bytes=begin.bytes, tokens=begin.tokens)
    rows = rows.exclude(thread_id=begin.home, index=begin.index)
    subject = episode.thread.subject
    made, _ = _read_episodes(
        [_build_span(row, None, subject) for row in rows[:limit]], now=now
    )
    return [each for each in made if each]
