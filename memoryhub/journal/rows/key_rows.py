"""Rows of a thread's current keys, for lists and sweeps."""

from __future__ import annotations

from collections.abc import Iterable

from memoryhub.journal.rows.current_rows import Projection, StateChange
from memoryhub.journal.rows.rows import KeyRow
from memoryhub.kernel.memory import checkpoint_tree
from memoryhub.kernel.memory import key_events as events
from memoryhub.kernel.memory.checkpoint_events import CheckpointRestored
from memoryhub.kernel.state.erase_events import RecordsErased
from memoryhub.kernel.state.erased import resolve_ranges
from memoryhub.kernel.state.paging import list_items
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.working_memory import Key


def _list_names(state: ThreadState) -> Iterable[str]:
    return state.memory.contents.keys


def _build_row(state: ThreadState, name: str) -> KeyRow | None:
    entry = state.memory.contents.keys.get(name)
    if entry is None:
        return None
    thread, seq = state.locate_event(entry.value)
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


def _list_own(change: StateChange) -> Iterable[str]:
    event = change.event
    assert isinstance(event, events.KeySet | events.KeyRetimed | events.KeyDeleted)
    return [event.key]


def _list_cleared(change: StateChange) -> Iterable[str]:
    return _list_names(change.before)


def _list_expired(change: StateChange) -> Iterable[str]:
    event = change.event
    assert isinstance(event, events.KeysExpired)
    return [each.key for each in event.keys]


def _list_restored(change: StateChange) -> Iterable[str]:
    event = change.event
    assert isinstance(event, CheckpointRestored)
    if "keys" not in event.parts:
        return []
    return checkpoint_tree.list_names_between(change.before.memory, None, event.target)


def _list_erased(change: StateChange) -> Iterable[str]:
    event, before = change.event, change.before
    assert isinstance(event, RecordsErased)
    gone = resolve_ranges(before, event.ranges)
    held = before.memory.contents.keys
    return [name for name, each in list_items(held) if gone.has_clock(each.value)]


KEYS = Projection(
    word="key_rows",
    model=Key,
    row=KeyRow,
    names=_list_names,
    build_row=_build_row,
    changed_names={
        events.KeySet: _list_own,
        events.KeyRetimed: _list_own,
        events.KeyDeleted: _list_own,
        events.KeysCleared: _list_cleared,
        events.KeysExpired: _list_expired,
        CheckpointRestored: _list_restored,
        RecordsErased: _list_erased,
    },
)
