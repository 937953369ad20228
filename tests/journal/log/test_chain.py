"""Append-only and tamper-evident: what SQL may not do, and what verify finds."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import Model

from memoryhub.errors import CorruptError
from memoryhub.journal import audit
from memoryhub.journal.log import chain
from memoryhub.models.access.audit import AuditEntry
from memoryhub.models.erasures import Receipt
from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.models.slots import Slot
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.rebuild import rebuild
from tests.cast.erasings import close_erasure, erasure_of
from tests.cast.factories import append, get_thread, make_thread
from tests.oracles.page_acts import make_pages, new_page

pytestmark = pytest.mark.django_db

COLUMNS = ["thread_id", "seq", "type", "at", "actor", "body", "payload"]
COLUMNS += ["payload_digest", "chain", "erased_by"]


def test_chain_link_covers_predecessors_envelope_and_payload() -> None:
    parts = (bytes(32), b"{}", b"\1" * 32)
    others = [
        (b"\1" * 32, parts[1], parts[2]),
        (parts[0], b"{ }", parts[2]),
        (parts[0], parts[1], b"\2" * 32),
        (parts[0], parts[1], None),
    ]
    assert chain.link(*parts) not in {chain.link(*each) for each in others}


@pytest.mark.promise("P3", load="UPDATE of each column")
@pytest.mark.parametrize("column", COLUMNS)
def test_illegal_event_update_is_rejected(agent: Agent, column: str) -> None:
    append(agent, "t-1", "one")
    other = {"seq": "99", "erased_by": "1"}.get(column, f"{column} || {column}")
    if connection.vendor == "postgresql" and column == "thread_id":
        other = "gen_random_uuid()"
    if connection.vendor == "postgresql" and column == "at":
        other = "at + interval '1 day'"
    with (
        pytest.raises(DatabaseError),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(f"UPDATE memoryhub_event SET {column} = {other}")
    assert verify(get_thread(agent)) is None


@pytest.mark.promise("P3", load="save, update, bulk_update, delete")
def test_events_cannot_be_removed_or_rewritten(agent: Agent) -> None:
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


def test_event_keeps_its_page(agent: Agent) -> None:
    """An erasure keeps the page too, unless it blanks the names of the body."""
    make_pages(agent, new_page("a"))
    erased = "UPDATE memoryhub_event SET payload = NULL, erased_by = 2"
    for sql in (
        "UPDATE memoryhub_event SET page = 'b'",
        f"{erased}, page = 'b'",
        f"{erased}, page = NULL",
    ):
        with (
            pytest.raises(DatabaseError, match="append-only"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(f"{sql} WHERE seq = 2")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"{erased} WHERE seq = 2")
        cursor.execute(f"{erased}, page = 'x', body = '{{}}' WHERE seq = 2")
        transaction.set_rollback(True)


@pytest.mark.promise("P3", load="REPLACE, TRUNCATE")
@pytest.mark.parametrize("table", [Event, AuditEntry, Receipt])
def test_sql_can_not_replace_or_empty_the_table(
    agent: Agent, table: type[Model]
) -> None:
    append(agent, "t-1", "one")
    keep_a_receipt(get_thread(agent))
    before = list_stored_rows(table)
    assert before
    for sql in replacements(table):
        with (
            pytest.raises(DatabaseError, match=r"append-only|kept as it was"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(sql)
        assert list_stored_rows(table) == before
    if table is not Event:
        # The twin: a row of its own is taken in.
        keep_a_receipt(get_thread(agent))
        assert len(list_stored_rows(table)) > len(before)


def keep_a_receipt(thread: Thread) -> None:
    """Write a receipt and an entry of the audit log."""
    erasure = erasure_of(thread)
    close_erasure(erasure)
    Receipt.objects.create(
        project=erasure.project, erasure=erasure, text="{}", issued_at=clock.now()
    )
    audit.append(actor="command", action="verified", project=None)


def list_stored_rows(table: type[Model]) -> list[tuple[str, ...]]:
    rows = table._default_manager.order_by("pk").values_list()
    return [tuple(map(str, row)) for row in rows]


def replacements(table: type[Model]) -> list[str]:
    """Return ways to lose every row without an UPDATE or DELETE of it."""
    name = table._meta.db_table
    if connection.vendor == "postgresql":
        # What waits for the end of the transaction would refuse it as well.
        return [f"SET CONSTRAINTS ALL IMMEDIATE; TRUNCATE {name} CASCADE"]
    columns = [column.get_attname() for column in table._meta.concrete_fields]
    # As it stands, and by each other key that a row is known by.
    fresh = {"rowid": {"seq", "id", "n"}, "n": {"id"}}
    found = [f"INSERT OR REPLACE INTO {name} SELECT * FROM {name}"]
    for key, others in fresh.items():
        if key == "n" and key not in columns:
            continue
        taken = [f"{each} || '9'" if each in others else each for each in columns]
        kept = ["rowid"] if key == "rowid" else []
        found.append(
            f"INSERT OR REPLACE INTO {name} ({', '.join([*kept, *columns])}) "
            f"SELECT {', '.join([*kept, *taken])} FROM {name}"
        )
    return found


@pytest.mark.promise("P3", load="REPLACE of a row's number")
@pytest.mark.usefixtures("sqlite")
@pytest.mark.no_replay
def test_erasure_can_not_take_another_events_number(agent: Agent) -> None:
    """The update is lawful but for SQLite's own number of the row."""
    append(agent, "t-1", "one", "two")
    lawful = "UPDATE OR REPLACE memoryhub_event SET payload = NULL, erased_by = 3"
    number = ", rowid = (SELECT rowid FROM memoryhub_event WHERE seq = 3)"
    with connection.cursor() as cursor:
        with pytest.raises(DatabaseError), transaction.atomic():
            cursor.execute(f"{lawful}{number} WHERE seq = 2")
        assert Event.objects.count() == 3
        cursor.execute(f"{lawful} WHERE seq = 2")
    assert Event.objects.get(seq=2).payload is None


@pytest.mark.no_replay
def test_rebuild_refuses_a_journal_that_lost_events(agent: Agent) -> None:
    append(agent, "t-1", "one", "two", "three")
    drop_triggers()
    for lost in (3, 4):
        point = transaction.savepoint()
        Event.objects.filter(seq=lost).delete()
        with pytest.raises(CorruptError):
            rebuild(get_thread(agent))
        assert get_thread(agent).head_seq == 4
        transaction.savepoint_rollback(point)


def drop_triggers() -> None:
    on = " ON memoryhub_event" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        for name in ("update", "delete"):
            cursor.execute(f"DROP TRIGGER memoryhub_event_{name}{on}")


def flip(value: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(value))
    changed = value[place] ^ 1 << chance.randrange(8)
    return value[:place] + bytes([changed]) + value[place + 1 :]


def mutate(thread: Thread, chance: random.Random) -> str:
    """Damage one part of a stored thread and return its name."""
    kind = chance.choice(sorted(MUTATIONS))
    seq = chance.randrange(2, thread.head_seq + 1)
    rows = Event.objects.filter(thread=thread)
    MUTATIONS[kind](rows.filter(seq=seq), rows.get(seq=seq), rows, chance)
    return f"{kind}@{seq}"


def swap(one: Any, row: Event, rows: Any, chance: random.Random) -> None:
    rows.filter(seq=2 if row.seq > 2 else 3).update(payload=row.payload)


#: Changes of one event: (that row's queryset, the row, all rows, chance).
MUTATIONS: dict[str, Callable[[Any, Event, Any, random.Random], Any]] = {
    "payload": lambda one, row, rows, chance: one.update(
        payload=flip(bytes(row.payload or b""), chance)
    ),
    "chain": lambda one, row, rows, chance: one.update(
        chain=flip(bytes(row.chain), chance)
    ),
    "digest": lambda one, row, rows, chance: one.update(
        payload_digest=flip(bytes(row.payload_digest or b""), chance)
    ),
    "actor": lambda one, row, rows, chance: one.update(actor=row.actor + "x"),
    "type": lambda one, row, rows, chance: one.update(type="thread.reopened"),
    "body": lambda one, row, rows, chance: one.update(
        body=row.body.replace('"user"', '"uzer"', 1)
    ),
    "drop": lambda one, row, rows, chance: one.delete(),
    "swap": swap,
    "cut": lambda one, row, rows, chance: rows.filter(seq__gte=row.seq).delete(),
    "head": lambda one, row, rows, chance: Thread.objects.update(head_seq=row.seq - 1),
    "at": lambda one, row, rows, chance: one.update(at=row.at.replace(year=2001)),
    "slot": lambda one, row, rows, chance: Slot.objects.filter(seq=row.seq).update(
        type="chat.system"
    ),
    "vanish": lambda one, row, rows, chance: one.update(payload=None),
}


@pytest.mark.promise("P4", load="150 random mutations")
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
            done = mutate(get_thread(agent), random.Random(seed))  # a seed repeats it
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
