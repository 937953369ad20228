"""Targets of a scan, collected while the content can still be read.

Random targets are stored with the erasure. Clear targets stay in this process's memory
and are lost with it; the receipt says how many were looked for. See decision 42.
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

from memoryhub.errors import InvalidError, Refusal, SealBrokenError
from memoryhub.journal.texts import open_payload
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.text import names
from memoryhub.models.erasures import Erasure, Tombstone
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.services.people import subjects
from memoryhub.vault.keys import keys
from memoryhub.vault.keys.cold_payloads import REFERENCE_BYTES, fetch_sealed
from memoryhub.vault.registry.lru import Lru
from memoryhub.vault.scan import targets
from memoryhub.vault.scan.targets import (
    LEAST_BYTES,
    MAX_NONCES,
    MAX_WINDOWS,
    ScanTarget,
)

#: Bytes at the start of sealed content: the header and the nonce.
_HEAD_BYTES: Final = 15
#: Most names that are targets, and most threads whose names are targets.
_MAX_NAMES: Final = 150
_MAX_THREADS: Final = 50
#: Most targets from one record.
_MAX_PER_RECORD: Final = 4
#: Erasures whose clear targets are remembered.
_MAX_ERASURES: Final = 100
Scope = Erasure.Scope


class Remembered(Lru[UUID, Sequence[ScanTarget]]):
    """Clear targets by erasure: in this process, until the erasure is complete."""

    def __init__(self) -> None:
        super().__init__(_MAX_ERASURES, name="erasures at work")
        self._typed: set[UUID] = set()

    def put_typed(self, erasure: UUID, found: Sequence[ScanTarget]) -> None:
        """Remember targets that an operator typed again, whatever process erases."""
        self.put(erasure, found)
        with self._lock:
            self._typed.add(erasure)

    def take_typed(self) -> list[UUID]:
        """Return erasures with targets typed since the last call."""
        with self._lock:
            typed, self._typed = self._typed, set()
        return [*typed]


remembered = Remembered()


def collect_targets(row: Erasure) -> bytes:
    """Collect the targets before the erasure; returns those to store with its row.

    A repeat costs nothing but time. At most 500 nonces, 200 windows, 150 names.
    """
    events = _filter_events(row)
    random = [*map(targets.build_nonce_target, _list_heads(events))]
    sampled = [*events[:MAX_WINDOWS]]
    clear = [*_iter_names(row, sampled)]
    if row.scope == Scope.SUBJECT:
        random += map(
            targets.build_wrapped_nonce_target, keys.list_wrapped(row.subject_id)
        )
        clear += _iter_user_id(row)
    clear += islice(_iter_windows(row, sampled), MAX_WINDOWS)
    remembered.put(row.id, clear)
    return targets.pack_targets(random)


def needs_recall(row: Erasure) -> bool:
    """Return whether a scan found targets that this process no longer has."""
    return row.hit_at is not None and not remembered.get(row.id)


def recall_targets(row: Erasure, texts: Sequence[str]) -> None:
    """Restore from typed texts the targets that a restart lost.

    For a subject the first text is its user id. Raises InvalidError (`user_id`) for
    another id, and (`texts`) where no text is long enough to be distinctive.
    """
    found: list[ScanTarget] = []
    if row.scope == Scope.SUBJECT and (laid := _find_tombstone(row)) is not None:
        ref = subjects.compute_ref(row.project_id, texts[0]) if texts else b""
        if bytes(laid.digest) != ref:
            raise InvalidError(loc="user_id")
        found.append(targets.build_user_id_target(texts[0]))
        texts = texts[1:]
    for text in texts:
        if targets.is_identifying_name(text):
            found.append(targets.build_name_target(text))
        found += targets.cut_windows(text.encode())
    if not found:
        raise InvalidError(loc="texts")
    remembered.put_typed(row.id, found)


def _find_tombstone(row: Erasure) -> Tombstone | None:
    """Find the tombstone of the erasure's subject; None for the anonymous subject."""
    return Tombstone.objects.filter(
        erasure=row, kind=Tombstone.Kind.SUBJECT, subject=row.subject_id
    ).first()


def list_targets(row: Erasure) -> list[ScanTarget]:
    """List the targets still known: stored and remembered ones."""
    return [
        *targets.unpack_targets(bytes(row.needles)),
        *(remembered.get(row.id) or ()),
    ]


def _filter_events(row: Erasure) -> QuerySet[Event]:
    """Filter events with sealed content, ordered by digest as an unbiased sample."""
    rows = Event.objects.filter(payload__isnull=False)
    if row.scope == Scope.SUBJECT:
        rows = rows.filter(thread__subject=row.subject_id)
    else:
        rows = rows.filter(_build_target_filter(row))
    return rows.order_by("payload_digest")


def _build_target_filter(row: Erasure) -> Q:
    """Match events of the first fifty ranges and of the thread that goes whole."""
    wanted = Q(thread=row.thread_id) if row.scope == Scope.THREAD else Q(pk__in=[])
    for thread, first, last in orjson.loads(row.targets)["ranges"][:50]:
        wanted |= Q(thread=thread, seq__range=(first, last))
    return wanted


def _list_heads(events: QuerySet[Event]) -> list[bytes]:
    """List the headers and nonces of at most MAX_NONCES events."""
    heads: Any = events.annotate(head=Substr("payload", 1, REFERENCE_BYTES))
    found = list[bytes]()
    for head in heads.values_list("head", flat=True)[:MAX_NONCES]:
        # A lost object can't be found anywhere either.
        with suppress(SealBrokenError):
            found.append(fetch_sealed(bytes(head))[:_HEAD_BYTES])
    return found


def _iter_windows(row: Erasure, events: Sequence[Event]) -> Iterator[ScanTarget]:
    """Iterate over targets cut from the events' content."""
    for event in events:
        # Content that does not open can't be found in the clear either.
        with suppress(Refusal):
            plain = open_payload(row.subject, row.project_id, event)
            yield from islice(_iter_value_targets(plain), _MAX_PER_RECORD)


def _iter_value_targets(value: Any) -> Iterator[ScanTarget]:
    """Cut targets out of a text, or a member: a short value goes with its key."""
    if isinstance(value, str):
        yield from targets.cut_windows(value.encode())
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from targets.cut_windows(key.encode(), most=1)
            if isinstance(each, str) and len(each.encode()) < LEAST_BYTES:
                yield from targets.build_member_targets(key, each)
            else:
                yield from _iter_value_targets(each)
    elif isinstance(value, list):
        for each in value:
            yield from _iter_value_targets(each)


def _iter_user_id(row: Erasure) -> Iterator[ScanTarget]:
    """Iterate over the subject's user id as a target, if there is one."""
    with suppress(Refusal):
        text = subjects.open_user_id(row.subject)
        if text is not None:
            yield targets.build_user_id_target(text)


def _iter_names(row: Erasure, events: Sequence[Event]) -> Iterator[ScanTarget]:
    """Iterate over client names from threads that go whole, and from their records.

    The scan itself knows who else uses a name.
    """
    threads = Thread.objects.exclude(name__startswith="~")
    if row.scope == Scope.SUBJECT:
        threads = threads.filter(subject=row.subject_id)
    elif row.scope == Scope.THREAD and row.thread_id:
        # A live fork keeps all of its parent's names.
        threads = threads.filter(id=row.thread_id, forks=None)
    else:
        return
    listed = [*threads.order_by("id")[:_MAX_THREADS]]
    going = {each.id for each in listed}
    found = dict.fromkeys(name for each in listed for name in _iter_thread_names(each))
    for event in events:
        # Records derived from a thread stand in other threads, which keep their names.
        if row.scope == Scope.SUBJECT or event.thread_id in going:
            found |= dict.fromkeys(_list_event_names(event))
    # This server's own ids stay, whatever else has them as a name.
    ids = {str(each) for each in (row.subject_id, row.project_id, *going)}
    wanted = [name for name in found if name not in ids]
    yield from map(targets.build_name_target, wanted[:_MAX_NAMES])


def _iter_thread_names(thread: Thread) -> Iterator[str]:
    """Iterate over the thread's name, scope and labels."""
    # The thread's own name is always a target, as it leads to the others.
    yield thread.name
    labels = orjson.loads(thread.labels)
    others = (thread.agent_type, thread.agent_instance, thread.session)
    values = [v if isinstance(v, str) else names.to_name(v) for v in labels.values()]
    for name in (*filter(None, others), *labels, *values):
        if targets.is_identifying_name(name):
            yield name.removeprefix(names.OTHER)


def _list_event_names(event: Event) -> list[str]:
    """List names marked in the event's body: of senders, keys, pages and so on."""
    seen: dict[str, None] = {}

    def note(name: str) -> str:
        if targets.is_identifying_name(name) and not name.startswith("~"):
            seen[name.removeprefix(names.OTHER)] = None
        return name

    kind = TYPES.get(event.type)
    if kind is not None:
        names.replace_names(kind, orjson.loads(event.body), note)
    return [*seen]
