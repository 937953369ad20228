"""What records.erased does to rows: payloads go, places stay and say so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from memoryhub.errors import ThreadErasedError
from memoryhub.journal.rows.spans import conditions as span_conditions
from memoryhub.journal.rows.spans import overlapped as spans_overlapped
from memoryhub.journal.rows.totals import Changes
from memoryhub.kernel.replay import Recorded
from memoryhub.kernel.state.erase_events import Range, RecordsErased
from memoryhub.kernel.state.erased import Spans, erased, named
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.derivations import Derivation
from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event, RequestKey, Snapshot
from memoryhub.models.pages import PageLevel
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import DueValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedRecords:
    """One event's part in the rows of its thread."""

    thread: UUID
    #: Of the event, which the payloads say they were erased by.
    seq: int
    ranges: tuple[Range, ...]
    #: The thread's first event whose state knew of any of it.
    since: int


def made(before: ThreadState, recorded: Recorded) -> ErasedRecords | None:
    event = recorded.event
    if not isinstance(event, RecordsErased):
        return None
    clocks = erased(before, event.ranges).clocks
    first = min((clock for clock, _ in clocks), default=0)
    return ErasedRecords(
        thread=before.id,
        seq=recorded.seq,
        ranges=tuple(event.ranges),
        since=before.seq_of(first),
    )


def write(events: Iterable[ErasedRecords], changes: Changes) -> None:
    """Take what they name. A repeat takes nothing more."""
    for each in events:
        for home, spans in named(each.ranges).spans.items():
            _levels(changes, each.thread, home, spans)
            if home == each.thread:
                _own(changes, home, spans, by=each.seq)
                continue
            for condition in span_conditions(spans, column="source_seq"):
                made = Derivation.objects.filter(condition, thread_id=home)
                made.filter(derived_thread=each.thread).delete()
        Snapshot.objects.filter(thread_id=each.thread, seq__gte=each.since).delete()


def _own(changes: Changes, thread: UUID, spans: Spans, *, by: int) -> None:
    for condition in span_conditions(spans):
        sealed = Event.objects.filter(
            condition, thread_id=thread, payload__isnull=False
        )
        changes.take_payloads(sealed, thread, by=by)
        slots = Slot.objects.filter(condition, thread_id=thread)
        changes.leave(thread, slots)
        slots.update(erased=True)
        DueValue.objects.filter(condition, thread_id=thread).delete()
    for condition in spans_overlapped(spans, columns=("first_seq", "last_seq")):
        # What a request led to is not told again, nor is its text known by a digest.
        RequestKey.objects.filter(condition, thread_id=thread).delete()
    for condition in span_conditions(spans, column="source_seq"):
        Derivation.objects.filter(condition, thread_id=thread).delete()
    for condition in span_conditions(spans, column="derived_seq"):
        Derivation.objects.filter(condition, derived_thread=thread).delete()


def _levels(changes: Changes, thread: UUID, home: UUID, spans: Spans) -> None:
    """Rows of levels that lie there; a fork's may point to its ancestors' texts."""
    source = None if home == thread else home
    for condition in span_conditions(spans):
        events = Event.objects.filter(condition, thread_id=home, page__isnull=False)
        ids = {*events.values_list("page", flat=True)}
        rows = PageLevel.objects.filter(condition, thread_id=thread, source=source)
        # By the pages that were told of there: rows are found by those.
        doomed = rows.filter(page_id__in=ids)
        changes.leave(thread, doomed)
        doomed.delete()


def erasures_since(parent: ThreadState) -> tuple[RecordsErased, ...]:
    """Return what a thread was ordered to erase after the seq of this state.

    Raises ThreadErasedError when it was erased itself. One query, three if anything of
    the subject was ever erased.
    """
    if not Erasure.objects.filter(subject=parent.subject).exists():
        return ()
    erased_since = Thread.objects.filter(id=parent.id, status=Thread.Status.ERASED)
    if erased_since.exists():
        raise ThreadErasedError
    rows = Event.objects.filter(
        thread_id=parent.id, seq__gt=parent.seq, type=RecordsErased.event_type
    )
    bodies = rows.order_by("seq").values_list("body", flat=True)
    return tuple(RecordsErased.model_validate_json(body) for body in bodies)
