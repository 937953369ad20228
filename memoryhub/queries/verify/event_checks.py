"""Checks of single events, of living and erased threads. Never writes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from memoryhub.errors import SealBrokenError
from memoryhub.journal.log import log
from memoryhub.kernel.replay import RecordedEvent
from memoryhub.kernel.state.events import ThreadForked
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.erased_records import Erasers
from memoryhub.vault.keys import cold_payloads

#: Events between two reports of progress, and read at once.
CHUNK = 500


def iter_batches(thread: Thread) -> Iterator[list[Event]]:
    """Yield the events of a thread up to its head, oldest first."""
    # From below zero, so that an event slipped in before the first shows.
    after = -(2**63)
    events = Event.objects.filter(thread=thread, seq__lte=thread.head_seq)
    while batch := list(events.filter(seq__gt=after).order_by("seq")[:CHUNK]):
        yield batch
        after = batch[-1].seq
        if after >= thread.head_seq:
            return


def find_origin_fault(thread: Thread, recorded: RecordedEvent) -> str | None:
    """Find what is wrong with the thread's origin, which its first event records."""
    if recorded.seq > 1:
        return None
    event = recorded.event
    if not isinstance(event, ThreadForked):
        return None if thread.parent_id is None else "parent"
    if (event.parent, event.parent_seq) != (thread.parent_id, thread.fork_seq):
        return "parent"
    same = log.get_chain(event.parent, event.parent_seq).hex() == event.parent_chain
    return None if same else "parent_chain"


def find_payload_fault(row: Event, erasers: Erasers, *, sealed: bool) -> str | None:
    """Find what is wrong with an event's payload or with its erasure; None if right."""
    if row.erased_by is not None and (row.payload is not None or not sealed):
        return "payload"
    if row.payload is not None:
        try:
            stored = cold_payloads.fetch_sealed(bytes(row.payload))
        except SealBrokenError:
            return "payload_missing"
        digest = hashlib.sha256(stored).digest()
        whole = row.payload_digest is not None and digest == bytes(row.payload_digest)
        return None if sealed and whole else "payload"
    if not sealed:
        return "payload" if row.payload_digest else None
    lawful = row.erased_by is not None and erasers.is_lawful(row)
    return None if lawful else "payload_missing"
