"""Verification of an erased thread: whole chain, lawful gaps, nothing left.

Never folds the thread, since its events' names are blanked one by one. Never writes.
See decision 31.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import orjson

from memoryhub.errors import Refusal
from memoryhub.journal.forget import purging
from memoryhub.journal.log import chain, log
from memoryhub.journal.writing.sealing import find_page
from memoryhub.kernel.replay import RecordedEvent
from memoryhub.kernel.state.erase_events import ThreadErased
from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event
from memoryhub.models.privacy import Fate, list_declared_models
from memoryhub.models.threads import Thread
from memoryhub.queries.verify.erased_records import Erasers
from memoryhub.queries.verify.event_checks import (
    find_origin_fault,
    find_payload_fault,
    iter_batches,
)

_STATE = Erasure.State
#: States of an erasure in which nothing of the thread may be left.
_PURGED = (
    _STATE.ROWS_ERASED,
    _STATE.CACHES_PURGED,
    _STATE.SCRUBBED,
    _STATE.VERIFIED,
    _STATE.COMPLETE,
)
#: Seq of a fault, and a closed word.
Fault = tuple[int, str]


@dataclass(slots=True, kw_only=True)
class _ErasedThreadWalk:
    thread: Thread
    erasers: Erasers
    last: Event | None = None
    recorded: RecordedEvent | None = None
    digest: bytes = chain.GENESIS

    @property
    def seq(self) -> int:
        return self.last.seq if self.last else 0


def find_fault(thread: Thread, progress: Callable[[int], None]) -> Fault | None:
    """Find the first fault of an erased thread; `progress` receives events read."""
    walk = _ErasedThreadWalk(thread=thread, erasers=Erasers(thread.id))
    try:
        for batch in iter_batches(thread):
            for row in batch:
                if what := _check_event(walk, row):
                    return min(row.seq, walk.seq + 1), what
            progress(len(batch))
        what = _check_end(walk) or _check_columns(thread) or _find_remains(walk)
    except Refusal as refusal:
        return walk.seq + 1, refusal.code
    return (thread.head_seq, what) if what else None


def _check_event(walk: _ErasedThreadWalk, row: Event) -> str | None:
    if row.seq != walk.seq + 1:
        return "seq"
    if walk.last and row.at < walk.last.at:
        return "at"
    recorded = log.to_recorded(row)
    if what := find_origin_fault(walk.thread, recorded):
        return what
    if what := _check_payload(walk, row, recorded):
        return what
    if row.page != find_page(recorded.event):
        return "page"
    salt = bytes(walk.thread.name_salt)
    canonical = chain.build_stored_envelope(row, recorded, salt=salt)
    digest = None if row.payload_digest is None else bytes(row.payload_digest)
    if chain.link(walk.digest, canonical, digest) != bytes(row.chain):
        return "chain"
    if walk.recorded and isinstance(walk.recorded.event, ThreadErased):
        return "erased"
    walk.last, walk.recorded, walk.digest = row, recorded, bytes(row.chain)
    return None


def _check_payload(
    walk: _ErasedThreadWalk, row: Event, recorded: RecordedEvent
) -> str | None:
    if recorded.event.sealed or row.erased_by is None:
        return find_payload_fault(row, walk.erasers, sealed=recorded.event.sealed)
    # `erased_by` of an event that never had a payload tells who blanked its names.
    whole = row.payload is None and row.payload_digest is None
    return None if whole and row.erased_by == walk.thread.head_seq else "payload"


def _check_end(walk: _ErasedThreadWalk) -> str | None:
    """Check that the last event is the thread's erasure, and matches the head."""
    event = walk.recorded.event if walk.recorded else None
    if walk.seq != walk.thread.head_seq:
        return "seq"
    if not isinstance(event, ThreadErased) or event.records != walk.seq - 1:
        return "erased"
    if walk.digest != bytes(walk.thread.head_hash):
        return "head_hash"
    same = walk.thread.last_event_type == event.event_type
    return None if same else "last_event_type"


def _check_columns(thread: Thread) -> str | None:
    gone = (thread.agent_type, thread.agent_instance, thread.session)
    if any(gone) or orjson.loads(thread.labels):
        return "labels"
    return None


def _find_remains(walk: _ErasedThreadWalk) -> str | None:
    """Find data that the erasure should have taken by its present state."""
    thread = walk.thread
    assert walk.recorded is not None
    assert isinstance(walk.recorded.event, ThreadErased)
    rows = Erasure.objects.filter(id=walk.recorded.event.erasure)
    if not rows.filter(state__in=_PURGED).exists():
        return None
    if Event.objects.filter(thread=thread, payload__isnull=False).exists():
        return "payload_kept"
    forked = bool(purging.list_live_descendants([thread.id]))
    for model, privacy in list_declared_models().items():
        if privacy.forget != Fate.DELETED or privacy.thread is None:
            continue
        if forked and privacy.read_by_forks:
            continue
        if model._default_manager.filter(**{privacy.thread: thread.id}).exists():
            return "rows_kept"
    blanked = thread.name.startswith("~") and not bytes(thread.name_salt)
    return None if forked or blanked else "names_kept"
