"""Replay: a thread as of any event, and the contents of events. Never writes."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from memoryhub.errors import SeqUnknownError
from memoryhub.journal.log import log
from memoryhub.journal.log.log import FoldedThread
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.vault.registry.lru import Lru

#: Maximum number of events folded by one call of `follow`.
STEP = 1000
#: Cache sizes of a process in KiB. The newest states: 250 threads with 50 pages in the
#: working set each. The earlier states: smaller, since few readers request them.
KEPT_KIB, SOUGHT_KIB = 16_000, 8_000
#: Maximum number of events folded from a cached earlier state; beyond, a snapshot may
#: be nearer.
REACH = 200


class Followed(Lru[UUID, tuple[int, FoldedThread]]):
    """Cache of one state per thread, from which a read folds only later events.

    A cached state is invalid once the subject's epoch has moved, or once the journal
    has another event at the state's seq.
    """

    def find(
        self, thread: Thread, *, up_to: int, reach: int = STEP
    ) -> FoldedThread | None:
        """Return the cached state, unless `up_to` is before the state or out of reach.

        One query or none.
        """
        epoch, folded = self.get(thread.id) or (0, None)
        if folded is None or epoch != thread.subject.epoch:
            return None
        seq = folded.state.seq
        if not seq <= up_to <= seq + reach:
            return None
        if seq == thread.head_seq:
            return folded if folded.chain == bytes(thread.head_hash) else None
        same = Event.objects.filter(thread_id=thread.id, seq=seq, chain=folded.chain)
        return folded if same.exists() else None

    def keep(self, thread: Thread, folded: FoldedThread) -> None:
        held = (thread.subject.epoch, folded)
        self.put(thread.id, held, weight=folded.state.size)


#: The process's cache of current states.
followed = Followed(
    KEPT_KIB, name="newest states of threads, for reading", unit_bytes=1024
)
#: Cache of earlier states, from which a replay continues event by event.
sought = Followed(
    SOUGHT_KIB, name="earlier states of threads, for reading", unit_bytes=1024
)


def load_state_at(thread: Thread, seq: int) -> FoldedThread:
    """Return the thread as of `seq`. `thread` comes with its subject.

    Three queries: nearest snapshot, its place in the chain, the events since. Two
    queries from a cached state at or shortly before `seq`, none if the thread has not
    moved. Raises SeqUnknownError beyond the head.
    """
    held = None
    if seq == thread.head_seq:
        held = followed.find(thread, up_to=seq)
        held = held or sought.find(thread, up_to=seq, reach=REACH)
    elif seq < thread.head_seq:
        # Search the earlier states first: one page requests the same earlier state
        # several times.
        held = sought.find(thread, up_to=seq, reach=REACH)
        held = held or followed.find(thread, up_to=seq)
    folded = log.follow(held, up_to=seq) if held else log.fold_thread(thread, seq)
    (followed if seq == thread.head_seq else sought).keep(thread, folded)
    return folded


def load_states_at(thread: Thread, seqs: Iterable[int]) -> dict[int, FoldedThread]:
    """Return the thread as of each of these seqs, in one fold.

    Queries as for `load_state_at`, and one more for each seq after the first.
    """
    found: dict[int, FoldedThread] = {}
    folded: FoldedThread | None = None
    for seq in sorted(set(seqs)):
        if folded is None:
            folded = load_state_at(thread, seq)
        else:
            folded = log.follow(folded, up_to=seq)
        found[seq] = folded
    if folded is not None and folded.state.seq == thread.head_seq:
        followed.keep(thread, folded)
    return found


def follow(folded: FoldedThread, *, head_seq: int, limit: int = STEP) -> FoldedThread:
    """Advance the state towards `head_seq` by at most `limit` events.

    One query.
    """
    up_to = min(head_seq, folded.state.seq + limit)
    if up_to <= folded.state.seq:
        return folded
    return log.follow(folded, up_to=up_to)


def get_turn_end(thread: Thread, turn: int) -> int:
    """Return the last seq of a turn: the seq before the next turn began.

    At most one query. 0 is before the first turn. Raises SeqUnknownError for a turn
    that has not begun, and in a fork for a turn that only ancestors hold.
    """
    if turn == thread.turn_count:
        return thread.head_seq
    following = Turn.objects.filter(thread_id=thread.id, n=turn + 1)
    seq = following.values_list("seq", flat=True).first()
    if seq is None:
        raise SeqUnknownError
    return seq - 1
