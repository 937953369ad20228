"""Life of working memory for state machines: every command, beside the plain model.

A subclass says who carries commands out: the kernel, or processes of a hub.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.commands import AmendThread
from memoryhub.kernel.memory.checkpoints import (
    DeleteCheckpoint,
    RestoreCheckpoint,
    TakeCheckpoint,
)
from memoryhub.kernel.memory.keys import (
    ChangeKeys,
    ClearKeys,
    DeleteKey,
    EraseValues,
    ExpireKeys,
    Expiry,
    RetimeKey,
    SetKey,
)
from memoryhub.kernel.memory.memory_commands import Expected
from memoryhub.kernel.memory.notes import AddNotes, ClearNotes, NewNote
from memoryhub.kernel.memory.nouns import RESTORED
from memoryhub.kernel.memory.tasks import TASK_FIELDS, ClearTask, SetTask, UpdateTask
from tests.oracles.memory_model import Model, No

KEYS = st.sampled_from(["a", "a.b", "b", "c", "Z"])
TEXTS = st.sampled_from([b"null", b"1", b"true", b'"one"', b"[1,2,3]", b'{"a":null}'])
SECONDS = st.sampled_from([2, 5, 30])
EXPIRIES = st.one_of(
    st.just(Expiry()),
    st.just(Expiry(given=True)),
    st.builds(
        lambda seconds: Expiry(given=True, ttl=timedelta(seconds=seconds)), SECONDS
    ),
)
#: What a condition says: nothing, the truth, something else, or that there is none.
CONDITIONS = st.sampled_from(["none", "none", "none", "right", "wrong", "absent"])
NAMES = st.sampled_from([None, None, "one", "two", "three"])
PARTS = st.sampled_from(
    [
        RESTORED,
        RESTORED,
        ("keys",),
        ("task",),
        ("notes",),
        ("task", "notes"),
        (*RESTORED, "frames"),
    ]
)
PICKS = st.integers(0, 99)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "description": st.just(b'"d"'),
        "current_step": st.sampled_from([b"0", b"3"]),
        "progress_percent": st.sampled_from([b"0.0", b"33.3"]),
        "started_at": st.sampled_from([b"null", b'"2026-05-01T06:30:00+00:00"']),
        "data": st.just(b"{}"),
    },
)
STATUSES = st.sampled_from(["running", "completed"])
LIMITS: dict[str, st.SearchStrategy[Any]] = {
    "max_keys": st.sampled_from([2, 4, None]),
    "max_key_bytes": st.sampled_from([130, None]),
    "max_notes": st.sampled_from([1, 3, None]),
    "default_ttl_seconds": st.sampled_from([None, None, 4]),
}


class Lives(RuleBasedStateMachine):
    """Working memory of one thread, beside its model."""

    model: Model

    def carry_out(self, command: Any) -> Sequence[Any]:
        """Carry out a command and return its events. Raises a Refusal."""
        raise NotImplementedError

    def now(self) -> datetime:
        """The instant of the next command."""
        raise NotImplementedError

    def let_pass(self, seconds: int) -> None:
        raise NotImplementedError

    def both(self, command: Any) -> Sequence[Any]:
        """Give a command to the thread and its events to the model; compare both."""
        at, code, expected = self.now(), "", ""
        events: Sequence[Any] = ()
        try:
            events = self.carry_out(command)
        except InvalidError as error:
            code = error.invalid_code
        except Refusal as error:
            code = error.code
        try:
            self.model.act(command, at=at, heard=None if code else events)
        except No as error:
            expected = str(error)
        assert code == expected
        return events

    def condition(self, said: str, version: int | None) -> Expected:
        seen = None if version is None else self.model.seq(version)
        return {
            "none": Expected(),
            "right": Expected(version=seen),
            "wrong": Expected(version=(seen or 0) + 1),
            "absent": Expected(absent=True),
        }[said]

    def find_version(self, key: str) -> int | None:
        self.model.at = self.now()
        held = self.model.visible().get(key)
        return held.version if held else None

    def setting(self, key: str, text: bytes, expiry: Expiry, said: str) -> SetKey:
        return SetKey(
            key=key,
            value=text,
            bytes=len(text),
            expiry=expiry,
            expected=self.condition(said, self.find_version(key)),
        )

    def point(self, pick: int) -> int | str:
        """Draw a checkpoint that exists, by number or name, or one that does not."""
        named = [each.name for each in self.model.points.values() if each.name]
        known: list[int | str] = [*self.model.points, *named, "nothing", -5]
        return known[pick % len(known)]

    @rule(key=KEYS, text=TEXTS, expiry=EXPIRIES, said=CONDITIONS)
    def set_key(self, key: str, text: bytes, expiry: Expiry, said: str) -> None:
        change = self.setting(key, text, expiry, said)
        self.both(ChangeKeys(changes=(change,)))

    @rule(key=KEYS, text=TEXTS, seconds=st.sampled_from([-1, 0, 1, 9]))
    def set_until(self, key: str, text: bytes, seconds: int) -> None:
        """Set a key until an instant, perhaps past, or for the project's default."""
        until = Expiry(given=True, at=self.now() + timedelta(seconds=seconds))
        default = timedelta(seconds=7)
        for expiry in (until, Expiry()):
            change = self.setting(key, text, expiry, "none")
            self.both(ChangeKeys(changes=(change,), default_ttl=default))

    @rule(
        keys=st.lists(KEYS, min_size=1, max_size=4, unique=True),
        text=TEXTS,
        expiry=EXPIRIES,
        said=CONDITIONS,
        deletes=st.sets(KEYS, max_size=2),
    )
    def change_keys(
        self, keys: list[str], text: bytes, expiry: Expiry, said: str, deletes: set[str]
    ) -> None:
        changes = [
            DeleteKey(key=key, expected=self.condition(said, self.find_version(key)))
            if key in deletes
            else self.setting(key, text, expiry, said)
            for key in keys
        ]
        self.both(ChangeKeys(changes=tuple(changes)))

    @rule(key=KEYS, said=CONDITIONS)
    def delete_key(self, key: str, said: str) -> None:
        change = DeleteKey(
            key=key, expected=self.condition(said, self.find_version(key))
        )
        self.both(ChangeKeys(changes=(change,)))

    @rule(
        key=KEYS,
        expiry=EXPIRIES.filter(lambda expiry: expiry.given),
        said=CONDITIONS,
        value=st.booleans(),
    )
    def retime_key(self, key: str, expiry: Expiry, said: str, value: bool) -> None:
        held = self.model.things.keys.get(key)
        command = RetimeKey(
            key=key,
            expiry=expiry,
            expected=self.condition(said, self.find_version(key)),
            value=held.text if held and value else None,
        )
        self.both(command)

    @rule()
    def clear_keys(self) -> None:
        self.both(ClearKeys())

    @rule(stale=st.booleans())
    def expire_keys(self, stale: bool) -> None:
        """Expire keys as the worker does, which may have looked earlier, or twice."""
        held = self.model.things.keys.items()
        keys = [(name, each.version - stale) for name, each in held]
        self.both(ExpireKeys(keys=(*keys, *keys[:1], ("nothing", 1))))

    @rule(grace=st.sampled_from([0, 10]), all_of_them=st.booleans())
    def erase_values(self, grace: int, all_of_them: bool) -> None:
        seqs = [self.model.seq(clock) for clock in self.model.given]
        chosen = tuple(seq for seq in seqs if seq > 0)[:: 1 if all_of_them else 2]
        command = EraseValues(seqs=chosen, grace=timedelta(seconds=grace))
        self.both(command)

    @rule(status=STATUSES, fields=FIELDS, said=CONDITIONS)
    def set_task(self, status: Any, fields: dict[Any, bytes], said: str) -> None:
        expected = self.task_condition(said)
        self.both(SetTask(status=status, fields=fields, expected=expected))

    @rule(
        status=st.none() | STATUSES,
        fields=FIELDS,
        said=CONDITIONS,
        cleared=st.sets(st.sampled_from(TASK_FIELDS)),
    )
    def update_task(
        self, status: Any, fields: dict[Any, bytes], said: str, cleared: set[Any]
    ) -> None:
        command = UpdateTask(
            status=status,
            fields=fields,
            cleared=tuple(sorted(cleared - {*fields})),
            expected=self.task_condition(said),
        )
        self.both(command)

    @rule(said=CONDITIONS)
    def clear_task(self, said: str) -> None:
        self.both(ClearTask(expected=self.task_condition(said)))

    def task_condition(self, said: str) -> Expected:
        task = self.model.things.task
        if said == "absent":
            return Expected()
        return self.condition(said, task["version"] if task else None)

    @rule(texts=st.lists(TEXTS, min_size=1, max_size=3))
    def add_notes(self, texts: list[bytes]) -> None:
        notes = [NewNote(text=text, bytes=len(text)) for text in texts]
        self.both(AddNotes(notes=tuple(notes)))

    @rule()
    def clear_notes(self) -> None:
        self.both(ClearNotes())

    @rule(name=NAMES, description=st.sampled_from([None, b'"why"']))
    def take_checkpoint(self, name: str | None, description: bytes | None) -> None:
        self.both(TakeCheckpoint(name=name, description=description))

    @rule(pick=PICKS, parts=PARTS)
    def restore_checkpoint(self, pick: int, parts: Any) -> None:
        self.both(RestoreCheckpoint(target=self.point(pick), parts=parts))

    @rule(pick=PICKS)
    def delete_checkpoint(self, pick: int) -> None:
        self.both(DeleteCheckpoint(target=self.point(pick)))

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: int) -> None:
        self.let_pass(seconds)

    @rule(chosen=st.fixed_dictionaries({}, optional=LIMITS))
    def configure(self, chosen: dict[str, Any]) -> None:
        self.model.clock += len(self.carry_out(AmendThread(config=chosen)))
        self.limit(chosen)

    def limit(self, chosen: dict[str, Any]) -> None:
        """Set the limits that the model follows from now on."""
        known = self.model
        known.max_keys = chosen.get("max_keys", known.max_keys) or 10_000
        known.max_notes = chosen.get("max_notes", known.max_notes) or 1_000
        limit = chosen.get("max_key_bytes", known.max_key_bytes)
        known.max_key_bytes = limit or 64 * 2**20
        known.default_ttl = chosen.get("default_ttl_seconds", known.default_ttl)
