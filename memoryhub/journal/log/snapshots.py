"""Snapshots: sealed folded states, so that every seek has the same cost.

See decision 5.
"""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

import orjson

from memoryhub.journal.rows import projections, statements
from memoryhub.kernel import state_json
from memoryhub.kernel.memory.nouns import count_contents
from memoryhub.kernel.state.events import REPLAY_FORMAT
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Snapshot
from memoryhub.models.threads import Thread
from memoryhub.vault.keys import keys, payloads
from memoryhub.vault.registry.lru import Lru

#: Events between two snapshots of a small state. A seek folds half as many on average,
#: which costs about as much as opening the snapshot. See decision 70.
INTERVAL = 400
#: zlib level: a sixth fewer bytes than level 1, for 2 ms more a snapshot.
LEVEL = 6
#: Bytes of sealed snapshots whose states a process keeps. Opened states are thirty
#: times as large, and the garbage collector scans all of them: eight times as much
#: would delay a request by a third of a second now and then.
KEPT_BYTES = 1_048_576

#: Subject, its epoch, thread, seq, and the hash of the sealed bytes.
Key = tuple[UUID, int, UUID, int, bytes]


#: The process's opened snapshots: reading thousands of pages costs many times a fold. A
#: moved epoch of the subject or changed snapshot bytes miss this cache.
states_kept: Lru[Key, ThreadState] = Lru(
    KEPT_BYTES, name="snapshots of threads, as sealed", unit_bytes=1
)


def is_due(state: ThreadState, *, kept_seq: int) -> bool:
    """Return whether a snapshot is due, the last one being of `kept_seq`.

    The interval grows with a state's names, pages and keys, whose snapshots cost more:
    each event then accounts for some 60 bytes of snapshot, a twentieth of its own rows.
    """
    paging = state.paging
    names = len(state.types) + len(state.senders)
    # Entries of resident pages are stored once.
    pages = max(paging.resident, len(paging.tlb.held))
    memory = state.memory
    kept: int = sum(count_contents(memory.contents).values()) + memory.weight
    kept += state.knowledge.size
    every = max(INTERVAL, (names + pages + kept) * 3 // 5)
    return state.seq - kept_seq >= every


def build_snapshot_row(state: ThreadState, *, key: keys.SubjectKeys) -> Snapshot:
    """Seal a state into a snapshot's row, to be inserted."""
    plain = orjson.dumps(state_json.to_json(state))
    return Snapshot(
        thread_id=state.id,
        seq=state.seq,
        replay_format=REPLAY_FORMAT,
        sealed=payloads.seal(key, _build_address(state), plain, level=LEVEL),
        counters=render_counters(state),
    )


def render_counters(state: ThreadState) -> str:
    """Return JSON of the cumulative counts that charts take differences of."""
    counts = {"slots": state.slot_count, "turns": state.turn_count}
    counts |= projections.count_paging(state)
    return orjson.dumps(counts).decode()


def find_latest(thread: Thread, *, up_to: int) -> ThreadState | None:
    """Return the nearest stored state at or before `up_to`, if any. One query."""
    found = statements.select_snapshot(
        thread.id, up_to=up_to, replay_format=REPLAY_FORMAT
    )
    return None if found is None else _open_state(*found, thread)


def _open_state(seq: int, sealed: bytes, thread: Thread) -> ThreadState:
    """Open a snapshot, or return the state that this process opened before."""
    epoch = thread.subject.epoch
    digest = hashlib.sha256(sealed).digest()
    key = (thread.subject_id, epoch, thread.id, seq, digest)
    state = states_kept.get(key)
    if state is None:
        state = state_json.from_json(_open_json(seq, sealed, thread))
        states_kept.put(key, state, weight=len(sealed))
    return state


def open_snapshot(row: Snapshot, thread: Thread) -> ThreadState:
    """Open a snapshot's state; `thread` comes with its subject."""
    return state_json.from_json(_open_json(row.seq, bytes(row.sealed), thread))


def count_used_tokens(row: Snapshot, thread: Thread) -> int:
    """Return how many tokens a snapshot's working set held.

    `thread` comes with its subject. Builds no state, which is most of the cost of
    opening a snapshot.
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
    key = keys.get_subject_keys(thread.subject_id, epoch=thread.subject.epoch)
    plain = payloads.open_sealed(key, place, sealed)
    opened: dict[str, Any] = orjson.loads(plain)
    return opened


def _build_address(state: ThreadState) -> payloads.PayloadAddress:
    return payloads.PayloadAddress(
        project=state.project,
        subject=state.subject,
        thread=state.id,
        seq=state.seq,
        purpose=payloads.Purpose.SNAPSHOT,
    )
