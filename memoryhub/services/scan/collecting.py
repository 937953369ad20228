"""What a scan will look for, taken while it can still be read.

The random ones are kept with the erasure. What was in the clear stays in this process's
memory, is gone with it, and the receipt says how much of it was looked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final
from uuid import UUID

import orjson
from django.db.models import Q, QuerySet
from django.db.models.functions import Substr

from memoryhub.errors import InvalidError, Refusal
from memoryhub.journal.log.log import open_payload
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.text import names
from memoryhub.models.erasures import Erasure, Tombstone
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.services.people import subjects
from memoryhub.vault.keys import keys
from memoryhub.vault.registry.lru import Lru
from memoryhub.vault.scan import targets
from memoryhub.vault.scan.targets import (
    LEAST_BYTES,
    MAX_NONCES,
    MAX_WINDOWS,
    ScanTarget,
)

#: Of sealed bytes: the header, and the nonce behind it.
_HEAD_BYTES: Final = 15
#: Names that are looked for, and threads whose own are among them.
_NAMES: Final = 150
_THREADS: Final = 50
#: Of what one record holds.
_OF_ONE: Final = 4
#: Erasures whose clear targets are remembered.
_REMEMBERED: Final = 100
Scope = Erasure.Scope


class Remembered(Lru[UUID, Sequence[ScanTarget]]):
    """Targets in the clear, by erasure: in this process, until it is complete."""

    def __init__(self) -> None:
        super().__init__(_REMEMBERED, name="erasures at work")
        self._typed: set[UUID] = set()

    def type(self, erasure: UUID, found: Sequence[ScanTarget]) -> None:
        """Remember what somebody has typed again, whatever process is the eraser."""
        self.put(erasure, found)
        with self._lock:
            self._typed.add(erasure)

    def take_typed(self) -> list[UUID]:
        """Return erasures of which something was typed since the last look."""
        with self._lock:
            typed, self._typed = self._typed, set()
        return [*typed]


remembered = Remembered()


def collect(row: Erasure) -> bytes:
    """Take them, before anything is gone; returns those to keep with the erasure.

    Twice costs nothing but time. At most 500 nonces, 200 windows, 150 names.
    """
    events = _events(row)
    random = [*map(targets.nonce_of, _heads(events))]
    sampled = [*events[:MAX_WINDOWS]]
    clear = [*_names(row, sampled)]
    if row.scope == Scope.SUBJECT:
        random += map(targets.wrapped_nonce_of, keys.wrapped(row.subject_id))
        clear += _user_id(row)
    clear += islice(_windows(row, sampled), MAX_WINDOWS)
    remembered.put(row.id, clear)
    return targets.packed(random)


def lacking(row: Erasure) -> bool:
    """Tell whether a scan found something that this process can't look for again."""
    return row.hit_at is not None and not remembered.get(row.id)


def recall(row: Erasure, texts: Sequence[str]) -> None:
    """Look for these again, whose targets were gone with a restart.

    Of a subject the first is its user id. Raises InvalidError (`user_id`) for another
    one, and (`texts`) where none of them is long enough to be told from others.
    """
    found: list[ScanTarget] = []
    if row.scope == Scope.SUBJECT and (laid := _tombstone(row)) is not None:
        ref = subjects.ref_of(row.project_id, texts[0]) if texts else b""
        if bytes(laid.digest) != ref:
            raise InvalidError(loc="user_id")
        found.append(targets.user_id(texts[0]))
        texts = texts[1:]
    for text in texts:
        if targets.telling_name(text):
            found.append(targets.name(text))
        found += targets.windows(text.encode())
    if not found:
        raise InvalidError(loc="texts")
    remembered.type(row.id, found)


def _tombstone(row: Erasure) -> Tombstone | None:
    """Return what keeps its subject out; none of the anonymous one."""
    return Tombstone.objects.filter(
        erasure=row, kind=Tombstone.Kind.SUBJECT, subject=row.subject_id
    ).first()


def list_targets(row: Erasure) -> list[ScanTarget]:
    """Return all that are left to look for."""
    return [*targets.unpacked(bytes(row.needles)), *(remembered.get(row.id) or ())]


def _events(row: Erasure) -> QuerySet[Event]:
    """Return those with sealed content, in an order that favours none: by digest."""
    rows = Event.objects.filter(payload__isnull=False)
    if row.scope == Scope.SUBJECT:
        rows = rows.filter(thread__subject=row.subject_id)
    else:
        rows = rows.filter(_targeted(row))
    return rows.order_by("payload_digest")


def _targeted(row: Erasure) -> Q:
    """Match events of the first fifty ranges and of the thread that goes whole."""
    wanted = Q(thread=row.thread_id) if row.scope == Scope.THREAD else Q(pk__in=[])
    for thread, first, last in orjson.loads(row.targets)["ranges"][:50]:
        wanted |= Q(thread=thread, seq__range=(first, last))
    return wanted


def _heads(events: QuerySet[Event]) -> list[bytes]:
    heads: Any = events.annotate(head=Substr("payload", 1, _HEAD_BYTES))
    return [bytes(head) for head in heads.values_list("head", flat=True)[:MAX_NONCES]]


def _windows(row: Erasure, events: Sequence[Event]) -> Iterator[ScanTarget]:
    for event in events:
        # One that does not open can't be told in the clear either.
        with suppress(Refusal):
            plain = open_payload(row.subject, row.project_id, event)
            yield from islice(_value_targets(plain), _OF_ONE)


def _value_targets(value: Any) -> Iterator[ScanTarget]:
    """Cut targets out of a text, or a member: a short value goes with its key."""
    if isinstance(value, str):
        yield from targets.windows(value.encode())
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from targets.windows(key.encode(), most=1)
            if isinstance(each, str) and len(each.encode()) < LEAST_BYTES:
                yield from targets.member(key, each)
            else:
                yield from _value_targets(each)
    elif isinstance(value, list):
        for each in value:
            yield from _value_targets(each)


def _user_id(row: Erasure) -> Iterator[ScanTarget]:
    with suppress(Refusal):
        text = subjects.external_id(row.subject)
        if text is not None:
            yield targets.user_id(text)


def _names(row: Erasure, events: Sequence[Event]) -> Iterator[ScanTarget]:
    """Find what clients called things of threads that go whole, and their records.

    The scan knows who else calls something so.
    """
    threads = Thread.objects.exclude(name__startswith="~")
    if row.scope == Scope.SUBJECT:
        threads = threads.filter(subject=row.subject_id)
    elif row.scope == Scope.THREAD and row.thread_id:
        # A live fork keeps all of them.
        threads = threads.filter(id=row.thread_id, forks=None)
    else:
        return
    listed = [*threads.order_by("id")[:_THREADS]]
    going = {each.id for each in listed}
    found = dict.fromkeys(name for each in listed for name in _of_thread(each))
    for event in events:
        # What was made of a thread stands in others, which keep their names.
        if row.scope == Scope.SUBJECT or event.thread_id in going:
            found |= dict.fromkeys(_of_event(event))
    # Ids of ours stay, whatever is called by them.
    ids = {str(each) for each in (row.subject_id, row.project_id, *going)}
    wanted = [name for name in found if name not in ids]
    yield from map(targets.name, wanted[:_NAMES])


def _of_thread(thread: Thread) -> Iterator[str]:
    # Its own is looked for whatever it is: by it the others are found.
    yield thread.name
    labels = orjson.loads(thread.labels)
    others = (thread.agent_type, thread.agent_instance, thread.session)
    values = [v if isinstance(v, str) else names.as_name(v) for v in labels.values()]
    for name in (*filter(None, others), *labels, *values):
        if targets.telling_name(name):
            yield name.removeprefix(names.OTHER)


def _of_event(event: Event) -> list[str]:
    """List names that its body marks as such: of senders, keys, pages and so on."""
    seen: dict[str, None] = {}

    def note(name: str) -> str:
        if targets.telling_name(name) and not name.startswith("~"):
            seen[name.removeprefix(names.OTHER)] = None
        return name

    kind = TYPES.get(event.type)
    if kind is not None:
        names.replace_names(kind, orjson.loads(event.body), note)
    return [*seen]
