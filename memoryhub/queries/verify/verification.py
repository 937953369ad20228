"""Verification that a thread's journal folds to its rows, with a whole chain.

Never writes. Reads every event of the thread, in batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Exists, Model, OuterRef

from memoryhub.errors import Refusal
from memoryhub.journal.log import chain, log, snapshots
from memoryhub.journal.rows import projections, statements
from memoryhub.journal.rows.statements import RowCounts
from memoryhub.journal.writing.sealing import find_page
from memoryhub.kernel import state_json
from memoryhub.kernel.replay import RecordedEvent, evolve
from memoryhub.kernel.state.erased import resolve_places
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event, Snapshot
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.threads import Thread, ThreadLabel
from memoryhub.queries.verify import (
    anchors,
    erased_verification,
    heads,
    memory_verification,
    term_verification,
)
from memoryhub.queries.verify.erased_records import ErasedWalk, Erasers
from memoryhub.queries.verify.event_checks import (
    find_origin_fault,
    find_payload_fault,
    iter_batches,
)
from memoryhub.queries.verify.page_verification import PageWalk

#: Columns of slots and turns that later events write.
_LATER = ("erased", "struck_seq", "packed_seq")
#: States in which an erasure changes events, rows and names of its threads.
_CHANGING = (
    Erasure.State.FENCED,
    Erasure.State.TOMBSTONED,
    Erasure.State.KEY_DESTROYED,
)
#: Seconds that `confirm` waits for an erasure, and between two of its reads.
CONFIRM_SECONDS, _PAUSE_SECONDS = 60.0, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first fault of a thread: its seq, and the kind of the fault."""

    seq: int
    #: A closed word, e.g. `chain`, `payload`, `slot_rows`.
    what: str
    #: An erasure of the thread's subject was changing the thread at the last read.
    erasing: bool = False


@dataclass(slots=True, kw_only=True)
class _JournalWalk:
    thread: Thread
    state: ThreadState
    erasers: Erasers
    digest: bytes = chain.GENESIS
    last_type: str = ""
    #: Number of turns stored in ancestors' rows.
    inherited_turns: int = 0
    rows: projections.ProjectedRows = field(default_factory=projections.ProjectedRows)
    pages: PageWalk = field(default_factory=PageWalk)
    erased: ErasedWalk = field(default_factory=ErasedWalk)
    #: When values are due to be erased, by their places.
    dues: dict[tuple[UUID, int], datetime] = field(default_factory=dict)
    #: Seq of the newest `turn.packed`, by turn.
    packed: dict[int, int] = field(default_factory=dict)
    #: Seq of the `slot.struck` of each struck slot, by index.
    struck: dict[int, int] = field(default_factory=dict)
    #: Tokens of the requests and answers until now.
    requests: projections.RequestTokens = field(
        default_factory=projections.RequestTokens
    )


def verify(
    thread: Thread,
    *,
    progress: Callable[[int], None] = lambda events: None,
    origins: log.Origins | None = None,
) -> Difference | None:
    """Return the first difference between the journal and what is stored, or None.

    Verifies up to the head in `thread`, so that writers may go on meanwhile; `thread`
    comes with its subject. An erased thread is not folded, since its events' names may
    be blanked. `progress` receives the number of events read. Threads that are verified
    together share `origins`.
    """
    if thread.status == Thread.Status.ERASED:
        wrong = erased_verification.find_fault(thread, progress)
        return (
            Difference(seq=wrong[0], what=wrong[1]) if wrong else _check_anchor(thread)
        )
    erasers = Erasers(thread.id)
    walk = _JournalWalk(
        thread=thread, state=log.build_empty_state(thread), erasers=erasers
    )
    try:
        walk.state = log.build_origin(thread, origins=origins)
        walk.inherited_turns = walk.state.turn_count
        found = _check_events(walk, progress) or _check_rows(walk)
        return found or _check_terms(thread) or _check_anchor(thread)
    except Refusal as refusal:
        return Difference(seq=walk.state.seq + 1, what=refusal.code)


def confirm(
    difference: Difference,
    thread: UUID,
    *,
    wait: Callable[[float], None] = time.sleep,
) -> Difference | None:
    """Return the difference of a thread that is read anew, or None if it is whole.

    An erasure changes what `verify` reads one after the other. While an erasure of the
    subject is under way, reads again, for at most `CONFIRM_SECONDS`. Reads every event
    of the thread each time.
    """
    until = time.monotonic() + CONFIRM_SECONDS
    while True:
        before = _find_erasure_mark(thread)
        row = Thread.objects.select_related("subject").filter(id=thread).first()
        if row is None:
            return difference
        found = verify(row)
        if found is None:
            return None
        after = _find_erasure_mark(thread)
        if before == after and not (after and after[0]):
            return found
        if time.monotonic() >= until:
            return replace(found, erasing=True)
        wait(_PAUSE_SECONDS)


def _find_erasure_mark(thread: UUID) -> tuple[bool, str, int] | None:
    """Find whether an erasure changes the thread, and what any erasure leaves changed.

    One query.
    """
    open_ = Erasure.objects.filter(subject=OuterRef("subject"), state__in=_CHANGING)
    rows = Thread.objects.filter(id=thread)
    return rows.values_list(Exists(open_), "status", "subject__epoch").first()


def _check_terms(thread: Thread) -> Difference | None:
    seq = term_verification.find_wrong_terms(thread)
    return None if seq is None else Difference(seq=seq, what="terms")


def _check_anchor(thread: Thread) -> Difference | None:
    seq = anchors.find_cut(thread)
    return None if seq is None else Difference(seq=seq, what="anchor")


def _check_events(
    walk: _JournalWalk, progress: Callable[[int], None]
) -> Difference | None:
    for batch in iter_batches(walk.thread):
        kept = _list_snapshots(walk.thread, batch)
        for row in batch:
            if what := _check_event(walk, row, kept.get(row.seq)):
                # Report the first missing event, not the event after the gap.
                return Difference(seq=min(row.seq, walk.state.seq + 1), what=what)
        if what := _check_batch_rows(walk):
            return Difference(seq=batch[0].seq, what=what)
        progress(len(batch))
    return None


def _check_event(walk: _JournalWalk, row: Event, kept: Snapshot | None) -> str | None:
    """Check one event; return its fault, or advance the walk and return None."""
    state = walk.state
    if row.seq != state.seq + 1:
        return "seq"
    if state.at and row.at < state.at:
        return "at"
    recorded = log.to_recorded(row)
    if what := find_origin_fault(walk.thread, recorded):
        return what
    if what := find_payload_fault(row, walk.erasers, sealed=recorded.event.sealed):
        return what
    if row.page != find_page(recorded.event):
        return "page"
    if _compute_link(walk, row, recorded) != bytes(row.chain):
        return "chain"
    after = evolve(state, recorded)
    projections.project(walk.rows, state, recorded, after)
    walk.state, walk.digest = after, bytes(row.chain)
    walk.last_type = row.type
    return "snapshot" if kept and not _is_snapshot_true(kept, walk) else None


def _is_snapshot_true(kept: Snapshot, walk: _JournalWalk) -> bool:
    if kept.counters != snapshots.render_counters(walk.state):
        return False
    state = snapshots.open_snapshot(kept, walk.thread)
    return state_json.to_json(state) == state_json.to_json(walk.state)


def _compute_link(walk: _JournalWalk, row: Event, recorded: RecordedEvent) -> bytes:
    salt = bytes(walk.thread.name_salt)
    canonical = chain.build_stored_envelope(row, recorded, salt=salt)
    digest = None if row.payload_digest is None else bytes(row.payload_digest)
    return chain.link(walk.digest, canonical, digest)


def _list_snapshots(thread: Thread, batch: list[Event]) -> dict[int, Snapshot]:
    rows = Snapshot.objects.filter(
        thread=thread, seq__range=(batch[0].seq, batch[-1].seq)
    )
    return {row.seq: row for row in rows}


def _check_batch_rows(walk: _JournalWalk) -> str | None:
    """Compare the rows that a batch of events leads to with the stored ones."""
    made, walk.rows = walk.rows, projections.ProjectedRows()
    walk.packed |= {n: seq for (_, n), seq in made.packed.items()}
    walk.struck |= {index: seq for (_, index), seq in made.struck.items()}
    more = made.requests.get(walk.thread.id, projections.RequestTokens())
    walk.requests = walk.requests.add(more)
    walk.dues = made.due.dues.merge_stored(walk.dues)
    walk.erased.add(made)
    if memory_verification.has_kept_values(walk.thread, made.due.erased):
        return "payload"
    return (
        _compare_rows("slot_rows", Slot, walk.thread, made.slots, but=_LATER)
        or _compare_rows("turn_rows", Turn, walk.thread, made.turns, but=_LATER)
        or walk.pages.compare(walk.thread.id, made.pages)
    )


def _compare_rows(
    what: str,
    model: type[Model],
    thread: Thread,
    made: list[Any],
    *,
    but: Collection[str],
) -> str | None:
    """Compare rows with the stored rows, without the columns `but`."""
    if not made:
        return None
    names = [name for name in made[0]._fields if name not in but]
    wanted = [tuple(getattr(row, name) for name in names) for row in made]
    stored = model._default_manager.filter(
        thread=thread, seq__range=(made[0].seq, made[-1].seq)
    ).order_by("seq")
    return None if [*stored.values_list(*names)] == wanted else what


def _list_values(row: Model) -> list[object]:
    values = (getattr(row, each.attname) for each in row._meta.concrete_fields)
    return [bytes(v) if isinstance(v, memoryview) else v for v in values]


def _check_rows(walk: _JournalWalk) -> Difference | None:
    """Compare the thread's own row, its labels and how many rows it has."""
    thread, state = walk.thread, walk.state
    wrong = _compare_columns(thread, state)
    added = zip(projections.ADDED_COLUMNS, walk.requests, strict=True)
    wrong += [name for name, tokens in added if getattr(thread, name) != tokens]
    if bytes(thread.head_hash) != walk.digest:
        wrong.append("head_hash")
    if thread.last_event_type != walk.last_type:
        wrong.append("last_event_type")
    if thread.blanked_seq:
        # On a living thread this column would keep later names from being blanked.
        wrong.append("blanked_seq")
    if thread.project_id != thread.subject.project_id:
        wrong.append("project")
    labels = ThreadLabel.objects.filter(thread=thread).order_by("name")
    if [*map(_list_values, labels)] != [
        *map(_list_values, projections.build_label_rows(state))
    ]:
        wrong.append("labels")
    counts = statements.count_rows(thread.id, up_to=thread.head_seq)
    wrong += _compare_counts(walk, counts)
    erased, inherited = resolve_places(walk.erased.ranges), state.inherited
    pages = walk.pages.finish(thread, counts, inherited_slots=inherited, erased=erased)
    wrong += [what for what in (pages, walk.erased.finish(thread)) if what]
    packed = Turn.objects.filter(thread=thread, packed_seq__isnull=False)
    if dict(packed.values_list("n", "packed_seq")) != walk.packed:
        wrong.append("turn_rows")
    struck = Slot.objects.filter(thread=thread, struck_seq__lte=thread.head_seq)
    if dict(struck.values_list("index", "struck_seq")) != walk.struck:
        wrong.append("slot_rows")
    if wrong_keys := memory_verification.compare(thread, state, walk.dues):
        wrong.append(wrong_keys)
    # Compare with the counts read first: an append between the reads is no fault.
    if counts.newest > thread.head_seq and counts.newest > heads.get_seq(thread.id):
        wrong.append("beyond_head")
    return Difference(seq=thread.head_seq, what=wrong[0]) if wrong else None


def _compare_counts(walk: _JournalWalk, counts: RowCounts) -> list[str]:
    """List tables with more or fewer rows of the thread than its journal leads to."""
    state = walk.state
    found = {
        "slot_rows": counts.slots == state.slot_count - state.inherited,
        "turn_rows": counts.turns == state.turn_count - walk.inherited_turns,
    }
    return [what for what, same in found.items() if not same]


def _compare_columns(thread: Thread, state: ThreadState) -> list[str]:
    wanted = projections.build_columns(state)
    return [name for name in wanted if getattr(thread, name) != wanted[name]]
