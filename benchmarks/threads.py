"""Threads made long: runs inside an instance, through its journal."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from typing import TypeVar

from benchmarks import messages
from benchmarks.hubs import PROJECT
from memoryhub.journal import Address, NewThread, Order
from memoryhub.journal.writing.writer import BatchCommitter
from memoryhub.kernel.commands import AppendSlots, CreateThread, NewSlot
from memoryhub.kernel.state.events import ThreadConfig
from memoryhub.models.projects import Project
from memoryhub.services.people import subjects
from memoryhub.vault.keys import keyring

#: As many as one command may carry.
SLOTS_A_COMMAND = 200
COMMANDS_A_COMMIT = 5
MAX_SLOTS = 10_000_000

Item = TypeVar("Item")


def grow(*, name: str, events: int) -> None:
    """Make a thread of so many events: the sample's messages, over and over."""
    texts = (messages.text_of(each).encode() for each in messages.messages())
    # The first event is the thread's own creation.
    _append(name, islice(cycle([*texts]), events - 1))


def fill(*, name: str, count: int, size: int, prose: bool) -> None:
    """Make a thread of messages of one size: of words, or of pure chance."""
    _append(name, (_text(n, size, prose=prose) for n in range(count)))


def _text(number: int, size: int, *, prose: bool) -> bytes:
    """Return a JSON string of `size` bytes with its quotes, different by number."""
    chance = random.Random(number)
    if prose:
        words = " ".join(chance.choices(messages.WORDS, k=size // 2))
        return b'"%s"' % words[: size - 2].encode()
    return b'"%s"' % base64.b64encode(chance.randbytes(size))[: size - 2]


def _append(name: str, texts: Iterator[bytes]) -> None:
    keyring.prepare(empty=False)
    journal = BatchCommitter()
    project = Project.objects.get(slug=PROJECT)
    birth = NewThread(
        subject=subjects.get_anonymous(project.id).id,
        command=CreateThread(config=ThreadConfig(max_slots=MAX_SLOTS)),
    )
    orders = (
        Order(
            address=Address(project=project.id, name=name, birth=birth),
            command=AppendSlots(slots=tuple(_slot(text) for text in part)),
            actor="agent:bench",
        )
        for part in parts(texts, SLOTS_A_COMMAND)
    )
    for part in parts(orders, COMMANDS_A_COMMIT):
        for outcome in journal.commit(part):
            if isinstance(outcome, Exception):
                raise outcome


def parts(items: Iterable[Item], size: int) -> Iterator[tuple[Item, ...]]:
    rest = iter(items)
    while part := tuple(islice(rest, size)):
        yield part


def _slot(text: bytes) -> NewSlot:
    return NewSlot(
        from_name="user",
        to_name="memory",
        type="chat.user",
        content=text,
        tokens=len(text) // 4,
    )
