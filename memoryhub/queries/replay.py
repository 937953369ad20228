"""Replay: a thread as of any event, and content as of its place. Never writes."""

from __future__ import annotations

from typing import Any

from memoryhub.errors import SeqUnknownError
from memoryhub.journal import log
from memoryhub.journal.log import Folded
from memoryhub.models.events import Event
from memoryhub.models.slots import Turn
from memoryhub.models.threads import Thread

#: Events that one step of `follow` folds at most.
STEP = 1000


def state_at(thread: Thread, seq: int) -> Folded:
    """The thread as of `seq`. `thread` comes with its subject.

    Three queries: nearest snapshot, its place in the chain, the events since.
    Raises SeqUnknownError beyond the head.
    """
    return log.state_at(thread, seq)


def follow(folded: Folded, *, head_seq: int, limit: int = STEP) -> Folded:
    """The state moved on towards `head_seq` by at most `limit` events. One query."""
    up_to = min(head_seq, folded.state.seq + limit)
    if up_to <= folded.state.seq:
        return folded
    return log.follow(folded, up_to=up_to)


def seq_at_turn(thread: Thread, turn: int) -> int:
    """The last seq of a turn: that before the next turn began. At most one query.

    0 is before the first turn. Raises SeqUnknownError for a turn that has not begun,
    and in a fork for one that only its ancestors hold.
    """
    if turn == thread.turn_count:
        return thread.head_seq
    following = Turn.objects.filter(thread_id=thread.id, n=turn + 1)
    seq = following.values_list("seq", flat=True).first()
    if seq is None:
        raise SeqUnknownError
    return seq - 1


def opened(thread: Thread, row: Event) -> dict[str, Any]:
    """The content of an event of the thread or an ancestor; empty if it has none.

    `thread` comes with its subject: forks share it.
    """
    return log.open_payload(thread.subject, thread.project_id, row) or {}
