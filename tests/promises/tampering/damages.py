"""Damages to a stored thread, made beside the journal at random places."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.db.models import Model

from memoryhub.journal.rows import listed_columns
from memoryhub.models.events import Event, Snapshot
from memoryhub.models.pages import EvictedPage, Page, PageLevel
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.models.working_memory import DueValue, Key

#: Of a thread's row, what the journal does not say: its name, its salt (which only
#: counts where there are names), the copies that lists sort by, marks for workers and
#: where it was imported from. Whose it is has a test of its own.
UNTOLD = {"name", "name_salt", "listed_at", "levels_due", "observer_due", "origin"}
UNTOLD |= {
    "predicates_due",
    "project_id",
    "subject_id",
    "listed_rate",
    *listed_columns.COPIES,
}


@dataclass(frozen=True, slots=True)
class Damage:
    what: str
    #: The event that is wrong; None if the damage is none of an event.
    seq: int | None = None


Damager = Callable[[Thread, random.Random], Damage]


def other_value(value: Any, chance: random.Random) -> Any:
    """Return another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + chance.choice([-1, 1_000])
    if isinstance(value, memoryview | bytes):
        return flipped(bytes(value), chance)
    if isinstance(value, datetime):
        return value + timedelta(microseconds=chance.choice([-1, 1, 10**9]))
    if isinstance(value, UUID):
        return uuid4()
    assert isinstance(value, str)
    return change_character(value, chance)


def first_value(field: Any) -> Any:
    """Return a value for an empty column."""
    return {
        "BinaryField": b"x" * 32,
        "DateTimeField": datetime(2024, 1, 1, tzinfo=UTC),
        "ForeignKey": uuid4(),
        "BigIntegerField": 1,
        "BooleanField": True,
    }.get(field.get_internal_type(), "q")


def flipped(value: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(value)) if value else 0
    bit = bytes([value[place] ^ 1 << chance.randrange(8)]) if value else b"x"
    return value[:place] + bit + value[place + 1 :]


def change_character(value: str, chance: random.Random) -> str:
    """Change one character, so that JSON mostly stays JSON."""
    place = chance.randrange(len(value)) if value else 0
    new = "7" if value[place : place + 1].isdigit() else "q"
    if value[place : place + 1] == new:
        new = "8" if new == "7" else "r"
    return value[:place] + new + value[place + 1 :]


def rows_of(model: type[Model], thread: Thread) -> Any:
    named = {"id": thread.id} if model is Thread else {"thread_id": thread.id}
    return model._default_manager.filter(**named)


def column_damager(model: type[Model], column: str) -> Damager:
    field = next(f for f in model._meta.concrete_fields if f.attname == column)

    def damage(thread: Thread, chance: random.Random) -> Damage:
        row = chance.choice(list(rows_of(model, thread).order_by("pk")))
        value = getattr(row, column)
        value = first_value(field) if value is None else other_value(value, chance)
        rows_of(model, thread).filter(pk=row.pk).update(**{column: value})
        seq = row.seq if model is Event and column != "seq" else None
        return Damage(f"{model.__name__}.{column} of {row.pk}", seq)

    return damage


def drop(model: type[Model]) -> Damager:
    def damage(thread: Thread, chance: random.Random) -> Damage:
        row = chance.choice(list(rows_of(model, thread).order_by("pk")))
        rows_of(model, thread).filter(pk=row.pk).delete()
        return Damage(f"{row.pk} dropped", row.seq if model is Event else None)

    return damage


def copied(row: Any, **changes: Any) -> None:
    """Insert a copy of the row, as another one."""
    fields = row._meta.concrete_fields
    values = {each.attname: getattr(row, each.attname) for each in fields}
    type(row)(**{**values, **changes}).save(force_insert=True)


def repeat(thread: Thread, chance: random.Random) -> Damage:
    row = chance.choice(list(thread.events.all()))
    copied(row, seq=thread.head_seq + 1)
    return Damage(f"{row.seq} repeated at the end")


def insert_before_all(thread: Thread, chance: random.Random) -> Damage:
    row = chance.choice(list(thread.events.all()))
    copied(row, seq=chance.choice([0, -1]))
    return Damage(f"{row.seq} before the first")


def extra_slot(thread: Thread, chance: random.Random) -> Damage:
    row = thread.slots.order_by("-index")[0]
    seq = chance.choice([row.seq, 1, thread.head_seq, thread.head_seq + 5, 0])
    copied(row, index=row.index + chance.randrange(1, 3), seq=seq)
    return Damage(f"an extra slot at {seq}")


def extra_turn(thread: Thread, chance: random.Random) -> Damage:
    seq = chance.choice([1, 3, thread.head_seq, thread.head_seq + 5])
    Turn.objects.create(thread=thread, n=thread.turn_count + 1, seq=seq)
    return Damage(f"an extra turn at {seq}")


def extra_label(thread: Thread, chance: random.Random) -> Damage:
    ThreadLabel.objects.create(
        thread=thread, name="zz", project_id=thread.project_id, value="1"
    )
    return Damage("an extra label")


def swap(thread: Thread, chance: random.Random) -> Damage:
    """Exchange two messages: sealed bytes, digests and all but the chain."""
    one, other = sorted(
        chance.sample(list(thread.events.filter(type="slot.appended")), 2),
        key=lambda row: row.seq,
    )
    for row, content in ((one, other), (other, one)):
        thread.events.filter(seq=row.seq).update(
            body=content.body,
            payload=content.payload,
            payload_digest=content.payload_digest,
        )
    return Damage(f"{one.seq} and {other.seq} swapped", one.seq)


def foreign(thread: Thread, chance: random.Random) -> Damage:
    """Put in the sealed bytes of another thread, of the same seq if there is one."""
    row = chance.choice(list(thread.events.filter(payload__isnull=False)))
    other = Event.objects.exclude(thread=thread).filter(payload__isnull=False)
    source = other.filter(seq=row.seq).first() or chance.choice(list(other))
    changes: dict[str, Any] = {"payload": source.payload}
    if chance.random() < 0.5:
        changes["payload_digest"] = source.payload_digest
    thread.events.filter(seq=row.seq).update(**changes)
    return Damage(f"foreign bytes at {row.seq}", row.seq)


def cut_tail(thread: Thread, chance: random.Random) -> Damage:
    """Delete the tail; in half the cases move the head back as well."""
    seq = chance.randrange(2, thread.head_seq)
    thread.events.filter(seq__gt=seq).delete()
    if chance.random() < 0.5:
        Thread.objects.filter(id=thread.id).update(head_seq=seq)
        thread.slots.filter(seq__gt=seq).delete()
    return Damage(f"cut after {seq}")


#: All that is stored of a thread.
_OF_THREAD: tuple[type[Model], ...] = (
    *(Snapshot, Event, Slot, Turn, ThreadLabel, Page, PageLevel, EvictedPage),
    *(Key, DueValue),
)


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy of a thread: its row, and all rows that belong to it."""

    row: Thread
    rows: dict[type[Model], list[Model]]

    @classmethod
    def from_thread(cls, thread: Thread) -> Copy:
        rows = {model: list(rows_of(model, thread)) for model in _OF_THREAD}
        return cls(Thread.objects.get(id=thread.id), rows)

    def put_back(self, **anchored: Any) -> None:
        """Restore the copy to the last row, and its anchor as given."""
        for model, rows in self.rows.items():
            rows_of(model, self.row).delete()
            model._default_manager.bulk_create(rows)
        for name, value in anchored.items():
            setattr(self.row, name, value)
        self.row.save()


def vanish(thread: Thread) -> None:
    """Delete all rows of the thread, as if it had never been."""
    for model in _OF_THREAD:
        rows_of(model, thread).delete()
    Thread.objects.filter(id=thread.id).delete()


def unlawful_erasure(thread: Thread, chance: random.Random) -> Damage:
    """Erase a payload as the triggers allow, by an event that ordered no erasure."""
    row = chance.choice(list(thread.events.filter(payload__isnull=False)))
    by = chance.choice([1, row.seq, thread.head_seq, thread.head_seq + 1])
    thread.events.filter(seq=row.seq).update(payload=None, erased_by=by)
    return Damage(f"{row.seq} erased by {by}", row.seq)


def orphan(thread: Thread, chance: random.Random) -> Damage:
    """Cut a fork's link to its parent."""
    Thread.objects.filter(id=thread.id).update(
        parent_id=None, fork_seq=None, lineage="[]"
    )
    return Damage("no parent")


def iter_columns() -> Iterator[tuple[str, Damager]]:
    for model in (Event, Slot, Turn, ThreadLabel, Thread):
        for each in model._meta.concrete_fields:
            untold = model is Thread and each.attname in UNTOLD
            if not untold and each.attname != "id":
                name = f"{model.__name__}.{each.attname}"
                yield name, column_damager(model, each.attname)


FORK: dict[str, Damager] = {
    **{name: each for name, each in iter_columns() if not name.startswith("Turn.")},
    **{f"drop {model.__name__}": drop(model) for model in (Event, Slot, ThreadLabel)},
    "repeat": repeat,
    "insert before all": insert_before_all,
    "extra slot": extra_slot,
    "extra turn": extra_turn,
    "extra label": extra_label,
    "swap": swap,
    "foreign": foreign,
    "cut": cut_tail,
    "unlawful erasure": unlawful_erasure,
    "orphan": orphan,
}
RUN: dict[str, Damager] = {
    **{
        name: each
        for name, each in iter_columns()
        if name.startswith(("Event.", "Turn."))
    },
    "drop Turn": drop(Turn),
    "extra turn": extra_turn,
    "swap": swap,
    "cut": cut_tail,
}
