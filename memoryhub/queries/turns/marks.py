"""Marked turns: of a thread as of any event, and of a project. Never writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from memoryhub.journal import texts
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.turn_marks import MarkWord
from memoryhub.kernel.turns.marks import TurnMarked
from memoryhub.models.events import Event
from memoryhub.models.slots import MarkedTurn
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import ListBatch, ListScope
from memoryhub.queries.replay.state_files import CHUNK, StateFile, build_record


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkLine:
    """The mark that counts of a turn."""

    turn: int
    mark: MarkWord
    at: datetime
    by: str
    #: None without a comment.
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedTurnLine(MarkLine):
    """A marked turn in the list of a project."""

    #: The thread, with its subject.
    thread: Thread


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMarkRecord:
    """The mark of a turn: its answer is wrong or good."""

    thread: UUID
    turn: int
    mark: str
    at: datetime
    by: str
    comment: str | None


def list_marks(
    thread: Thread, state: ThreadState, turns: Collection[int]
) -> dict[int, MarkLine]:
    """Return the marks of these turns as of a state, with comments, by turn.

    One query for 500 marks, none without any. `thread` comes with its subject.
    """
    marks = {n: mark for n in turns if (mark := state.marks.get(n))}
    opened = texts.open_events(thread, state, [mark.clock for mark in marks.values()])
    return {
        n: MarkLine(
            turn=n,
            mark=mark.word,
            at=opened[mark.clock].at,
            by=opened[mark.clock].actor,
            comment=(opened[mark.clock].content or {}).get("comment"),
        )
        for n, mark in marks.items()
    }


def list_current_marks(thread: Thread, turns: Collection[int]) -> list[MarkedTurnLine]:
    """List the marks of these turns that count now. Two queries, no fold."""
    rows = MarkedTurn.objects.filter(thread=thread, turn__in=[*turns])
    return [*_iter_lines([*rows.select_related("thread__subject")])]


def list_marked_turns(
    project: UUID,
    *,
    mark: MarkWord | None = None,
    bound: UUID | None = None,
    after: str | None = None,
    limit: int = 50,
) -> ListBatch[MarkedTurnLine]:
    """List the marked turns of a project, newest mark first; of a subject if `bound`.

    Two queries. Leaves out threads of restricted and erased subjects. Raises
    BadCursorError.
    """
    listing = ListScope(name="marked-turns", project=project, filters=[mark, bound])
    rows = MarkedTurn.objects.filter(project_id=project)
    # Other subjects are few, and one that is erased soon has no rows.
    rows = rows.filter(subject__state=Subject.State.ACTIVE)
    rows = rows.exclude(thread__status=Thread.Status.IMPORTING)
    if mark is not None:
        rows = rows.filter(mark=mark)
    if bound is not None:
        rows = rows.filter(subject_id=bound)
    if after is not None:
        at, thread, turn = listing.open(after)
        before = Q(thread_id__lt=thread) | Q(thread_id=thread, turn__lt=turn)
        instant = datetime.fromisoformat(at)
        rows = rows.filter(Q(at__lt=instant) | Q(at=instant) & before)
    ordered = rows.select_related("thread__subject").order_by(
        "-at", "-thread_id", "-turn"
    )
    found = [*ordered[: limit + 1]]
    batch = found[:limit]
    more = None
    if len(found) > limit:
        last = batch[-1]
        more = listing.seal([last.at.isoformat(), str(last.thread_id), last.turn])
    return ListBatch(items=tuple(_iter_lines(batch)), next=more)


def _iter_lines(rows: list[MarkedTurn]) -> Iterator[MarkedTurnLine]:
    """Yield the lines of these rows, whose threads come with subjects. One query."""
    places = {(row.event_thread, row.event_seq) for row in rows}
    events = Event.objects.filter_places(places).only("thread_id", "seq", "payload")
    found = {(event.thread_id, event.seq): event for event in events}
    for row in rows:
        event = found.get((row.event_thread, row.event_seq))
        content = texts.open_content(row.thread, event) if event else {}
        word: MarkWord = "wrong" if row.mark == "wrong" else "good"
        yield MarkedTurnLine(
            thread=row.thread,
            turn=row.turn,
            mark=word,
            at=row.at,
            by=row.by,
            comment=content.get("comment"),
        )


def _iter_records(
    thread: Thread, state: ThreadState, now: datetime
) -> Iterator[TurnMarkRecord]:
    turns = sorted(state.marks)
    for start in range(0, len(turns), CHUNK):
        found = list_marks(thread, state, turns[start : start + CHUNK])
        for line in found.values():
            yield build_record(TurnMarkRecord, line, thread=thread.id)


STATES = StateFile(
    path="state/marks.jsonl",
    record=TurnMarkRecord,
    lines=_iter_records,
    needs=frozenset({TurnMarked.event_type}),
)
