"""Snapshots: folded states kept, sealed, so that a seek costs the same anywhere."""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

import orjson

from memoryhub.journal.rows import projections, statements
from memoryhub.kernel import state_json
from memoryhub.kernel.memory.nouns import counts
from memoryhub.kernel.state.events import REPLAY_FORMAT
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Snapshot
from memoryhub.models.threads import Thread
from memoryhub.vault.keys import keys, payloads
from memoryhub.vault.registry.lru import Lru

#: Events between two snapshots of a small state. A seek folds half as many on average,
#: which costs about what opening the snapshot does.
INTERVAL = 400
#: Of zlib: a sixth fewer bytes than at level 1, for 2 ms more a snapshot.
LEVEL = 6
#: Bytes of sealed snapshots whose states a process keeps. Open they are thirty times as
#: large, and the garbage collector looks through all of that: eight times as much
#: would hold up a request for a third of a second now and then.
KEPT_BYTES = 1_048_576

#: Subject, its epoch, thread, seq, and what the sealed bytes hash to.
Key = tuple[UUID, int, UUID, int, bytes]


#: The process's opened snapshots: reading thousands of pages costs many times a fold.
#: A subject whose epoch moves is not served from them, nor a snapshot whose bytes are
#: others by now.
states_kept: Lru[Key, ThreadState] = Lru(
    KEPT_BYTES, name="snapshots of threads, as sealed", unit_bytes=1
)


def due(state: ThreadState, *, kept_seq: int) -> bool:
    """Return whether a snapshot is due, the last one being of `kept_seq`.

    Later for a state of many names, pages or keys, whose snapshots cost more: an event
    then carries some 60 bytes of them, a twentieth of what its own rows take.
    """
    paging = state.paging
    names = len(state.types) + len(state.senders)
    # Entries of resident pages stand there once.
    pages = max(paging.resident, len(paging.tlb.held))
    memory = state.memory
    kept: int = sum(counts(memory.contents).values()) + memory.weight
    kept += state.knowledge.size
    every = max(INTERVAL, (names + pages + kept) * 3 // 5)
    return state.seq - kept_seq >= every


def snapshot_row(state: ThreadState, *, key: keys.SubjectKeys) -> Snapshot:
    """Seal a state into a snapshot's row, to be inserted."""
    plain = orjson.dumps(state_json.to_json(state))
    return Snapshot(
        thread_id=state.id,
        seq=state.seq,
        replay_format=REPLAY_FORMAT,
        sealed=payloads.seal(key, _address(state), plain, level=LEVEL),
        counters=counters(state),
    )


def counters(state: ThreadState) -> str:
    """Return JSON of the cumulative counts that charts take differences of."""
    counts = {"slots": state.slot_count, "turns": state.turn_count}
    counts |= projections.paging_counters(state)
    return orjson.dumps(counts).decode()


def latest(thread: Thread, *, up_to: int) -> ThreadState | None:
    """Return the nearest kept state at or before `up_to`. One query."""
    found = statements.select_snapshot(
        thread.id, up_to=up_to, replay_format=REPLAY_FORMAT
    )
    return None if found is None else _open_state(*found, thread)


def _open_state(seq: int, sealed: bytes, thread: Thread) -> ThreadState:
    """Open a snapshot, or take it from memory if this process has opened it before."""
    epoch = thread.subject.epoch
    digest = hashlib.sha256(sealed).digest()
    key = (thread.subject_id, epoch, thread.id, seq, digest)
    state = states_kept.get(key)
    if state is None:
        state = state_json.from_json(_open_json(seq, sealed, thread))
        states_kept.put(key, state, weight=len(sealed))
    return state


def opened(row: Snapshot, thread: Thread) -> ThreadState:
    """Open a snapshot's state; `thread` comes with its subject."""
    return state_json.from_json(_open_json(row.seq, bytes(row.sealed), thread))


def used_tokens(row: Snapshot, thread: Thread) -> int:
    """Return how many tokens a snapshot's working set held.

    `thread` comes with its subject. Makes no state of it, which takes most of the time
    that opening one does.
    """
    opened = _open_json(row.seq, bytes(row.sealed), thread)
    tokens: int = (opened.get("paging") or {}).get("used", 0)
    return tokens


def _open_json(seq: int, sealed: bytes, thread: Thread) -> dict[str, Any]:
    place = payloads.PayloadAddress(
        project=thread.project_id,
        subject=thread.subject_id,
        thread=thread.id,
        seq=seq,
        purpose=payloads.Purpose.SNAPSHOT,
    )
    key = keys.subject_keys(thread.subject_id, epoch=thread.subject.epoch)
    plain = payloads.open_sealed(key, place, sealed)
    opened: dict[str, Any] = orjson.loads(plain)
    return opened


def _address(state: ThreadState) -> payloads.PayloadAddress:
    return payloads.PayloadAddress(
        project=state.project,
        subject=state.subject,
        thread=state.id,
        seq=state.seq,
        purpose=payloads.Purpose.SNAPSHOT,
    )
