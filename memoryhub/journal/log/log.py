"""The stored events of threads: read, checked, folded, opened. Never writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from pydantic import ValidationError

from memoryhub.errors import CorruptError, NewerFormatError, SeqUnknownError
from memoryhub.journal.log import chain, snapshots
from memoryhub.journal.rows import statements
from memoryhub.journal.rows.rows import EventTableRow
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.replay import RecordedEvent, evolve
from memoryhub.kernel.state.events import REPLAY_FORMAT
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.threads.threads import inherit_state
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.vault.registry.lru import Lru

#: Events read at once; bounds the memory of a fold.
CHUNK = 1000
#: Events that name the format they were written in. Asking every event for it would
#: take half as long as parsing the event.
_FORMATTED = frozenset(
    kind for kind in TYPES.values() if "replay_format" in kind.model_fields
)
#: States that `Origins` keeps; evicts the least recently used.
KEPT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedThread:
    """A thread at a seq: its state, and the chain's hash at that event."""

    state: ThreadState
    chain: bytes
    #: Seq of the snapshot that the fold began with; 0 without a snapshot.
    kept_seq: int = 0


def to_recorded(row: Event | EventTableRow | statements.FoldedRow) -> RecordedEvent:
    """Return the kernel's event of a stored row.

    Raises NewerFormatError for an unknown type, CorruptError for a body that can't be
    parsed.
    """
    kind = TYPES.get(row.type)
    if kind is None:
        raise NewerFormatError(event_type=row.type)
    try:
        event = kind.model_validate_json(row.body)
    except ValidationError:
        raise CorruptError(seq=row.seq) from None
    if kind in _FORMATTED and event.replay_format > REPLAY_FORMAT:  # type: ignore[attr-defined]  # they have it
        raise NewerFormatError(replay_format=REPLAY_FORMAT)
    return RecordedEvent(seq=row.seq, at=row.at, actor=row.actor, event=event)


def iter_rows(
    thread: UUID, *, after: int = 0, up_to: int | None = None
) -> Iterator[Event]:
    """Yield stored events with seq > `after`, oldest first, without their payloads."""
    while True:
        rows = Event.objects.filter(thread_id=thread, seq__gt=after)
        if up_to is not None:
            rows = rows.filter(seq__lte=up_to)
        batch = list(rows.defer("payload").order_by("seq")[:CHUNK])
        yield from batch
        if len(batch) < CHUNK:
            return
        after = batch[-1].seq


def build_empty_state(thread: Thread) -> ThreadState:
    """Return the state onto which a thread's first event is folded, if not a fork."""
    return ThreadState(
        id=thread.id, project=thread.project_id, subject=thread.subject_id
    )


class Origins:
    """Inherited states of forks, folded once for all threads that one command reads.

    Each command makes its own. Without it each thread of a chain of forks would fold
    all its ancestors again.
    """

    def __init__(self) -> None:
        self._kept: Lru[tuple[UUID, int], ThreadState] = Lru(KEPT)

    def fold_state(self, parent: UUID, seq: int) -> ThreadState:
        """Return the parent's state at `seq`, which can't change any more."""
        state = self._kept.get((parent, seq))
        if state is None:
            rows = Thread.objects.select_related("subject").filter(id=parent)
            row = rows.first()
            if row is None:
                raise CorruptError(missing_seq=1)
            state = fold_thread(row, seq, origins=self).state
            self._kept.put((parent, seq), state)
        return state


def build_origin(thread: Thread, *, origins: Origins | None = None) -> ThreadState:
    """Return the state onto which the first event is folded: empty, or a fork's."""
    state = build_empty_state(thread)
    if thread.parent_id is None or thread.fork_seq is None:
        return state
    return inherit_state(
        (origins or Origins()).fold_state(thread.parent_id, thread.fork_seq), state
    )


def fold_thread(
    thread: Thread, seq: int, *, origins: Origins | None = None
) -> FoldedThread:
    """Return the thread's state at `seq`: the nearest snapshot, then a fold.

    Raises SeqUnknownError beyond the head, CorruptError when events are missing.
    """
    if seq > thread.head_seq or seq < 0:
        raise SeqUnknownError
    base = snapshots.find_latest(thread, up_to=seq)
    start = (
        FoldedThread(
            state=base, chain=get_chain(thread.id, base.seq), kept_seq=base.seq
        )
        if base
        else FoldedThread(
            state=build_origin(thread, origins=origins), chain=chain.GENESIS
        )
    )
    return follow(start, up_to=seq)


def follow(start: FoldedThread, *, up_to: int) -> FoldedThread:
    """Fold the events after `start` through `up_to`."""
    state, digest = start.state, start.chain
    for row in _iter_folded(state.id, after=state.seq, up_to=up_to):
        if row.seq != state.seq + 1:
            break
        state, digest = evolve(state, to_recorded(row)), row.chain
    if state.seq != up_to:
        raise CorruptError(missing_seq=state.seq + 1)
    return FoldedThread(state=state, chain=bytes(digest), kept_seq=start.kept_seq)


def _iter_folded(
    thread: UUID, *, after: int, up_to: int
) -> Iterator[statements.FoldedRow]:
    """Yield the columns of events after a seq that a fold reads; models take longer."""
    while after < up_to:
        rows = statements.select_folded(thread, after=after, up_to=up_to, limit=CHUNK)
        yield from rows
        if len(rows) < CHUNK:
            return
        after = rows[-1].seq


def iter_states(thread: Thread) -> Iterator[ThreadState]:
    """Yield the state after each event of a thread, folded from the first on."""
    state = build_origin(thread)
    for row in iter_rows(thread.id, up_to=thread.head_seq):
        state = evolve(state, to_recorded(row))
        yield state


def get_chain(thread: UUID, seq: int) -> bytes:
    digest = statements.select_chain(thread, seq)
    if digest is None:
        raise CorruptError(missing_seq=seq)
    return digest
