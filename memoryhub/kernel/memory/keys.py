"""Keys: deciding and folding their setting, expiry, deletion and sweep. Pure."""

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
from memoryhub.kernel.parts import Capacity, KernelPart
from memoryhub.kernel.state.page_events import By, PlaceBody
from memoryhub.kernel.state.paging import list_items
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import (
    DEFAULT_MAX_KEY_BYTES,
    DEFAULT_MAX_KEYS,
    Contents,
    KeyEntry,
    WorkingMemory,
)
from memoryhub.kernel.text import item_names
from memoryhub.kernel.text.padding import pad_size

#: Most keys in one keys.expired event.
SWEPT_AT_ONCE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """Requested expiry of a key: unspecified, never, after a time, or at an instant."""

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
    """Set and delete distinct keys, all or none."""

    changes: tuple[SetKey | DeleteKey, ...]
    #: The project's time to live, where neither command nor thread has one.
    default_ttl: timedelta | None = None
    #: Whether a refusal holds the index of the refused change.
    numbered: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RetimeKey(MemoryCommand):
    key: str
    expiry: Expiry
    expected: Expected = ANY_VERSION
    #: JSON text of an inherited value, to set anew; None for the thread's own value.
    value: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearKeys(MemoryCommand):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireKeys(MemoryCommand):
    """Sweep keys, each only if its version is unchanged and it has expired."""

    keys: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseValues(MemoryCommand):
    """Remove values from the journal, each only if it is still due."""

    seqs: tuple[int, ...]
    #: Time that a value stays in history after its latest expiry.
    grace: timedelta


def decide_change_keys(
    decision: Decision, command: ChangeKeys, pages: PageTable
) -> None:
    """Set and delete keys, all or none. Emits key.set and key.deleted, one a change.

    Deleting an absent key emits nothing. Raises StaleError, KeyExistsError and
    KeysFullError with the index of the change, InvalidError for an instant in the past.
    A home thread takes names of items only, else InvalidError.
    """
    for index, change in enumerate(command.changes):
        try:
            if isinstance(change, DeleteKey):
                _delete_key(decision, change)
            else:
                _set_key(decision, change, default=command.default_ttl)
        except Refusal as refusal:
            if command.numbered:
                refusal.detail.setdefault("index", index)
            raise


def _set_key(decision: Decision, change: SetKey, *, default: timedelta | None) -> None:
    if decision.state.home and not item_names.is_item_name(change.key):
        says = "labels and a key, joined with colons, of at most 128 characters"
        raise InvalidError(code="name", loc="key", allowed=says)
    entry = _find_key(decision, change.key)
    _require_expected(entry, change.expected, decision)
    expires_at = _compute_expiry(decision, change.expiry, default=default)
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


def _delete_key(decision: Decision, change: DeleteKey) -> None:
    entry = _find_key(decision, change.key)
    _require_expected(entry, change.expected, decision)
    if entry is not None:
        decision.emit(events.KeyDeleted(key=change.key))


def decide_retime_key(decision: Decision, command: RetimeKey, pages: PageTable) -> None:
    """Change a key's expiry. Emits key.retimed; for an inherited value, key.set.

    An inherited payload belongs to the ancestor, which may erase it at its own expiry.
    Raises KeyNotFoundError, StaleError, InvalidError for an instant in the past.
    """
    entry = _find_key(decision, command.key)
    if entry is None:
        raise KeyNotFoundError
    _require_expected(entry, command.expected, decision)
    expires_at = _compute_expiry(decision, command.expiry, default=None)
    if entry.value > decision.state.inherited_clock:
        decision.emit(events.KeyRetimed(key=command.key, expires_at=expires_at))
        return
    if command.value is None:
        # A fork was made while the command was under way, and inherited the value.
        raise StaleError(version=decision.state.to_seq(entry.version))
    thread, seq = decision.state.locate_event(entry.value)
    decision.emit(
        events.KeySet(
            key=command.key,
            bytes=entry.bytes,
            expires_at=expires_at,
            source=PlaceBody(seq=seq, thread=str(thread)),
        ),
        b'{"value":' + command.value + b"}",
    )


def decide_clear_keys(decision: Decision, command: ClearKeys, pages: PageTable) -> None:
    """Remove every key and nothing else. Emits keys.cleared; nothing without keys."""
    if count := len(decision.state.memory.contents.list_visible(decision.at)):
        decision.emit(events.KeysCleared(count=count))


def decide_expire_keys(
    decision: Decision, command: ExpireKeys, pages: PageTable
) -> None:
    """Sweep expired keys. Emits keys.expired, or nothing."""
    keys = decision.state.memory.contents.keys
    due = []
    for name, version in dict.fromkeys(command.keys):
        entry = keys.get(name)
        if entry and entry.version == version and not entry.is_visible(decision.at):
            due.append((name, version))
    _sweep_keys(decision, due)


def decide_erase_values(
    decision: Decision, command: EraseValues, pages: PageTable
) -> None:
    """Remove due values from the journal. Emits values.erased, or nothing."""
    dues = pages.list_dues(command.seqs)
    due = [s for s, at in sorted(dues.items()) if at + command.grace <= decision.at]
    if due:
        decision.emit(events.ValuesErased(seqs=due))


def _find_key(decision: Decision, key: str) -> KeyEntry | None:
    return decision.state.memory.contents.find_key(key, now=decision.at)


def _require_expected(
    entry: KeyEntry | None, expected: Expected, decision: Decision
) -> None:
    """Raise StaleError or KeyExistsError unless the key is as the sender saw it."""
    version = None if entry is None else decision.state.to_seq(entry.version)
    if expected.absent and version is not None:
        raise KeyExistsError(version=version)
    if expected.version is not None and version != expected.version:
        raise StaleError(version=version)


def _compute_expiry(
    decision: Decision, expiry: Expiry, *, default: timedelta | None
) -> datetime | None:
    """Compute the expiry: as requested, else the thread's, else the project's default.

    Rounded up to a whole second, since the journal holds the instant unencrypted.
    """
    if not expiry.given:
        seconds = decision.state.config.default_ttl_seconds
        ttl = timedelta(seconds=seconds) if seconds else default
        return None if ttl is None else _round_up_second(decision.at + ttl)
    if expiry.at is not None and expiry.at <= decision.at:
        raise InvalidError(code="expiry_in_past", loc="expires_at")
    until = expiry.at if expiry.ttl is None else decision.at + expiry.ttl
    return None if until is None else _round_up_second(until)


def _round_up_second(instant: datetime) -> datetime:
    whole = instant.replace(microsecond=0)
    return whole if whole == instant else whole + timedelta(seconds=1)


def _make_room(decision: Decision, change: SetKey) -> None:
    if not _find_passed_limit(decision, change):
        return
    contents = decision.state.memory.contents
    due = sorted(
        (name, entry.version)
        for name, entry in list_items(contents.keys)
        if not entry.is_visible(decision.at)
    )
    _sweep_keys(decision, due)
    if passed := _find_passed_limit(decision, change):
        raise KeysFullError(**passed)


def _find_passed_limit(decision: Decision, change: SetKey) -> dict[str, int]:
    """Find the limit that a change would pass; {} if none, or if nothing grows."""
    state, contents = decision.state, decision.state.memory.contents
    held, old = contents.keys.get(change.key), _find_key(decision, change.key)
    if old is None and len(contents.keys) + (held is None) > state.max_keys:
        return {"max_keys": state.max_keys}
    added = pad_size(change.bytes)
    size = contents.key_bytes + added - (held.bytes if held else 0)
    grows = old is None or added > old.bytes
    if grows and size > state.max_key_bytes:
        return {"max_key_bytes": state.max_key_bytes}
    return {}


def _sweep_keys(decision: Decision, due: Sequence[tuple[str, int]]) -> None:
    for start in range(0, len(due), SWEPT_AT_ONCE):
        swept = [
            events.ExpiredKey(key=name, version=version)
            for name, version in due[start : start + SWEPT_AT_ONCE]
        ]
        decision.emit(events.KeysExpired(keys=swept))


def apply_key_set(state: ThreadState, event: events.KeySet) -> ThreadState:
    clock = state.clock + 1
    entry = KeyEntry(clock, clock, event.expires_at, event.bytes)
    return _put_key(state, event.key, entry)


def apply_key_retimed(state: ThreadState, event: events.KeyRetimed) -> ThreadState:
    entry = state.memory.contents.keys[event.key]
    entry = entry._replace(version=state.clock + 1, expires_at=event.expires_at)
    return _put_key(state, event.key, entry)


def apply_key_deleted(state: ThreadState, event: events.KeyDeleted) -> ThreadState:
    return _remove_keys(state, [event.key])


def apply_keys_cleared(state: ThreadState, event: events.KeysCleared) -> ThreadState:
    return _remove_keys(state, [*state.memory.contents.keys])


def apply_keys_expired(state: ThreadState, event: events.KeysExpired) -> ThreadState:
    return _remove_keys(state, [each.key for each in event.keys])


def apply_values_erased(state: ThreadState, event: events.ValuesErased) -> ThreadState:
    return state


def _put_key(state: ThreadState, key: str, entry: KeyEntry) -> ThreadState:
    contents = state.memory.contents
    old = contents.keys.get(key)
    contents = contents._replace(
        keys=contents.keys.insert(key, entry),
        key_bytes=contents.key_bytes + entry.bytes - (old.bytes if old else 0),
    )
    return _replace_contents(state, contents, [key])


def _remove_keys(state: ThreadState, names: Sequence[str]) -> ThreadState:
    keys, size = state.memory.contents.keys, state.memory.contents.key_bytes
    for name in names:
        size -= keys[name].bytes
        keys = keys.remove(name)
    contents = state.memory.contents._replace(keys=keys, key_bytes=size)
    return _replace_contents(state, contents, names)


def _replace_contents(
    state: ThreadState, contents: Contents, names: Sequence[str]
) -> ThreadState:
    memory: WorkingMemory = state.memory
    memory = memory._replace(contents=contents, touched=memory.add_touched(names))
    return state._replace(memory=memory)


PART = KernelPart(
    commands={
        ChangeKeys: decide_change_keys,
        RetimeKey: decide_retime_key,
        ClearKeys: decide_clear_keys,
    },
    upkeep={ExpireKeys: decide_expire_keys, EraseValues: decide_erase_values},
    # Items of a subject are keys of the home thread. No clearing: an operator's
    # clearing takes a checkpoint, which a home thread does not.
    home=frozenset({ChangeKeys, RetimeKey, ExpireKeys, EraseValues}),
    events={
        events.KeySet: apply_key_set,
        events.KeyRetimed: apply_key_retimed,
        events.KeyDeleted: apply_key_deleted,
        events.KeysCleared: apply_keys_cleared,
        events.KeysExpired: apply_keys_expired,
        events.ValuesErased: apply_values_erased,
    },
    limits={
        "max_keys": Capacity(DEFAULT_MAX_KEYS, most=100_000),
        "max_key_bytes": Capacity(DEFAULT_MAX_KEY_BYTES, least=1024, most=2**30),
    },
)
