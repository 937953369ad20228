"""Acts on working memory: commands for the journal, and their outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import time_machine

from memoryhub.journal import OrderReceipt
from memoryhub.kernel.memory.checkpoints import (
    DeleteCheckpoint,
    RestoreCheckpoint,
    TakeCheckpoint,
)
from memoryhub.kernel.memory.keys import (
    ChangeKeys,
    ClearKeys,
    DeleteKey,
    Expiry,
    SetKey,
)
from memoryhub.kernel.memory.memory_commands import Expected
from memoryhub.kernel.memory.notes import AddNotes, NewNote
from memoryhub.kernel.memory.nouns import RESTORED
from memoryhub.kernel.memory.tasks import SetTask, TaskField, TaskStatus
from memoryhub.kernel.text import strict_json
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import DueValue, Key
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.memory import keys
from tests.cast.factories import get_thread
from tests.oracles.page_acts import act
from tests.services.acts import fork

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
NEVER, UNSAID = Expiry(given=True), Expiry()


@contextmanager
def travel_to(moment: datetime) -> Iterator[None]:
    """Do the block's acts at that instant."""
    with time_machine.travel(moment, tick=False):
        yield


def lasting(ttl: timedelta | None) -> Expiry:
    return UNSAID if ttl is None else Expiry(given=True, ttl=ttl)


def new_key(key: str, value: Any = "v", expiry: Expiry = UNSAID) -> SetKey:
    text = strict_json.dump_stored(value)
    return SetKey(key=key, value=text, bytes=len(text), expiry=expiry)


def set_key(
    agent: Agent,
    key: str,
    value: Any = "v",
    *,
    ttl: timedelta | None = None,
    thread: str = "t-1",
) -> OrderReceipt:
    return set_keys(agent, new_key(key, value, lasting(ttl)), thread=thread)


def set_keys(agent: Agent, *changes: SetKey, thread: str = "t-1") -> OrderReceipt:
    return act(agent, ChangeKeys(changes=changes), thread)


def delete_key(agent: Agent, key: str, thread: str = "t-1") -> OrderReceipt:
    change = DeleteKey(key=key)
    return act(agent, ChangeKeys(changes=(change,)), thread)


def retime(
    agent: Agent, key: str, expiry: Expiry | timedelta, thread: str = "t-1"
) -> OrderReceipt:
    if isinstance(expiry, timedelta):
        expiry = lasting(expiry)
    row = get_thread(agent, thread)
    return act(agent, keys.build_retiming(row, key, expiry, Expected()), thread)


def clear(agent: Agent, thread: str = "t-1") -> OrderReceipt:
    return act(agent, ClearKeys(), thread)


def add_notes(agent: Agent, *texts: str, thread: str = "t-1") -> OrderReceipt:
    notes = tuple(
        NewNote(text=strict_json.dump_stored(text), bytes=len(text)) for text in texts
    )
    return act(agent, AddNotes(notes=notes), thread)


def set_task(
    agent: Agent,
    thread: str = "t-1",
    *,
    status: TaskStatus = "pending",
    fields: Mapping[TaskField, bytes] | None = None,
) -> OrderReceipt:
    command = SetTask(status=status, fields=dict(fields or {}))
    return act(agent, command, thread)


def take(agent: Agent, name: str | None = None, thread: str = "t-1") -> OrderReceipt:
    return act(agent, TakeCheckpoint(name=name), thread)


def restore(
    agent: Agent,
    target: int | str,
    parts: tuple[str, ...] = RESTORED,
    thread: str = "t-1",
) -> OrderReceipt:
    return act(agent, RestoreCheckpoint(target=target, parts=parts), thread)


def forget_checkpoint(
    agent: Agent, target: int | str, thread: str = "t-1"
) -> OrderReceipt:
    return act(agent, DeleteCheckpoint(target=target), thread)


def kinds(receipt: OrderReceipt) -> list[str]:
    return [each.event.event_type for each in receipt.events]


def key_rows(thread: Thread) -> list[dict[str, Any]]:
    rows = Key.objects.filter(thread=thread).order_by("key").values()
    return [dict(row) for row in rows]


def list_names(thread: Thread) -> list[str]:
    return [row["key"] for row in key_rows(thread)]


def dues(thread: Thread) -> dict[int, datetime]:
    rows = DueValue.objects.filter(thread=thread)
    return dict(rows.values_list("seq", "due_at"))


def list_held_seqs(thread: Thread) -> list[int]:
    """Return seqs of the values that the journal still has."""
    rows = Event.objects.filter(thread=thread, type="key.set", payload__isnull=False)
    return [*rows.order_by("seq").values_list("seq", flat=True)]


def fork_of(agent: Agent, parent: str, name: str, *, seq: int) -> Thread:
    """Make a fork as of then and return it with its subject."""
    fork(agent, parent, name, seq=seq)
    return get_thread(agent, name)
