"""Episodes: exchanges of a subject's threads, newest first. Never writes.

They have no table: one begins at each message of the user that is still there, and goes
on until the next one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final
from uuid import UUID

from django.db.models import OuterRef, Q, QuerySet, Subquery

from memoryhub.kernel.threads import exchanges
from memoryhub.kernel.threads.exchanges import ToolCall
from memoryhub.models.slots import Slot
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import PART_BYTES, Batch, Listing, fitting
from memoryhub.queries.threads import slots
from memoryhub.queries.threads.events import rows_at
from memoryhub.queries.threads.forks import get_segments
from memoryhub.queries.threads.slots import SlotLine

#: An exchange is over once its thread was silent for so long.
SILENCE: Final = timedelta(minutes=10)
#: Messages that are read of an exchange, from its begin on and again before its end.
READ: Final = 32
#: Of these nobody reads anything.
_HIDDEN = (Thread.Status.IMPORTING, Thread.Status.ERASED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """An exchange: what the user said, and what followed."""

    #: It was read in; with its subject.
    thread: Thread
    input: SlotLine
    #: The last that the assistant said in words; None until it does.
    output: SlotLine | None
    #: What the user and the assistant said, as far as it was read, in its order.
    lines: tuple[SlotLine, ...]
    #: In their order, those in what was not read left out.
    tool_calls: tuple[tuple[SlotLine, ToolCall], ...]
    #: Of the slot after its last one.
    end: int
    ended_at: datetime
    over: bool

    @property
    def occurred_at(self) -> datetime:
        """Give the agent's time, if it said one."""
        return self.input.agent_at or self.input.at

    @property
    def messages(self) -> int:
        return self.end - self.input.index

    @property
    def cut(self) -> bool:
        """Tell whether not all of its messages were read."""
        return self.messages > 2 * READ


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFilter:
    """Which episodes: of one thread of the subject, recorded from <= at < to."""

    #: With its subject.
    thread: Thread | None = None
    begin: datetime | None = None
    end: datetime | None = None

    def plain(self) -> list[Any]:
        return [self.thread and self.thread.id, self.begin, self.end]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """Where an episode lies: [begin, end) of the thread that it is read in."""

    thread: Thread
    begin: int
    end: int
    #: By an exchange that follows.
    ended: bool

    @property
    def parts(self) -> Iterator[tuple[UUID, int, int]]:
        """Yield the threads whose slots these are, from which index to which."""
        for part in get_segments(self.thread):
            first, end = max(self.begin, part.first), min(self.end, part.end)
            if first < end:
                yield part.thread, first, end

    @property
    def where(self) -> Q:
        """Give the condition of the slots that are read of it."""
        near = Q(index__lt=self.begin + READ) | Q(index__gte=self.end - READ)
        found = Q()
        for home, first, end in self.parts:
            found |= Q(thread_id=home, index__gte=first, index__lt=end) & near
        return found

    def take(self, homes: Mapping[UUID, Sequence[Slot]]) -> Iterator[Slot]:
        """Yield its own of slots, which are in the order of their indexes by thread."""
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
) -> Batch[Episode]:
    """List episodes of a subject, newest first, in batches of about 4 MiB at most.

    In a thread that was forked those stand too that it inherited. `subject` comes with
    its project. Three queries. Raises BadCursorError.
    """
    where = where or EpisodeFilter()
    listing = Listing(
        name="episodes",
        project=subject.project_id,
        filters=[subject.id, *where.plain()],
    )
    rows = _matching(subject, where)
    if after is not None:
        rows = rows.filter(_behind(listing.open(after), by_index=bool(where.thread)))
    found = list(rows[: limit + 1])
    spans = [_span(row, where.thread, subject) for row in found[:limit]]
    made, sizes = _read(spans, now=now)
    size = fitting(sizes, max_bytes=PART_BYTES)
    rest, last = size < len(found), found[size - 1] if size else None
    place = last and [last.at.isoformat(), str(last.thread_id), last.index]
    return Batch(
        items=tuple(each for each in made[:size] if each),
        next=listing.seal(place) if rest and place else None,
    )


def _matching(subject: Subject, where: EpisodeFilter) -> QuerySet[Slot]:
    """The messages that begin such episodes, the newest first."""
    rows = _of_thread(where.thread) if where.thread else _of_subject(subject)
    if where.begin is not None:
        rows = rows.filter(at__gte=where.begin)
    if where.end is not None:
        rows = rows.filter(at__lt=where.end)
    return rows


def _begins(until: QuerySet[Slot]) -> QuerySet[Slot]:
    """Slots that begin an episode, with the index of the next one in `until`."""
    following = until.filter(role="user", index__gt=OuterRef("index"))
    rows = Slot.objects.filter(role="user", erased=False)
    return rows.annotate(
        until=Subquery(following.order_by("index").values("index")[:1])
    )


def _of_subject(subject: Subject) -> QuerySet[Slot]:
    rows = _begins(Slot.objects.filter(thread=OuterRef("thread")))
    rows = rows.filter(subject=subject).exclude(thread__status__in=_HIDDEN)
    rows = rows.select_related("thread")
    return rows.order_by("-at", "-thread_id", "-index")


def _of_thread(thread: Thread) -> QuerySet[Slot]:
    own = Q()
    for part in get_segments(thread):
        own |= Q(thread_id=part.thread, index__gte=part.first, index__lt=part.end)
    return _begins(Slot.objects.filter(own)).filter(own).order_by("-index")


def _behind(position: Sequence[Any], *, by_index: bool) -> Q:
    at, thread, index = position
    if by_index:
        return Q(index__lt=index)
    moment, home = datetime.fromisoformat(at), UUID(thread)
    same = Q(at=moment) & (Q(thread_id__lt=home) | Q(thread_id=home, index__lt=index))
    # The first bound is what the index goes by.
    return Q(at__lte=moment) & (Q(at__lt=moment) | same)


def _span(row: Slot, thread: Thread | None, subject: Subject) -> _Span:
    read_in = thread or row.thread
    read_in.subject = subject
    until = row.until  # type: ignore[attr-defined]  # annotated
    end = read_in.slot_count if until is None else until
    return _Span(
        thread=read_in,
        begin=row.index,
        end=max(end, row.index + 1),
        ended=until is not None,
    )


def _read(
    spans: Sequence[_Span], *, now: datetime
) -> tuple[list[Episode | None], list[int]]:
    """The episodes, and how many bytes were read of each. Two queries.

    None for one that was purged meanwhile.
    """
    where = Q()
    for span in spans:
        where |= span.where
    rows = [*Slot.objects.filter(where).order_by("index")] if spans else []
    spoken = [row for row in rows if row.role in ("user", "assistant")]
    events = rows_at([(row.thread_id, row.seq) for row in spoken], content=True)
    homes: dict[UUID, list[Slot]] = {}
    for row in rows:
        homes.setdefault(row.thread_id, []).append(row)
    made, sizes = list[Episode | None](), list[int]()
    for span in spans:
        own = [*span.take(homes)]
        lines = [
            slots.line_of(span.thread, row, stored, content=True)
            for row in own
            if (stored := events.get((row.thread_id, row.seq)))
        ]
        there = bool(lines) and lines[0].index == span.begin
        made.append(_episode(span, lines, own[-1].at, now=now) if there else None)
        sizes.append(sum(line.bytes for line in lines))
    return made, sizes


def _episode(
    span: _Span, lines: Sequence[SlotLine], ended_at: datetime, *, now: datetime
) -> Episode:
    """The first of the lines is the user's, the others are the assistant's."""
    spoken = [
        line for line in lines[1:] if line.erased or exchanges.speaks(line.content)
    ]
    silent = now - ended_at >= SILENCE
    return Episode(
        thread=span.thread,
        input=lines[0],
        output=spoken[-1] if spoken else None,
        lines=tuple(lines),
        tool_calls=tuple(
            (line, call)
            for line in lines[1:]
            for call in exchanges.tool_calls(line.content)
        ),
        end=span.end,
        ended_at=ended_at,
        over=span.ended or span.thread.status != Thread.Status.OPEN or silent,
    )


def list_own(
    thread: Thread, where: Q, *, now: datetime, limit: int = 1
) -> list[Episode]:
    """List the thread's own episodes that begin at such slots, newest first.

    What a fork inherited is its ancestor's. `thread` comes with its subject. Three
    queries.
    """
    rows = _begins(Slot.objects.filter(thread=thread)).filter(where, thread=thread)
    spans = [
        _span(row, thread, thread.subject) for row in rows.order_by("-index")[:limit]
    ]
    made, _ = _read(spans, now=now)
    return [each for each in made if each]


def list_alike(episode: Episode, *, now: datetime, limit: int) -> list[Episode]:
    """List others of its subject whose first message is as long, newest first.

    Three queries, of which one reads along all of the subject's episodes.
    """
    begin = episode.input
    rows = _of_subject(episode.thread.subject)
    rows = rows.filter(bytes=begin.bytes, tokens=begin.tokens)
    rows = rows.exclude(thread_id=begin.home, index=begin.index)
    subject = episode.thread.subject
    made, _ = _read([_span(row, None, subject) for row in rows[:limit]], now=now)
    return [each for each in made if each]
