"""Plain model of working memory, after its document: dictionaries, copied whole.

The model decides nothing as the kernel does: a checkpoint is a copy, a restore a
comparison of everything, and expired keys are searched in full. The thread may sweep
when it likes, as long as it sweeps only expired keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from memoryhub.kernel.memory.checkpoints import (
    DeleteCheckpoint,
    RestoreCheckpoint,
    TakeCheckpoint,
)
from memoryhub.kernel.memory.keys import (
    ChangeKeys,
    ClearKeys,
    EraseValues,
    ExpireKeys,
    Expiry,
    RetimeKey,
    SetKey,
)
from memoryhub.kernel.memory.memory_commands import Expected
from memoryhub.kernel.memory.notes import AddNotes, ClearNotes
from memoryhub.kernel.memory.tasks import TASK_FIELDS, ClearTask, SetTask, UpdateTask
from memoryhub.kernel.text.padding import pad_size

AUTOMATIC_KEPT = 20


class No(Exception):
    """Refusal that the thread owes, by its code."""


@dataclass(slots=True, kw_only=True)
class Held:
    """Value of a key, and the instant of its expiry."""

    value: int
    version: int
    until: datetime | None
    #: JSON, and its canonical size.
    text: bytes
    size: int


@dataclass(slots=True, kw_only=True)
class Things:
    """Contents that a checkpoint copies."""

    keys: dict[str, Held] = field(default_factory=dict)
    #: Its texts are (clock, JSON text), like the notes.
    task: dict[str, Any] | None = None
    #: Oldest first.
    notes: list[tuple[int, bytes]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Point:
    name: str | None
    auto: bool
    things: Things


class Model:
    """Working memory of one thread. `act` compares a command's outcome with it."""

    def __init__(
        self,
        *,
        clock: int,
        max_keys: int = 10_000,
        max_key_bytes: int = 64 * 2**20,
        max_notes: int = 1_000,
        default_ttl: int | None = None,
    ) -> None:
        self.clock = clock
        self.max_keys, self.max_key_bytes = max_keys, max_key_bytes
        self.max_notes, self.default_ttl = max_notes, default_ttl
        #: Up to here events are inherited, and their numbers 0 or less.
        self.inherited = 0
        self.things = Things()
        self.points: dict[int, Point] = {}
        #: Expiries ever given to each value, by its clock.
        self.given: dict[int, list[datetime | None]] = {}
        self.erased: set[int] = set()
        self.at = datetime(2026, 1, 1, tzinfo=UTC)
        self.heard: list[Any] | None = None

    def act(self, command: Any, *, at: datetime, heard: Sequence[Any] | None) -> None:
        """Assert the outcome of a command; `heard` is None where it was refused.

        Raises No, and leaves the model unchanged, when the command has to be refused.
        """
        before = deepcopy(self.__dict__)
        self.at, self.heard = at, None if heard is None else [*heard]
        try:
            _ACTS[type(command)](self, command)
        except No:
            self.__dict__ = before
            raise
        assert not self.heard, self.heard

    def seq(self, clock: int) -> int:
        return clock - self.inherited

    def visible(self, things: Things | None = None) -> dict[str, Held]:
        keys = (things or self.things).keys
        return {n: k for n, k in keys.items() if k.until is None or self.at < k.until}

    def _tell(self, kind: str, **fields: Any) -> int:
        """Require the next event, after sweeps, and return its clock."""
        if self.heard is not None:
            while (event := self.heard.pop(0)).event_type == "keys.expired":
                self.swept(event)
            told = {name: getattr(event, name) for name in fields}
            assert (event.event_type, told) == (kind, fields)
        self.clock += 1
        return self.clock

    def swept(self, event: Any) -> None:
        """Sweep: only expired keys may go, each once."""
        self.clock += 1
        gone = [each.key for each in event.keys]
        assert 1 <= len({*gone}) == len(gone) <= 200
        assert not {*gone} & {*self.visible()}
        for name in gone:
            self.things.keys.pop(name, None)

    # Keys

    def _change_keys(self, command: ChangeKeys) -> None:
        for change in command.changes:
            held = self.visible().get(change.key)
            self._require(held, change.expected)
            if isinstance(change, SetKey):
                self._set(change, held, default=command.default_ttl)
            elif held:
                self._tell("key.deleted", key=change.key)
                del self.things.keys[change.key]

    def _set(
        self, change: SetKey, held: Held | None, *, default: timedelta | None
    ) -> None:
        if self.default_ttl:
            default = timedelta(seconds=self.default_ttl)
        until = self._until(change.expiry, default)
        others = self.visible()
        others.pop(change.key, None)
        if held is None and len(others) >= self.max_keys:
            raise No("keys_full")
        added = pad_size(change.bytes)
        size = sum(each.size for each in others.values()) + added
        if size > self.max_key_bytes and added > (held.size if held else -1):
            raise No("keys_full")
        self._put(change.key, until, added, change.value, created=held is None)

    def _put(
        self, key: str, until: datetime | None, size: int, text: bytes, *, created: bool
    ) -> None:
        told = {"bytes": size, "expires_at": until, "created": created}
        clock = self._tell("key.set", key=key, **told)
        self.given[clock] = [until]
        self.things.keys[key] = Held(
            value=clock, version=clock, until=until, text=text, size=size
        )

    def _until(self, expiry: Expiry, default: timedelta | None) -> datetime | None:
        if not expiry.given:
            return None if default is None else self.at + default
        if expiry.ttl is not None:
            return self.at + expiry.ttl
        if expiry.at is not None and expiry.at <= self.at:
            raise No("expiry_in_past")
        return expiry.at

    def _require(self, held: Held | None, expected: Expected) -> None:
        if expected.absent and held:
            raise No("key_exists")
        seen = self.seq(held.version) if held else None
        if expected.version is not None and seen != expected.version:
            raise No("stale")

    def _retime_key(self, command: RetimeKey) -> None:
        held = self.visible().get(command.key)
        if held is None:
            raise No("key_not_found")
        self._require(held, command.expected)
        until = self._until(command.expiry, None)
        if held.value <= self.inherited:
            if command.value is None:
                raise No("stale")
            self._put(command.key, until, held.size, command.value, created=False)
            return
        held.version = self._tell("key.retimed", key=command.key, expires_at=until)
        held.until = until
        self.given[held.value].append(until)

    def _clear_keys(self, command: ClearKeys) -> None:
        if count := len(self.visible()):
            self._tell("keys.cleared", count=count)
            self.things.keys.clear()

    def _expire_keys(self, command: ExpireKeys) -> None:
        assert self.heard is not None
        must = {
            (name, held.version)
            for name, held in self.things.keys.items()
            if name not in self.visible() and (name, held.version) in command.keys
        }
        told = {(e.key, e.version) for event in self.heard for e in event.keys}
        assert must <= told <= {*command.keys}
        while self.heard:
            self.swept(self.heard.pop(0))

    def list_due_seqs(self, seqs: Sequence[int], grace: timedelta) -> list[int]:
        """Return the seqs of the values that may leave the journal."""
        found = []
        for seq in sorted({*seqs}):
            given = self.given.get(seq + self.inherited, [None])
            own = seq > 0 and seq + self.inherited not in self.erased
            if own and None not in given and max(given) + grace <= self.at:  # type: ignore[type-var, operator]  # no None
                found.append(seq)
        return found

    def _erase_values(self, command: EraseValues) -> None:
        if seqs := self.list_due_seqs(command.seqs, command.grace):
            self._tell("values.erased", seqs=seqs)
            self.erased |= {seq + self.inherited for seq in seqs}

    def erase(self, seqs: Sequence[int]) -> None:
        """Erase values that the thread erased by itself."""
        self.clock += 1
        self.erased |= {seq + self.inherited for seq in seqs}

    # The task

    def _set_task(self, command: SetTask) -> None:
        self._require_task(command.expected)
        now = json.dumps(self.at.isoformat()).encode()
        fields = {"started_at": now, **command.fields}
        clock = self._tell("task.set", status=command.status, fields=sorted(fields))
        self.things.task = {
            **dict.fromkeys(TASK_FIELDS),
            **_told(clock, fields),
            "status": command.status,
            "version": clock,
        }

    def _update_task(self, command: UpdateTask) -> None:
        if self.things.task is None:
            raise No("task_not_found")
        self._require_task(command.expected)
        clock = self._tell("task.updated")
        changed: dict[str, Any] = {**_told(clock, command.fields)}
        changed |= dict.fromkeys(command.cleared)
        if command.status is not None:
            changed["status"] = command.status
        self.things.task = {**self.things.task, **changed, "version": clock}

    def _clear_task(self, command: ClearTask) -> None:
        self._require_task(command.expected)
        if self.things.task is not None:
            self._tell("task.cleared")
            self.things.task = None

    def _require_task(self, expected: Expected) -> None:
        task = self.things.task
        seen = self.seq(task["version"]) if task else None
        if expected.version is not None and seen != expected.version:
            raise No("stale")

    # Notes

    def _add_notes(self, command: AddNotes) -> None:
        for note in command.notes:
            notes = self.things.notes
            trimmed = max(0, len(notes) + 1 - self.max_notes)
            clock = self._tell(
                "note.added", bytes=pad_size(note.bytes), trimmed=trimmed
            )
            self.things.notes = [*notes[trimmed:], (clock, note.text)]

    def _clear_notes(self, command: ClearNotes) -> None:
        if count := len(self.things.notes):
            self._tell("notes.cleared", count=count)
            self.things.notes = []

    # Checkpoints

    def _take_checkpoint(self, command: TakeCheckpoint) -> None:
        names = {point.name for point in self.points.values()}
        if command.name is not None and command.name in names:
            raise No("name_taken")
        self._take(command.name)

    def _take(self, name: str | None, *, auto: bool = False) -> int:
        clock = self._tell("checkpoint.taken", name=name, auto=auto)
        kept = deepcopy(self.things)
        self.points[clock] = Point(name=name, auto=auto, things=kept)
        return clock

    def find(self, target: int | str) -> int:
        for clock, point in self.points.items():
            if target in (clock, point.name):
                return clock
        raise No("not_found")

    def _restore_checkpoint(self, command: RestoreCheckpoint) -> None:
        target = self.find(command.target)
        then, parts = self.points[target].things, command.parts
        now = self.visible()
        kept = self.visible(then) if "keys" in parts else now
        changed = sum(now.get(name) != held for name, held in kept.items())
        removed = len({*now} - {*kept})
        notes = then.notes if "notes" in parts else self.things.notes
        task = then.task if "task" in parts else self.things.task
        moved = len({*notes} ^ {*self.things.notes})
        if not (changed or removed or moved or task != self.things.task):
            return
        before = self._get_equal_checkpoint()
        pruned = self._automatic()[:-AUTOMATIC_KEPT]
        counts = {"set": changed, "removed": removed, "notes": moved}
        told = {"target": target, "before": before, "pruned": pruned, **counts}
        self._tell("checkpoint.restored", **told)
        self.things = deepcopy(Things(keys=kept, task=task, notes=notes))
        for clock in pruned:
            del self.points[clock]

    def _get_equal_checkpoint(self) -> int:
        """Find the checkpoint that equals the present contents, or make one.

        A thread looks no further than its current checkpoint.
        """
        if self.heard and self.heard[0].event_type == "checkpoint.restored":
            before: int = self.heard[0].before
            assert self.same(before)
            return before
        assert not self.same(self.clock)
        return self._take(None, auto=True)

    def _automatic(self) -> list[int]:
        return sorted(clock for clock, point in self.points.items() if point.auto)

    def same(self, clock: int) -> bool:
        """Tell whether that checkpoint holds just the present visible contents."""
        point = self.points.get(clock)
        if point is None:
            return False
        then, now = point.things, self.things
        kept = self.visible(then), then.task, then.notes
        return kept == (self.visible(), now.task, now.notes)

    def _delete_checkpoint(self, command: DeleteCheckpoint) -> None:
        try:
            target = self.find(command.target)
        except No:
            return
        self._tell("checkpoint.deleted", target=target)
        del self.points[target]


def _told(clock: int, fields: Mapping[Any, bytes]) -> dict[str, tuple[int, bytes]]:
    return {name: (clock, text) for name, text in fields.items()}


_ACTS: dict[type, Callable[[Model, Any], None]] = {
    ChangeKeys: Model._change_keys,
    RetimeKey: Model._retime_key,
    ClearKeys: Model._clear_keys,
    ExpireKeys: Model._expire_keys,
    EraseValues: Model._erase_values,
    SetTask: Model._set_task,
    UpdateTask: Model._update_task,
    ClearTask: Model._clear_task,
    AddNotes: Model._add_notes,
    ClearNotes: Model._clear_notes,
    TakeCheckpoint: Model._take_checkpoint,
    RestoreCheckpoint: Model._restore_checkpoint,
    DeleteCheckpoint: Model._delete_checkpoint,
}
