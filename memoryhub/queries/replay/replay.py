"""Replay: a thread as of any event, and content as of its place. Never writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from memoryhub.errors import SeqUnknownError
from memoryhub.journal.log import log
from memoryhub.journal.log.log import Folded
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread
from memoryhub.vault.registry.lru import Lru

#: Events that one step of `follow` folds at most.
STEP = 1000
#: KiB of the newest states of threads that a process keeps, 250 with 50 pages at hand
#: each; of the last sought ones, which few readers ask for.
KEPT_KIB, SOUGHT_KIB = 16_000, 8_000
#: Events that a seek folds from the last one; beyond, a snapshot may be nearer.
REACH = 200


class Followed(Lru[UUID, tuple[int, Folded]]):
    """A state of each thread: who looks at it again folds only what comes after.

    Of no use once the subject's epoch has moved, or where the journal has another event
    at its seq by now.
    """

    def find(self, thread: Thread, *, up_to: int, reach: int = STEP) -> Folded | None:
        """Return the kept state, unless `up_to` is before or out of reach.

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

    def keep(self, thread: Thread, folded: Folded) -> None:
        held = (thread.subject.epoch, folded)
        self.put(thread.id, held, weight=folded.state.size)


#: The process's states of threads that were looked at as they are now.
followed = Followed(
    KEPT_KIB, name="newest states of threads, for reading", unit_bytes=1024
)
#: Of threads that were looked at as they were: replay goes on event by event.
sought = Followed(
    SOUGHT_KIB, name="earlier states of threads, for reading", unit_bytes=1024
)


def state_at(thread: Thread, seq: int) -> Folded:
    """Return the thread as of `seq`. `thread` comes with its subject.

    Three queries: nearest snapshot, its place in the chain, the events since; two when
    the thread was looked at lately, there or shortly before, none if it has not moved.
    Raises SeqUnknownError beyond the head.
    """
    held = None
    if seq == thread.head_seq:
        held = followed.find(thread, up_to=seq)
        held = held or sought.find(thread, up_to=seq, reach=REACH)
    elif seq < thread.head_seq:
        # The other way: what was sought is asked for again while its page is made.
        held = sought.find(thread, up_to=seq, reach=REACH)
        held = held or followed.find(thread, up_to=seq)
    folded = log.follow(held, up_to=seq) if held else log.state_at(thread, seq)
    (followed if seq == thread.head_seq else sought).keep(thread, folded)
    return folded


def states_at(thread: Thread, seqs: Iterable[int]) -> dict[int, Folded]:
    """Return the thread as of each of these seqs, folded once through all of them.

    As `state_at`, and one query for each after the first.
    """
    found: dict[int, Folded] = {}
    folded: Folded | None = None
    for seq in sorted(set(seqs)):
        if folded is None:
            folded = state_at(thread, seq)
        else:
            folded = log.follow(folded, up_to=seq)
        found[seq] = folded
    if folded is not None and folded.state.seq == thread.head_seq:
        followed.keep(thread, folded)
    return found


def follow(folded: Folded, *, head_seq: int, limit: int = STEP) -> Folded:
    """Move the state on towards `head_seq` by at most `limit` events.

    One query.
    """
    up_to = min(head_seq, folded.state.seq + limit)
    if up_to <= folded.state.seq:
        return folded
    return log.follow(folded, up_to=up_to)


def seq_at_turn(thread: Thread, turn: int) -> int:
    """Return the last seq of a turn: that before the next turn began.

    At most one query. 0 is before the first turn. Raises SeqUnknownError for a turn
    that has not begun, and in a fork for one that only its ancestors hold.
    """
    if turn == thread.turn_count:
        return thread.head_seq
    following = Turn.objects.filter(thread_id=thread.id, n=turn + 1)
    seq = following.values_list("seq", flat=True).first()
    if seq is None:
        raise SeqUnknownError
    return seq - 1


def opened(thread: Thread, row: Event) -> dict[str, Any]:
    """Open the content of an event of the thread or an ancestor; empty if none.

    `thread` comes with its subject: forks share it.
    """
    return log.open_payload(thread.subject, thread.project_id, row) or {}
