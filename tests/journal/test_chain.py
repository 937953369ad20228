"""Append-only and tamper-evident: what SQL may not do, and what verify finds."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from memoryhub.models.events import Event
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.queries.verification import verify
from memoryhub.services.api_keys import Agent
from memoryhub.services.rebuild import rebuild
from tests.factories import append, get_thread, make_thread

pytestmark = pytest.mark.django_db

COLUMNS = ["thread_id", "seq", "type", "at", "actor", "body", "payload"]
COLUMNS += ["payload_digest", "chain", "erased_by"]


@pytest.mark.parametrize("column", COLUMNS)
def test_sql_can_not_change_an_event(agent: Agent, column: str) -> None:
    append(agent, "t-1", "one")
    other = {"seq": "99", "erased_by": "1"}.get(column, f"{column} || {column}")
    if connection.vendor == "postgresql" and column == "thread_id":
        other = "gen_random_uuid()"
    if connection.vendor == "postgresql" and column == "at":
        other = "at + interval '1 day'"
    with pytest.raises(DatabaseError), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE memoryhub_event SET {column} = {other}")  # noqa: S608 # ours
    assert verify(get_thread(agent)) is None


def test_nothing_can_remove_or_rewrite_an_event(agent: Agent) -> None:
    append(agent, "t-1", "one")
    row = Event.objects.get(seq=2)
    attempts: list[Callable[[], Any]] = [
        Event.objects.all().delete,
        row.delete,
        lambda: Event.objects.update(actor="someone"),
        lambda: Event.objects.bulk_update([row], ["body"]),
        row.save,
    ]
    for attempt in attempts:
        with pytest.raises(DatabaseError), transaction.atomic():
            attempt()
    assert Event.objects.count() == 2


def drop_triggers() -> None:
    on = " ON memoryhub_event" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        for name in ("memoryhub_event_update", "memoryhub_event_delete"):
            cursor.execute(f"DROP TRIGGER {name}{on}")


def flip(value: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(value))
    changed = value[place] ^ 1 << chance.randrange(8)
    return value[:place] + bytes([changed]) + value[place + 1 :]


def mutate(thread: Thread, chance: random.Random) -> str:
    """Damage one thing of a stored thread; says which."""
    seq = chance.randrange(2, thread.head_seq + 1)
    rows = Event.objects.filter(thread=thread)
    row = rows.get(seq=seq)
    kind = chance.choice(
        ["payload", "chain", "digest", "actor", "type", "body", "drop", "swap", "cut"]
        + ["head", "at", "slot", "vanish"]
    )
    one = rows.filter(seq=seq)
    if kind == "payload":
        one.update(payload=flip(bytes(row.payload or b"?"), chance))
    elif kind == "chain":
        one.update(chain=flip(bytes(row.chain), chance))
    elif kind == "digest":
        one.update(payload_digest=flip(bytes(row.payload_digest or b"?"), chance))
    elif kind == "actor":
        one.update(actor=row.actor + "x")
    elif kind == "type":
        one.update(type="thread.reopened")
    elif kind == "body":
        one.update(body=row.body.replace('"user"', '"uzer"', 1))
    elif kind == "drop":
        one.delete()
    elif kind == "swap":
        other = rows.get(seq=2 if seq > 2 else 3)
        rows.filter(seq=other.seq).update(payload=row.payload)
    elif kind == "cut":
        rows.filter(seq__gte=seq).delete()
    elif kind == "head":
        Thread.objects.filter(id=thread.id).update(head_seq=seq - 1)
    elif kind == "at":
        one.update(at=row.at.replace(year=2001))
    elif kind == "slot":
        Slot.objects.filter(thread=thread, seq=seq).update(type="chat.system")
    elif kind == "vanish":
        one.update(payload=None)
    return f"{kind}@{seq}"


@pytest.mark.no_replay
def test_verify_finds_every_mutation(agent: Agent) -> None:
    make_thread(agent)
    append(agent, "t-1", *map(str, range(12)))
    assert verify(get_thread(agent)) is None
    missed = []
    drop_triggers()
    for seed in range(150):
        with transaction.atomic():
            point = transaction.savepoint()
            done = mutate(get_thread(agent), random.Random(seed))  # noqa: S311 # a seed repeats it
            if verify(get_thread(agent)) is None:
                missed.append((seed, done))
            transaction.savepoint_rollback(point)
    assert missed == []
    assert verify(get_thread(agent)) is None


def test_rebuild_writes_the_projections_again(agent: Agent) -> None:
    make_thread(agent, labels={"a": "x"})
    append(agent, "t-1", "one", "two")
    Slot.objects.filter(index=0).delete()
    Slot.objects.update(type="chat.system")
    Thread.objects.update(slot_count=9, token_count=0, labels="{}")
    thread = get_thread(agent)
    assert verify(thread) is not None
    rebuild(thread)
    assert verify(get_thread(agent)) is None
    append(agent, "t-1", "three")
