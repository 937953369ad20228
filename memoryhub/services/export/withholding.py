"""Withholding: values of a bundle that were erased here before, and do not come back.

They enter as erased: the event is there without its content, and so is whatever was
made of it. The thread ends with records.erased, by which the journal alone proves that
each gap is lawful.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from memoryhub.journal.rows import tombstones
from memoryhub.journal.rows.projections import Rows
from memoryhub.journal.writing.page_table import PageTable
from memoryhub.kernel.commands import EraseRecords
from memoryhub.kernel.replay import Recorded, decide
from memoryhub.kernel.state.bodies import Event
from memoryhub.kernel.state.erase_events import Range, RecordsErased
from memoryhub.kernel.state.page_events import PlaceBody
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.text import strict_json
from memoryhub.models.erasures import Erasure
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.vault.keys import keys

#: Ranges that one event names at most.
MOST_RANGES: Final = 1_000


class _Without(PageTable):
    """A page table whose thread has something to let go of, though no content."""

    def kept(self, ranges: Sequence[Range]) -> bool:
        return True


class Withheld:
    """What is kept out of one bundle. Asks nothing while the subject has no tombstone.

    Threads come one after the other, parents before their forks.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        #: By place, the erasure that keeps it out.
        self._places: dict[tuple[UUID, int], UUID] = {}
        #: Of the thread at hand: what its last events will name.
        self._orders: list[tuple[UUID, list[Range]]] = []
        self._head = 0

    @property
    def count(self) -> int:
        return len(self._places)

    def begin(self, state: ThreadState, head_seq: int) -> None:
        """Begin a thread of so many events, in the state before its first."""
        self._orders, self._head = [], head_seq
        if not self._places:
            return
        inherited = {part.thread: part.up_to_seq for part in state.lineage}
        for (thread, seq), erasure in sorted(self._places.items()):
            if seq <= inherited.get(thread, 0):
                self._order(erasure, thread, seq)

    def erased_by(self, state: ThreadState, event: Event, content: bytes) -> int | None:
        """Return the seq of the event that will take this one's content, if any."""
        if not self._subject.tombstones:
            return None
        erasure = self._source(state, event) or self._kept_out(event, content)
        if erasure is None:
            return None
        seq = state.seq + 1
        self._places[state.id, seq] = erasure
        return self._head + 1 + self._order(erasure, state.id, seq)

    def last(self, state: ThreadState) -> Iterator[Recorded]:
        """Yield the thread's last event after its own; ask again until none is left.

        Its rows must have been written so far.
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
        (draft,) = decide(state, command, _Without(state, Rows()), at=now)
        assert isinstance(draft.event, RecordsErased)
        yield Recorded(
            seq=state.seq + 1, at=now, actor=f"eraser:{erasure}", event=draft.event
        )

    def _kept_out(self, event: Event, content: bytes) -> UUID | None:
        opened = keys.subject_keys(self._subject.id, epoch=self._subject.epoch)
        plain: Any = strict_json.kept(content)
        return tombstones.kept_out(opened, [(event, plain)]).get(0)

    def _source(self, state: ThreadState, event: Event) -> UUID | None:
        """The erasure that keeps out what this one was made of."""
        if not self._places:
            return None
        for body in _sources(event):
            thread = UUID(body.thread) if body.thread else state.id
            if erasure := self._places.get((thread, body.seq)):
                return erasure
        return None

    def _order(self, erasure: UUID, thread: UUID, seq: int) -> int:
        """Which of the last events names the place."""
        for number, (ordered_by, ranges) in enumerate(self._orders):
            if ordered_by == erasure and len(ranges) < MOST_RANGES:
                ranges.append((thread, seq, seq))
                return number
        self._orders.append((erasure, [(thread, seq, seq)]))
        return len(self._orders) - 1


def _sources(event: Event) -> list[PlaceBody]:
    one, many = getattr(event, "source", None), getattr(event, "sources", None)
    return [*([one] if one else []), *(many or [])]
