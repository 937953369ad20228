"""Effect of records.erased on rows: payloads go, places stay and are marked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet

from memoryhub.errors import ThreadErasedError
from memoryhub.journal.rows.spans import iter_conditions as span_conditions
from memoryhub.journal.rows.spans import iter_overlaps as spans_overlapped
from memoryhub.journal.rows.totals import TotalsChanges
from memoryhub.kernel.replay import RecordedEvent
from memoryhub.kernel.state.erase_events import Range, RecordsErased
from memoryhub.kernel.state.erased import Spans, resolve_places, resolve_ranges
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
    """One records.erased event, for the rows of its thread."""

    thread: UUID
    #: Seq of the event; payloads are marked as erased by it.
    seq: int
    ranges: tuple[Range, ...]
    #: The thread's first event whose state included any of the records.
    since: int


def build_erased(before: ThreadState, recorded: RecordedEvent) -> ErasedRecords | None:
    event = recorded.event
    if not isinstance(event, RecordsErased):
        return None
    clocks = resolve_ranges(before, event.ranges).clocks
    first = min((clock for clock, _ in clocks), default=0)
    return ErasedRecords(
        thread=before.id,
        seq=recorded.seq,
        ranges=tuple(event.ranges),
        since=before.to_seq(first),
    )


def write(events: Iterable[ErasedRecords], changes: TotalsChanges) -> None:
    """Erase the records that the events name. A repeat erases nothing more."""
    for each in events:
        for home, spans in resolve_places(each.ranges).spans.items():
            for levels in iter_levels(each.thread, home, spans):
                changes.deduct(each.thread, levels)
                levels.delete()
            if home == each.thread:
                _erase_own(changes, home, spans, by=each.seq)
                continue
            for condition in span_conditions(spans, column="source_seq"):
                made = Derivation.objects.filter(condition, thread_id=home)
                made.filter(derived_thread=each.thread).delete()
        Snapshot.objects.filter(thread_id=each.thread, seq__gte=each.since).delete()


def _erase_own(changes: TotalsChanges, thread: UUID, spans: Spans, *, by: int) -> None:
    for condition in span_conditions(spans):
        sealed = Event.objects.filter(
            condition, thread_id=thread, payload__isnull=False
        )
        changes.take_payloads(sealed, thread, by=by)
        slots = Slot.objects.filter(condition, thread_id=thread)
        changes.deduct(thread, slots)
        slots.update(erased=True)
        DueValue.objects.filter(condition, thread_id=thread).delete()
    for condition in spans_overlapped(spans, columns=("first_seq", "last_seq")):
        # A repeat does not get the request's result again, and no digest of its text
        # stays.
        RequestKey.objects.filter(condition, thread_id=thread).delete()
    for condition in span_conditions(spans, column="source_seq"):
        Derivation.objects.filter(condition, thread_id=thread).delete()
    for condition in span_conditions(spans, column="derived_seq"):
        Derivation.objects.filter(condition, derived_thread=thread).delete()


def iter_levels(
    thread: UUID, home: UUID, spans: Spans
) -> Iterator[QuerySet[PageLevel]]:
    """Yield the levels of a thread whose text is in these spans of `home`.

    A fork's levels may have texts of its ancestors. One query a span.
    """
    source = None if home == thread else home
    for condition in span_conditions(spans):
        events = Event.objects.filter(condition, thread_id=home, page__isnull=False)
        ids = {*events.values_list("page", flat=True)}
        rows = PageLevel.objects.filter(condition, thread_id=thread, source=source)
        # By the pages of the events there: an index finds rows by their page.
        yield rows.filter(page_id__in=ids)


def list_erasures_since(parent: ThreadState) -> tuple[RecordsErased, ...]:
    """Return the erasures that a thread's journal recorded after the seq of this state.

    Raises ThreadErasedError when the thread itself was erased. One query, three if
    anything of the subject was ever erased.
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
