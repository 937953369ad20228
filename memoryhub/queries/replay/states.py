"""States of threads as readers ask for them, and the instant they judge by."""

from __future__ import annotations

from datetime import datetime

from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay


def state_of(thread: Thread, seq: int | None = None) -> ThreadState:
    """Return the thread as of an event; None is now.

    Raises SeqUnknownError beyond the head. `thread` comes with its subject. At most
    three queries.
    """
    return replay.state_at(thread, thread.head_seq if seq is None else seq).state


def now_of(state: ThreadState, seq: int | None = None) -> datetime:
    """Return the instant that expiry is judged by: now, but not before the last event.

    As of an event it is that event's; before the first there is nothing to judge.
    """
    if state.at is None:
        return clock.now()
    return state.at if seq is not None else max(clock.now(), state.at)
