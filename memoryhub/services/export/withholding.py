"""Withholding: values of a bundle that this instance erased earlier stay erased.

Such an event enters without its content, and so do events derived from it. The thread
ends with records.erased, by which the journal alone proves that each gap is lawful.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from memoryhub.journal.rows import tombstones
from memoryhub.journal.rows.projections import ProjectedRows
from memoryhub.journal.writing.page_table import StoredPageTable
from memoryhub.kernel.commands import EraseRecords
from memoryhub.kernel.replay import RecordedEvent, decide
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.erase_events import Range, RecordsErased
from memoryhub.kernel.state.page_events import PlaceBody
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import strict_json
from memoryhub.models.erasures import Erasure
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.vault.keys import keys

#: Most ranges that one event names.
MOST_RANGES: Final = 1_000


class _ErasingPageTable(StoredPageTable):
    """Page table of a thread that has ranges to erase, though no content."""

    def has_payload(self, ranges: Sequence[Range]) -> bool:
        """Return True: every range has something to erase."""
        return True


class WithheldEvents:
    """Events withheld from one bundle; no query while the subject has no tombstone.

    Threads come one after the other, parents before their forks.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        #: The erasure that withholds an event, by place.
        self._places: dict[tuple[UUID, int], UUID] = {}
        #: Ranges that the current thread's last events will name.
        self._orders: list[tuple[UUID, list[Range]]] = []
        self._head = 0

    @property
    def count(self) -> int:
        """Number of events withheld so far."""
        return len(self._places)

    def begin(self, state: ThreadState, head_seq: int) -> None:
        """Begin a thread of `head_seq` events, in the state before its first."""
        self._orders, self._head = [], head_seq
        if not self._places:
            return
        inherited = {part.thread: part.up_to_seq for part in state.lineage}
        for (thread, seq), erasure in sorted(self._places.items()):
            if seq <= inherited.get(thread, 0):
                self._schedule_erasure(erasure, thread, seq)

    def find_erasing_seq(
        self, state: ThreadState, event: EventBody, content: bytes
    ) -> int | None:
        """Find the seq of the event that will erase this event's content, if any."""
        if not self._subject.tombstones:
            return None
        erasure = self._find_source_erasure(state, event) or self._find_tombstone(
            event, content
        )
        if erasure is None:
            return None
        seq = state.seq + 1
        self._places[state.id, seq] = erasure
        return self._head + 1 + self._schedule_erasure(erasure, state.id, seq)

    def iter_erasures(self, state: ThreadState) -> Iterator[RecordedEvent]:
        """Yield the thread's next erasing event; call again until none is left.

        The rows of the thread must have been written so far.
        """
        done = state.seq - self._head
        if done >= len(self._orders):
            return
        erasure, ranges = self._orders[done]
        command = EraseRecords(
            erasure=erasure,
            reason=Erasure.objects.values_list("reason", flat=True).get(id=erasure),  # type: ignore[arg-type]  # closed words
            ranges=tuple(ranges),
        )
        now = max(clock.now(), state.at or clock.now())
        (draft,) = decide(
            state, command, _ErasingPageTable(state, ProjectedRows()), at=now
        )
        assert isinstance(draft.event, RecordsErased)
        yield RecordedEvent(
            seq=state.seq + 1, at=now, actor=f"eraser:{erasure}", event=draft.event
        )

    def _find_tombstone(self, event: EventBody, content: bytes) -> UUID | None:
        """Find the erasure whose tombstone forbids this content, if any."""
        opened = keys.get_subject_keys(self._subject.id, epoch=self._subject.epoch)
        plain: Any = strict_json.parse_stored(content)
        return tombstones.find_erased(opened, [(event, plain)]).get(0)

    def _find_source_erasure(self, state: ThreadState, event: EventBody) -> UUID | None:
        """Find the erasure that withholds a source of this event, if any."""
        if not self._places:
            return None
        for body in _list_sources(event):
            thread = UUID(body.thread) if body.thread else state.id
            if erasure := self._places.get((thread, body.seq)):
                return erasure
        return None

    def _schedule_erasure(self, erasure: UUID, thread: UUID, seq: int) -> int:
        """Schedule the place for erasure; return which of the last events names it."""
        for number, (ordered_by, ranges) in enumerate(self._orders):
            if ordered_by == erasure and len(ranges) < MOST_RANGES:
                ranges.append((thread, seq, seq))
                return number
        self._orders.append((erasure, [(thread, seq, seq)]))
        return len(self._orders) - 1


def _list_sources(event: EventBody) -> list[PlaceBody]:
    """List the places that an event was derived from."""
    one, many = getattr(event, "source", None), getattr(event, "sources", None)
    return [*([one] if one else []), *(many or [])]
