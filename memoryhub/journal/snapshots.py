"""Snapshots: folded states kept, sealed, so that a seek costs the same anywhere."""

from __future__ import annotations

import orjson

from memoryhub.kernel import state as states
from memoryhub.kernel.events import REPLAY_FORMAT
from memoryhub.kernel.state import ThreadState
from memoryhub.models.events import Snapshot
from memoryhub.models.threads import Thread
from memoryhub.vault import keys, payloads

#: Events between two snapshots of a small state.
INTERVAL = 1000


def due(state: ThreadState, *, kept_seq: int) -> bool:
    """Whether a snapshot is due, the last one being of `kept_seq`.

    Later for a state of many names, whose snapshots cost more.
    """
    every = max(INTERVAL, len(state.types) + len(state.senders))
    return state.seq - kept_seq >= every


def sealed_row(state: ThreadState, *, key: keys.SubjectKeys) -> Snapshot:
    """The snapshot of a state, to be inserted."""
    plain = orjson.dumps(states.to_json(state))
    return Snapshot(
        thread_id=state.id,
        seq=state.seq,
        replay_format=REPLAY_FORMAT,
        sealed=payloads.seal(key, _place(state), plain),
        counters=counters(state),
    )


def counters(state: ThreadState) -> str:
    """JSON of the cumulative counts that charts take differences of."""
    counts = {"slots": state.slot_count, "turns": state.turn_count}
    return orjson.dumps(counts).decode()


def latest(thread: Thread, *, up_to: int) -> ThreadState | None:
    """The nearest kept state at or before `up_to`. One query."""
    row = (
        Snapshot.objects.filter(
            thread=thread, seq__lte=up_to, replay_format=REPLAY_FORMAT
        )
        .order_by("-seq")
        .first()
    )
    return None if row is None else opened(row, thread)


def opened(row: Snapshot, thread: Thread) -> ThreadState:
    """The state that a snapshot keeps; `thread` comes with its subject."""
    place = payloads.Place(
        project=thread.project_id,
        subject=thread.subject_id,
        thread=thread.id,
        seq=row.seq,
        purpose=payloads.Purpose.SNAPSHOT,
    )
    key = keys.subject_keys(thread.subject_id, epoch=thread.subject.epoch)
    plain = payloads.open_sealed(key, place, bytes(row.sealed))
    return states.from_json(orjson.loads(plain))


def _place(state: ThreadState) -> payloads.Place:
    return payloads.Place(
        project=state.project,
        subject=state.subject,
        thread=state.id,
        seq=state.seq,
        purpose=payloads.Purpose.SNAPSHOT,
    )
