"""States of threads for readers, and the instant of expiry checks."""

from __future__ import annotations

from datetime import datetime

from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.replay import replay


def load_state(thread: Thread, seq: int | None = None) -> ThreadState:
    """Return the state of a thread as of an event; None is now.

    Raises SeqUnknownError beyond the head. `thread` comes with its subject. At most
    three queries.
    """
    return replay.load_state_at(thread, thread.head_seq if seq is None else seq).state


def compute_instant(state: ThreadState, seq: int | None = None) -> datetime:
    """Return the instant of expiry checks: now, but not before the last event.

    As of an event, the instant is the event's time. Before the first event no key
    exists, and the instant is now.
    """
    if state.at is None:
        return clock.now()
    return state.at if seq is not None else max(clock.now(), state.at)
