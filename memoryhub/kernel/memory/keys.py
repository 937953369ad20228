"""Keys: set, retimed, deleted, cleared, swept. Pure. Verbs decide, participles fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from memoryhub.errors import (
    InvalidError,
    KeyExistsError,
    KeyNotFoundError,
    KeysFullError,
    Refusal,
    StaleError,
)
from memoryhub.kernel.decision import Decision, PageTable
from memoryhub.kernel.memory import key_events as events
from memoryhub.kernel.memory.memory_commands import ANY_VERSION, Expected, MemoryCommand
from memoryhub.kernel.parts import Capacity, Part
from memoryhub.kernel.state.page_events import By, PlaceBody
from memoryhub.kernel.state.paging import listed
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import (
    DEFAULT_MAX_KEY_BYTES,
    DEFAULT_MAX_KEYS,
    Contents,
    KeyEntry,
    WorkingMemory,
)
from memoryhub.kernel.text.padding import padded

#: Keys that one keys.expired names.
SWEPT_AT_ONCE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """What was said about an expiry: nothing, never, so long, or that instant."""

    given: bool = False
    ttl: timedelta | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetKey:
    key: str
    #: JSON text, UTF-8.
    value: bytes
    #: Canonical UTF-8 size.
    bytes: int
    expiry: Expiry = Expiry()
    expected: Expected = ANY_VERSION
    by: By | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteKey:
    key: str
    expected: Expected = ANY_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeKeys(MemoryCommand):
    """Sets and deletes on distinct keys, all or nothing."""

    changes: tuple[SetKey | DeleteKey, ...]
    #: Of the project, where neither the command nor the thread says.
    default_ttl: timedelta | None = None
    #: Whether a refusal tells which change it is about.
    numbered: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RetimeKey(MemoryCommand):
    key: str
    expiry: Expiry
    expected: Expected = ANY_VERSION
    #: JSON text of an inherited value, which is set anew; None when it is the thread's.
    value: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearKeys(MemoryCommand):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireKeys(MemoryCommand):
    """Sweep keys, each if it still has that version and its instant has passed."""

    keys: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseValues(MemoryCommand):
    """Take values out of the journal, each if it is still due."""

    seqs: tuple[int, ...]
    #: How long after its latest expiry a value stays in history.
    grace: timedelta


def change_keys(decision: Decision, command: ChangeKeys, pages: PageTable) -> None:
    """Set and delete, all or none. Emits key.set and key.deleted, one a change.

    A delete of what is not there emits nothing. Raises StaleError, KeyExistsError and
    KeysFullError with the index of the change, InvalidError for an instant in the past.
    """
    for index, change in enumerate(command.changes):
        try:
            if isinstance(change, DeleteKey):
                _delete(decision, change)
            else:
                _set(decision, change, default=command.default_ttl)
        except Refusal as refusal:
            if command.numbered:
                refusal.detail.setdefault("index", index)
            raise


def _set(decision: Decision, change: SetKey, *, default: timedelta | None) -> None:
    entry = _found(decision, change.key)
    _require(entry, change.expected, decision)
    expires_at = _expiry(decision, change.expiry, default=default)
    _make_room(decision, change)
    decision.emit(
        events.KeySet(
            key=change.key,
            bytes=change.bytes,
            expires_at=expires_at,
            created=entry is None,
            by=change.by,
        ),
        b'{"value":' + change.value + b"}",
    )


def _delete(decision: Decision, change: DeleteKey) -> None:
    entry = _found(decision, change.key)
    _require(entry, change.expected, decision)
    if entry is not None:
        decision.emit(events.KeyDeleted(key=change.key))


def retime_key(decision: Decision, command: RetimeKey, pages: PageTable) -> None:
    """Change the expiry alone. Emits key.retimed; for an inherited value, key.set.

    Its payload belongs to the ancestor, which may erase it when its own time is over.
    Raises KeyNotFoundError, StaleError, InvalidError for an instant in the past.
    """
    entry = _found(decision, command.key)
    if entry is None:
        raise KeyNotFoundError
    _require(entry, command.expected, decision)
    expires_at = _expiry(decision, command.expiry, default=None)
    if entry.value > decision.state.inherited_clock:
        decision.emit(events.KeyRetimed(key=command.key, expires_at=expires_at))
        return
    if command.value is None:
        # Inherited by a fork that was made while the command was under way.
        raise StaleError(version=decision.state.seq_of(entry.version))
    thread, seq = decision.state.place(entry.value)
    decision.emit(
        events.KeySet(
            key=command.key,
            bytes=entry.bytes,
            expires_at=expires_at,
            source=PlaceBody(seq=seq, thread=str(thread)),
        ),
        b'{"value":' + command.value + b"}",
    )


def clear_keys(decision: Decision, command: ClearKeys, pages: PageTable) -> None:
    """Remove every key and nothing else. Emits keys.cleared, or nothing for none."""
    if count := len(decision.state.memory.contents.visible(decision.at)):
        decision.emit(events.KeysCleared(count=count))


def expire_keys(decision: Decision, command: ExpireKeys, pages: PageTable) -> None:
    """Sweep keys whose instant has passed. Emits keys.expired, or nothing."""
    keys = decision.state.memory.contents.keys
    due = []
    for name, version in dict.fromkeys(command.keys):
        entry = keys.get(name)
        if entry and entry.version == version and not entry.visible(decision.at):
            due.append((name, version))
    _sweep(decision, due)


def erase_values(decision: Decision, command: EraseValues, pages: PageTable) -> None:
    """Take values out of the journal. Emits values.erased for those that are due."""
    dues = pages.dues(command.seqs)
    due = [s for s, at in sorted(dues.items()) if at + command.grace <= decision.at]
    if due:
        decision.emit(events.ValuesErased(seqs=due))


def _found(decision: Decision, key: str) -> KeyEntry | None:
    return decision.state.memory.contents.find(key, now=decision.at)


def _require(entry: KeyEntry | None, expected: Expected, decision: Decision) -> None:
    """Raise unless the key is as the sender saw it."""
    version = None if entry is None else decision.state.seq_of(entry.version)
    if expected.absent and version is not None:
        raise KeyExistsError(version=version)
    if expected.version is not None and version != expected.version:
        raise StaleError(version=version)


def _expiry(
    decision: Decision, expiry: Expiry, *, default: timedelta | None
) -> datetime | None:
    """The instant: what was said, else the thread's, else the project's default.

    It stands in the clear, so it is a whole second, the next one.
    """
    if not expiry.given:
        seconds = decision.state.config.default_ttl_seconds
        ttl = timedelta(seconds=seconds) if seconds else default
        return None if ttl is None else _second(decision.at + ttl)
    if expiry.at is not None and expiry.at <= decision.at:
        raise InvalidError(code="expiry_in_past", loc="expires_at")
    until = expiry.at if expiry.ttl is None else decision.at + expiry.ttl
    return None if until is None else _second(until)


def _second(instant: datetime) -> datetime:
    whole = instant.replace(microsecond=0)
    return whole if whole == instant else whole + timedelta(seconds=1)


def _make_room(decision: Decision, change: SetKey) -> None:
    if not _passed(decision, change):
        return
    contents = decision.state.memory.contents
    due = sorted(
        (name, entry.version)
        for name, entry in listed(contents.keys)
        if not entry.visible(decision.at)
    )
    _sweep(decision, due)
    if passed := _passed(decision, change):
        raise KeysFullError(**passed)


def _passed(decision: Decision, change: SetKey) -> dict[str, int]:
    """The limit that does not allow it. What makes nothing more of it may pass both."""
    state, contents = decision.state, decision.state.memory.contents
    held, old = contents.keys.get(change.key), _found(decision, change.key)
    if old is None and len(contents.keys) + (held is None) > state.max_keys:
        return {"max_keys": state.max_keys}
    added = padded(change.bytes)
    size = contents.key_bytes + added - (held.bytes if held else 0)
    grows = old is None or added > old.bytes
    if grows and size > state.max_key_bytes:
        return {"max_key_bytes": state.max_key_bytes}
    return {}


def _sweep(decision: Decision, due: Sequence[tuple[str, int]]) -> None:
    for start in range(0, len(due), SWEPT_AT_ONCE):
        swept = [
            events.ExpiredKey(key=name, version=version)
            for name, version in due[start : start + SWEPT_AT_ONCE]
        ]
        decision.emit(events.KeysExpired(keys=swept))


def was_set(state: ThreadState, event: events.KeySet) -> ThreadState:
    clock = state.clock + 1
    entry = KeyEntry(clock, clock, event.expires_at, event.bytes)
    return _put(state, event.key, entry)


def retimed(state: ThreadState, event: events.KeyRetimed) -> ThreadState:
    entry = state.memory.contents.keys[event.key]
    entry = entry._replace(version=state.clock + 1, expires_at=event.expires_at)
    return _put(state, event.key, entry)


def deleted(state: ThreadState, event: events.KeyDeleted) -> ThreadState:
    return _without(state, [event.key])


def cleared(state: ThreadState, event: events.KeysCleared) -> ThreadState:
    return _without(state, [*state.memory.contents.keys])


def expired(state: ThreadState, event: events.KeysExpired) -> ThreadState:
    return _without(state, [each.key for each in event.keys])


def erased(state: ThreadState, event: events.ValuesErased) -> ThreadState:
    return state


def _put(state: ThreadState, key: str, entry: KeyEntry) -> ThreadState:
    contents = state.memory.contents
    old = contents.keys.get(key)
    contents = contents._replace(
        keys=contents.keys.insert(key, entry),
        key_bytes=contents.key_bytes + entry.bytes - (old.bytes if old else 0),
    )
    return _touched(state, contents, [key])


def _without(state: ThreadState, names: Sequence[str]) -> ThreadState:
    keys, size = state.memory.contents.keys, state.memory.contents.key_bytes
    for name in names:
        size -= keys[name].bytes
        keys = keys.remove(name)
    contents = state.memory.contents._replace(keys=keys, key_bytes=size)
    return _touched(state, contents, names)


def _touched(
    state: ThreadState, contents: Contents, names: Sequence[str]
) -> ThreadState:
    memory: WorkingMemory = state.memory
    memory = memory._replace(contents=contents, touched=memory.touching(names))
    return state._replace(memory=memory)


PART = Part(
    commands={
        ChangeKeys: change_keys,
        RetimeKey: retime_key,
        ClearKeys: clear_keys,
    },
    upkeep={ExpireKeys: expire_keys, EraseValues: erase_values},
    events={
        events.KeySet: was_set,
        events.KeyRetimed: retimed,
        events.KeyDeleted: deleted,
        events.KeysCleared: cleared,
        events.KeysExpired: expired,
        events.ValuesErased: erased,
    },
    limits={
        "max_keys": Capacity(DEFAULT_MAX_KEYS, most=100_000),
        "max_key_bytes": Capacity(DEFAULT_MAX_KEY_BYTES, least=1024, most=2**30),
    },
)
