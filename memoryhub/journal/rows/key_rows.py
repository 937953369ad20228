"""Rows of keys: what a thread's keys are now, so that they can be listed and swept."""

from __future__ import annotations

from collections.abc import Iterable

from memoryhub.journal.rows.current_rows import Change, Projection
from memoryhub.journal.rows.rows import KeyRow
from memoryhub.kernel.memory import checkpoint_tree
from memoryhub.kernel.memory import key_events as events
from memoryhub.kernel.memory.checkpoint_events import CheckpointRestored
from memoryhub.kernel.state.erase_events import RecordsErased
from memoryhub.kernel.state.erased import erased
from memoryhub.kernel.state.paging import listed
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.working_memory import Key


def _names(state: ThreadState) -> Iterable[str]:
    return state.memory.contents.keys


def _made(state: ThreadState, name: str) -> KeyRow | None:
    entry = state.memory.contents.keys.get(name)
    if entry is None:
        return None
    thread, seq = state.place(entry.value)
    return KeyRow(
        thread_id=state.id,
        key=name,
        project_id=state.project,
        version=entry.version,
        value_thread=thread,
        value_seq=seq,
        bytes=entry.bytes,
        expires_at=entry.expires_at,
    )


def _one(change: Change) -> Iterable[str]:
    event = change.event
    assert isinstance(event, events.KeySet | events.KeyRetimed | events.KeyDeleted)
    return [event.key]


def _cleared(change: Change) -> Iterable[str]:
    return _names(change.before)


def _expired(change: Change) -> Iterable[str]:
    event = change.event
    assert isinstance(event, events.KeysExpired)
    return [each.key for each in event.keys]


def _restored(change: Change) -> Iterable[str]:
    event = change.event
    assert isinstance(event, CheckpointRestored)
    if "keys" not in event.parts:
        return []
    return checkpoint_tree.names_between(change.before.memory, None, event.target)


def _erased(change: Change) -> Iterable[str]:
    event, before = change.event, change.before
    assert isinstance(event, RecordsErased)
    gone = erased(before, event.ranges)
    held = before.memory.contents.keys
    return [name for name, each in listed(held) if gone.at(each.value)]


KEYS = Projection(
    word="key_rows",
    model=Key,
    row=KeyRow,
    names=_names,
    made=_made,
    touched={
        events.KeySet: _one,
        events.KeyRetimed: _one,
        events.KeyDeleted: _one,
        events.KeysCleared: _cleared,
        events.KeysExpired: _expired,
        CheckpointRestored: _restored,
        RecordsErased: _erased,
    },
)
