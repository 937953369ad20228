"""Steps of an erasure: each makes the next state true, then enters that state.

Every step may be repeated without harm. A step returns the word of what it waits for,
and "" once the state is entered.

Content in journals and rows is first ordered to be erased, then taken: through the
writer, in short transactions of at most 200 threads or 1,000 records, so that others
write between two transactions. The orders stand in the journals first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final
from uuid import UUID

import orjson
from django.db import transaction
from django.db.models import F, Q, QuerySet

from memoryhub import journal
from memoryhub.errors import (
    ColdStorageError,
    CorruptError,
    ProjectDeletedError,
    SubjectErasedError,
)
from memoryhub.journal import audit, cold, importing, texts
from memoryhub.journal.forget import erasing, purging
from memoryhub.journal.forget import scrub as scrubbing
from memoryhub.journal.log import announce, log, thread_terms
from memoryhub.journal.log import fence as fencing
from memoryhub.journal.rows import tombstones
from memoryhub.journal.rows.tombstones import ValueDigest
from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_closures, erasure_counts, erasure_targets
from memoryhub.queries.forget.erasure_counts import Range
from memoryhub.queries.forget.holds import select_in_force
from memoryhub.queries.people import recipients
from memoryhub.services.forget import ledgers, receipts, thread_tombstones
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.services.people import restrictions, subjects
from memoryhub.services.people.restrictions import HELD, PLANNED
from memoryhub.services.scan import collecting, scan_targets, scans
from memoryhub.services.scan.scans import ScanResult
from memoryhub.vault.keys import keys
from memoryhub.vault.proof.ledger import LedgerLine

ACTOR: Final = "worker:erasures"
RETENTION: Final = erasure_targets.RETENTION
#: Seconds that one step looks for a moment without readers.
SCRUB_SECONDS: Final = 5.0
#: Word for a wait: the scan is too large for the day.
NIGHT: Final = "night"
#: Word for a wait: an earlier scan found something, and no process holds its clear
#: targets.
NEEDLES: Final = "needles"
#: Threads announced at once.
_ANNOUNCED_AT_ONCE: Final = 1_000

Scope, State = Erasure.Scope, Erasure.State
_ERASING: Final = Subject.State.ERASING
_ERASED: Final = Thread.Status.ERASED
#: States in order; an erasure closed before its fence comes first.
_ORDER: Final = (State.EXPIRED, State.CANCELLED, *State.values)


def fence(row: Erasure) -> str:
    """Write the intent to the ledger, then fence: all in scope answers 410 now."""
    # A promise in the ledger is carried out even under a hold: a backup may contain a
    # hold that was lifted since.
    promised = ledgers.find_newest_line(row.id) is not None
    if not promised and journal.run(partial(_is_held, row.id)):
        return ""
    line = ledgers.record_intent(row)
    if promised:
        # After a restore names of the erasure can be unknown here, and must stay dead.
        thread_tombstones.lay_tombstones(row, line)
    if row.scope == Scope.SUBJECT:
        journal.run(partial(_fence_subject, row.id, line))
    else:
        _fence_records(row, line)
    return ""


def close(row: Erasure) -> str:
    """Destroy the key, then order the erasure of every thread.

    Narrower scopes need nothing here: their fence laid the tombstones.
    """
    if row.scope != Scope.SUBJECT:
        journal.run(partial(_enter_locked, row.id, State.TOMBSTONED))
        return ""
    if not row.needles:
        _store_targets(row)
    now = clock.now()
    keys.destroy(row.subject_id, erasure=row.id, at=now)
    order_erasure(row)
    journal.run(partial(_enter_locked, row.id, State.KEY_DESTROYED))
    return ""


def purge(row: Erasure) -> str:
    """Delete payloads, names and projections, through the writer, 1,000 at a time.

    Objects in cold storage first.
    """
    try:
        cold.erase_objects(
            whole=_filter_whole_threads(row), affected=_filter_affected_threads(row)
        )
    except ColdStorageError:
        return "store"
    take_rows(row)
    left = erasure_targets.count_left(row)
    # The subject is erased last, in one transaction with its state.
    if any(count for name, count in left.items() if name != "subjects"):
        return "store"
    journal.run(partial(_enter_purged, row.id))
    return ""


def notify(row: Erasure) -> str:
    """Announce every affected thread, so that subscribers look and are answered 410."""
    keys.forget(row.subject_id)
    thread_terms.forget(row.subject_id)
    notices = _filter_affected_threads(row).values_list("project_id", "id", "head_seq")
    announce.notify(notices.iterator(chunk_size=_ANNOUNCED_AT_ONCE))
    journal.run(partial(_enter_locked, row.id, State.CACHES_PURGED))
    return ""


def scrub(row: Erasure) -> str:
    """Have the databases drop deleted bytes, once no reader needs an old state.

    Covers every erasure whose rows are purged, as the scrub processes every table.
    """
    purged = Erasure.objects.filter(state=State.CACHES_PURGED)
    times_by_erasure = dict(purged.values_list("id", "times"))
    waiting = scrubbing.scrub(seconds=SCRUB_SECONDS)
    if not waiting:
        for each, times in times_by_erasure.items():
            journal.run(partial(_enter_scrubbed, each, times))
    return waiting


def verify(row: Erasure) -> str:
    """Count anew what is left, and scan: one undeclared hit stops the erasure here.

    The scan also looks for other scrubbed erasures, as it reads every byte.
    """
    if _has_rows(row):
        # Rows were written after the fence: purge them before the scan.
        journal.run(partial(_revert_to_purge, row.id))
        return ""
    # During maintenance no requests are served, so a scan disturbs no one.
    alone = bool(maintenance.waiting)
    if row.waiting_on == NIGHT and not alone and scans.needs_night():
        return NIGHT
    if collecting.needs_recall(row):
        return NEEDLES
    # What an earlier scan found may have been removed since: its bytes must be scrubbed
    # too.
    found = bool(row.waiting_on) and row.waiting_on != NIGHT
    if found and (waiting := scrubbing.scrub(seconds=SCRUB_SECONDS)):
        return waiting
    beside = [
        each for each in scan_targets.list_waiting_beside(row) if not _has_rows(each)
    ]
    targets = scan_targets.gather_targets([row, *beside], collecting.list_targets)
    budget = None if alone else scans.BUDGET_BYTES
    _, results = scans.scan_surfaces(targets, budget_bytes=budget)
    for each in beside:
        pass_scan(each, results[each.id])
    return pass_scan(row, results[row.id])


def pass_scan(row: Erasure, result: ScanResult) -> str:
    """Record the result of a scan for the erasure; verified if nothing was found."""
    if journal.run(partial(_note_scan, row.id, row.times, result)):
        return NEEDLES
    if not result.is_clean:
        return result.trouble or "store"
    return NIGHT if result.deferred else ""


def prove(row: Erasure) -> str:
    """Sign the receipt, and record the completion in the ledger.

    The random targets stay until a nightly scan has looked for them once more.
    """
    ledgers.record_completion(row, receipts.issue_receipt(row))
    journal.run(partial(_enter_locked, row.id, State.COMPLETE))
    collecting.remembered.pop(row.id)
    return ""


def has_reached(row: Erasure, state: str) -> bool:
    """Return whether the erasure is in that state or a later one."""
    return _ORDER.index(row.state) >= _ORDER.index(state)


@contextmanager
def lock_erasure(erasure: UUID) -> Iterator[tuple[Erasure, Subject]]:
    """Lock an erasure and its subject against writers until the transaction commits.

    Locks the subject first, as everywhere: another order could deadlock.
    """
    with transaction.atomic():
        subject = Erasure.objects.values_list("subject_id", flat=True).get(id=erasure)
        owner = Subject.objects.select_for_update().get(id=subject)
        yield Erasure.objects.select_for_update().get(id=erasure), owner


def enter_state(row: Erasure, state: str, *, actor: str, **changes: Any) -> None:
    """Record that the state is true; call in the transaction that makes it true.

    The audit entry is appended last, as its row is one that every transaction waits
    for.
    """
    now = clock.now()
    times = {**orjson.loads(row.times), str(state): now.isoformat()}
    ended = {"waiting_on": "", "defect": ""}
    changes = {**ended, **changes, "state": state, "updated_at": now}
    for name, value in (*changes.items(), ("times", to_json(times))):
        setattr(row, name, value)
    row.save(update_fields=[*changes, "times"])
    audit.append(
        actor=actor,
        action=f"erasure.{state}",
        project=row.project_id,
        target_kind="erasure",
        target_id=str(row.id),
        subject=row.subject_id,
        count=orjson.loads(row.planned).get("count", 0),
    )


def hold_erasure(row: Erasure, *, actor: str) -> None:
    """Record that a hold stops the erasure, and keep agents out; in a transaction."""
    at = row.confirmed_at or clock.now()
    more = {"waiting_on": "hold", "confirmed_at": at, "restrict": True}
    enter_state(row, State.HELD, actor=actor, **more)
    restrict_subject(row, basis=HELD, actor=actor)


def restrict_subject(row: Erasure, *, basis: str, actor: str) -> None:
    """Keep agents out while the plan waits; an officer's restriction stays as it is."""
    rows = Subject.objects.filter(id=row.subject_id, state=Subject.State.ACTIVE)
    if rows.update(state=Subject.State.RESTRICTED, basis=basis):
        _audit_act("subject.restricted", row, actor)


def lift_restriction(row: Erasure, *, actor: str) -> None:
    """End the restriction caused by the plan or a hold on the erasure; others stay."""
    rows = Subject.objects.filter(id=row.subject_id, state=Subject.State.RESTRICTED)
    rows = rows.filter(basis__in=(PLANNED, HELD))
    if rows.update(state=Subject.State.ACTIVE, basis=""):
        _audit_act("subject.unrestricted", row, actor)


def freeze_plan(row: Erasure, subject: Subject) -> None:
    """Replace the planned counts by the present ones, for good.

    Call under the subject's lock, in the transaction of the fence: nothing is added
    from then on. The confirmed counts and the recipients are stored beside the present
    counts.
    """
    draft = erasure_targets.draft_plan(subject, erasure_targets.build_request(row))
    before = orjson.loads(row.planned)
    places, fenced = {}, {}
    for name, line in draft.planned["places"].items():
        confirmed = before["places"].get(name, {"erase": 0})
        places[name] = {**line, "erase": confirmed["erase"]}
        fenced[name] = {"fenced": line["erase"], "erased": 0}
    row.erased = to_json(fenced)
    frozen = {
        "count": before["count"],
        "places": places,
        "confirmed": get_confirmed_digest(row.planned),
        "recipients": recipients.list_recipients(subject.id),
    }
    row.planned = to_json({**draft.planned, **frozen})
    row.targets = to_json(
        {**draft.targets, "confirmed": get_confirmed_digest(row.targets)}
    )
    row.save(update_fields=["planned", "targets", "erased"])


def get_confirmed_digest(stored: str) -> str:
    """Return the digest of the JSON as confirmed; the fence has counted anew since."""
    plain: dict[str, Any] = orjson.loads(stored)
    digest: str = plain.get("confirmed", "")
    return digest or hashlib.sha256(to_json(plain).encode()).hexdigest()


def to_json(value: Mapping[str, Any]) -> str:
    """Write JSON for an erasure's columns, the same text for the same values."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def order_erasure(row: Erasure) -> None:
    """Order the erasure in every journal concerned. A repeat continues."""
    if row.scope in (Scope.SUBJECT, Scope.THREAD):
        _order_threads(row)
    if row.scope != Scope.SUBJECT:
        for batch in erasing.split_ranges(_list_ranges(row)):
            journal.run(partial(_order_records, row, batch))


def take_rows(row: Erasure) -> None:
    """Delete what the orders name: payloads, rows, names. A repeat continues."""
    tried: set[UUID] = set()
    while batch := [
        *_filter_unblanked_threads(row).exclude(id__in=tried).order_by("id")[:100]
    ]:
        for thread in batch:
            by = thread.head_seq
            _run_batches(partial(purging.iter_thread_batches, thread.id, by=by))
            # A thread that a live fork still folds through keeps its name.
            tried.add(thread.id)
    for thread in _filter_rewritten_threads(row).exclude(id__in=tried):
        _run_batches(
            partial(purging.iter_thread_batches, thread.id, by=thread.head_seq)
        )
    if row.scope == Scope.SUBJECT:
        _run_batches(partial(purging.iter_subject_batches, row.subject_id))
        return
    for thread in erasing.list_holders(_list_ranges(row)):
        _reseal_snapshots(thread.id)


def _is_held(erasure: UUID) -> bool:
    """Return whether a hold stops the erasure; none can be opened before the fence."""
    with lock_erasure(erasure) as (row, owner):
        held = select_in_force(owner.id, now=clock.now()).exists()
        if held and row.state == State.PLANNED:
            hold_erasure(row, actor=ACTOR)
    return held


def _fence_subject(erasure: UUID, line: LedgerLine) -> None:
    """Fence a whole subject in one transaction."""
    with lock_erasure(erasure) as (row, owner):
        if has_reached(row, State.FENCED):
            return
        freeze_plan(row, owner)
        tombstones.lay_subject(row, owner)
        if owner.anonymous:
            owner.anonymous = False
            owner.save(update_fields=["anonymous"])
            # A project that is being deleted needs no anonymous subject.
            with suppress(ProjectDeletedError):
                fencing.require_active(owner.project_id)
                subjects.create_anonymous(owner.project_id)
        owner.epoch, owner.state, owner.basis = owner.epoch + 1, _ERASING, ""
        owner.save(update_fields=["epoch", "state", "basis"])
        ledgers.record_applied(line)
        enter_state(row, State.FENCED, actor=ACTOR, ledger_n=line.n)


def _fence_records(row: Erasure, line: LedgerLine) -> None:
    """Append the events that order a narrower scope, each with what it erases."""
    if journal.run(partial(_freeze_records, row.id, line)):
        order_erasure(Erasure.objects.get(id=row.id))
    journal.run(partial(_enter_fenced, row.id))


def _freeze_records(erasure: UUID, line: LedgerLine) -> bool:
    """Freeze a narrower scope: count earlier writes and forks, refuse later ones.

    Returns whether more is to be ordered than one transaction should take. Agents are
    kept out until all is ordered, so that exactly what is counted here is erased.
    """
    with lock_erasure(erasure) as (row, owner):
        if row.ledger_n is not None:
            return not has_reached(row, State.FENCED)
        freeze_plan(row, owner)
        # The subject's key stays: targets must be collected before the content goes.
        row.ledger_n, row.needles = line.n, collecting.collect_targets(row)
        row.save(update_fields=["ledger_n", "needles"])
        more = _order_at_once(row)
        ledgers.record_applied(line)
        if more:
            restrict_subject(row, basis=PLANNED, actor=ACTOR)
    return more


def _enter_fenced(erasure: UUID) -> None:
    """Enter FENCED and TOMBSTONED: the ordering transactions laid all tombstones."""
    with lock_erasure(erasure) as (row, _):
        if not has_reached(row, State.FENCED):
            enter_state(row, State.FENCED, actor=ACTOR)
            enter_state(row, State.TOMBSTONED, actor=ACTOR)
            lift_restriction(row, actor=ACTOR)


def _enter_locked(erasure: UUID, state: str, **changes: Any) -> None:
    """Enter a state, unless it was reached already; in its own transaction."""
    with transaction.atomic():
        row = Erasure.objects.select_for_update().get(id=erasure)
        if not has_reached(row, state):
            enter_state(row, state, actor=ACTOR, **changes)


def _enter_scrubbed(erasure: UUID, times: str) -> None:
    """Enter SCRUBBED if the rows were gone before the scrub, as `times` shows."""
    with transaction.atomic():
        row = Erasure.objects.select_for_update().get(id=erasure)
        if (row.state, row.times) == (State.CACHES_PURGED, times):
            enter_state(row, State.SCRUBBED, actor=ACTOR)


def _enter_purged(erasure: UUID) -> None:
    """Enter ROWS_ERASED, with the counts of what was erased."""
    with transaction.atomic():
        row = Erasure.objects.select_for_update().get(id=erasure)
        if has_reached(row, State.ROWS_ERASED):
            return
        if row.scope == Scope.SUBJECT:
            rows = Subject.objects.filter(id=row.subject_id)
            rows.update(state=Subject.State.ERASED, subject_ref=None, external_id=None)
        enter_state(row, State.ROWS_ERASED, actor=ACTOR, erased=_count_erased(row))


def _count_erased(row: Erasure) -> str:
    """Count what was erased: the fenced counts less what is left."""
    left = erasure_targets.count_left(row)
    counted = {
        name: {**line, "erased": line["fenced"] - left[name]}
        for name, line in orjson.loads(row.erased).items()
    }
    if row.scope != Scope.SUBJECT:
        targets = orjson.loads(row.targets)
        anew = erasure_targets.count_made_anew(row.scope, targets, by=row.id)
        counted["snapshots"]["rebuilt"] = anew
    return to_json(counted)


def _revert_to_purge(erasure: UUID) -> None:
    """Put a scrubbed erasure back to the state before its purge."""
    with transaction.atomic():
        row = Erasure.objects.select_for_update().get(id=erasure)
        if row.state != State.SCRUBBED:
            # Another process has moved the erasure on: what is proved is not taken
            # back.
            return
        whole = row.scope == Scope.SUBJECT
        row.state = State.KEY_DESTROYED if whole else State.TOMBSTONED
        row.updated_at = clock.now()
        row.save(update_fields=["state", "updated_at"])


def _has_rows(row: Erasure) -> bool:
    """Return whether rows of the erasure's scope are left."""
    return any(erasure_targets.count_left(row).values())


def _note_scan(erasure: UUID, times: str, result: ScanResult) -> bool:
    """Note a scan and enter VERIFIED if it was clean, in one transaction.

    Of two scans at once the receipt tells of the first that passed. Returns True if the
    scan proves nothing: an earlier scan found something in the clear, and this scan had
    no targets of that kind.
    """
    with transaction.atomic():
        row = Erasure.objects.select_for_update().get(id=erasure)
        # The times change with each state that is entered again.
        if (row.state, row.times) != (State.SCRUBBED, times):
            return False
        if row.hit_at and not result.has_clear_targets:
            return True
        now = clock.now()
        if result.has_clear_finding and not row.hit_at:
            row.hit_at = now
        row.verification, row.updated_at = to_json(result.to_json()), now
        row.save(update_fields=["verification", "hit_at", "updated_at"])
        if result.is_clean and not result.deferred:
            enter_state(row, State.VERIFIED, actor=ACTOR)
    return False


def _store_targets(row: Erasure) -> None:
    """Collect the scan targets and store the random ones."""
    row.needles = collecting.collect_targets(row)
    journal.run(lambda: row.save(update_fields=["needles"]))


def _filter_affected_threads(row: Erasure) -> QuerySet[Thread]:
    """Filter the threads that lost something."""
    if row.scope == Scope.SUBJECT:
        return Thread.objects.filter(subject=row.subject_id)
    named = erasure_targets.list_threads(orjson.loads(row.targets))
    return Thread.objects.filter(Q(id__in=named) | Q(parent__in=named))


def _order_at_once(row: Erasure) -> bool:
    """Order the erasure in the caller's transaction, in which all was counted.

    A thread that goes whole ends there, so that nobody writes to it. Returns whether
    the records are too many for one transaction, and are left to `order_erasure`.
    """
    gone = (_ERASED, Thread.Status.IMPORTING)
    if row.scope == Scope.THREAD and (
        threads := [*_filter_whole_threads(row).exclude(status__in=gone)]
    ):
        _erase_threads(row, threads)
    pieces = [*erasing.split_ranges(_list_ranges(row))]
    if len(pieces) > 1:
        return True
    for piece in pieces:
        _order_records(row, piece)
    return False


def _order_threads(row: Erasure) -> None:
    """End all threads of the scope, in batches of `erasing.AT_ONCE`."""
    # No one has seen a thread that is being imported, so nothing is left of it.
    arriving = _filter_whole_threads(row).filter(status=Thread.Status.IMPORTING)
    importing.remove(arriving.values_list("id", flat=True))
    left = _filter_whole_threads(row).exclude(status=_ERASED).order_by("id")
    while batch := [*left[: erasing.AT_ONCE]]:
        journal.run(partial(_erase_threads, row, batch))


def _erase_threads(row: Erasure, threads: Sequence[Thread]) -> None:
    """Lay the tombstones of the threads' names and end the threads, atomically."""
    with transaction.atomic():
        _lock_subject(row)
        # The names are dead from here on, and are known here for the last time.
        tombstones.lay_threads(row, [each.name for each in threads])
        erasing.erase_threads(threads, erasure=row.id, reason=_get_reason(row))


def _order_records(row: Erasure, ranges: Sequence[Range]) -> None:
    """Order the erasure of ranges and of all derived from them, atomically."""
    with transaction.atomic():
        owner = _lock_subject(row)
        # Content read earlier is stale: imports and exports under way end.
        Subject.objects.filter(id=owner.id).update(epoch=F("epoch") + 1)
        # Records derived since the count go too; nothing can be derived from what is
        # erased.
        whole = erasure_closures.compute_closure(ranges, taught=row.reason != RETENTION)
        # What grew old may be written anew; see decision 26.
        if row.reason != RETENTION:
            tombstones.lay_values(row, _iter_values(owner, whole))
        for piece in erasing.split_ranges(whole):
            erasing.erase_records(piece, erasure=row.id, reason=_get_reason(row))


def _iter_values(owner: Subject, ranges: Sequence[Range]) -> Iterator[ValueDigest]:
    """Iterate over the values that may not be written again; needs the key."""
    try:
        opened = keys.get_subject_keys(owner.id, epoch=owner.epoch)
    except SubjectErasedError:
        # A backup brought the subject back without its key: no one can read or write
        # its content.
        return
    wanted = Q(pk__in=[])
    for thread, first, last in ranges:
        wanted |= Q(thread=thread, seq__range=(first, last))
    sealed = Event.objects.filter(wanted, payload__isnull=False)
    for event in sealed.filter(type__in=tombstones.TYPES).order_by("thread", "seq"):
        # Content that does not open is erased all the same, but leaves no tombstone.
        with suppress(CorruptError):
            payload = texts.open_payload(owner, owner.project_id, event)
            yield from tombstones.iter_values(
                opened, log.to_recorded(event).event, payload
            )


def _reseal_snapshots(thread: UUID) -> None:
    """Reseal the snapshots of a thread."""
    # Without the key, as after a restore, snapshots are gone for good.
    with suppress(SubjectErasedError):
        erasing.reseal(Thread.objects.select_related("subject").get(id=thread))


def _run_batches(batches: Callable[[], Iterator[purging.Counts]]) -> None:
    """Run batches through the writer until none is left."""
    while journal.run(partial(purging.take_some, batches)):
        pass


def _lock_subject(row: Erasure) -> Subject:
    """Lock the subject: what is read of its memory now is what goes."""
    return Subject.objects.select_for_update().get(id=row.subject_id)


def _filter_whole_threads(row: Erasure) -> QuerySet[Thread]:
    """Filter the threads that are erased whole."""
    if row.scope == Scope.SUBJECT:
        return Thread.objects.filter(subject=row.subject_id)
    if row.scope == Scope.THREAD and row.thread_id:
        return Thread.objects.filter(id=row.thread_id)
    return Thread.objects.none()


def _filter_unblanked_threads(row: Erasure) -> QuerySet[Thread]:
    """Filter the erased threads whose names are not blanked yet."""
    return (
        _filter_whole_threads(row).filter(status=_ERASED).exclude(name__startswith="~")
    )


def _filter_rewritten_threads(row: Erasure) -> QuerySet[Thread]:
    """Filter the erased threads that hold rows again, written after the fence."""
    owner: dict[str, Any] = {"subject": row.subject_id}
    if row.scope != Scope.SUBJECT:
        owner = {"thread": row.thread_id}
    found: set[UUID] = set()
    for place in erasure_counts.iter_places():
        if place.privacy.thread is not None and None not in owner.values():
            rows = place.filter_rows(**owner).order_by()
            found |= {*rows.values_list(place.privacy.thread, flat=True).distinct()}
    return (
        _filter_whole_threads(row).filter(status=_ERASED, id__in=found).order_by("id")
    )


def _list_ranges(row: Erasure) -> list[Range]:
    """List the ranges erased from remaining threads, and from an erased one's forks."""
    targets: Any = orjson.loads(row.targets)
    heads = [(UUID(thread), 1, seq) for thread, seq in targets["heads"]]
    return [*heads, *erasure_targets.list_ranges(targets)]


def _get_reason(row: Erasure) -> Any:
    """Return the plan's reason, which was checked when the plan was made."""
    return row.reason


def _audit_act(action: str, row: Erasure, actor: str) -> None:
    """Append an audit entry about the erasure's subject."""
    restrictions.audit_act(action, row.subject_id, project=row.project_id, actor=actor)
