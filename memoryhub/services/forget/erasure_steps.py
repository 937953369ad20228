"""The steps of an erasure: each makes the next state true, then enters it.

All are harmless when done twice. They return the word of what they wait for; nothing
once the state is entered.

What stands in journals and rows is ordered, then taken: through the writer, in short
transactions of at most 200 threads or 1,000 records, so that others write between two
of them. What is ordered stands in the journals first.
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
from memoryhub.errors import CorruptError, ProjectDeletedError, SubjectErasedError
from memoryhub.journal import audit, importing
from memoryhub.journal.forget import erasing, purging
from memoryhub.journal.forget import scrub as scrubbing
from memoryhub.journal.log import announce, log, thread_terms
from memoryhub.journal.log import fence as fencing
from memoryhub.journal.rows import tombstones
from memoryhub.journal.rows.tombstones import Value
from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_closures, erasure_counts, erasure_targets
from memoryhub.queries.forget.erasure_counts import Range
from memoryhub.queries.forget.holds import in_force
from memoryhub.queries.people import recipients
from memoryhub.services.forget import ledgers, receipts, thread_tombstones
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.services.people import restrictions, subjects
from memoryhub.services.people.restrictions import HELD, PLANNED
from memoryhub.services.scan import collecting, scan_targets, scans
from memoryhub.services.scan.scans import ScanResult
from memoryhub.vault.keys import keys
from memoryhub.vault.proof.ledger import Line

ACTOR: Final = "worker:erasures"
RETENTION: Final = erasure_targets.RETENTION
#: How long one step looks for a moment without readers.
SCRUB_SECONDS: Final = 5.0
#: What there is to look through is more than may be by day.
NIGHT: Final = "night"
#: A scan had found something, and what it looked for is in no process any more.
NEEDLES: Final = "needles"
#: Threads that are announced at once.
_RUNG: Final = 1_000

Scope, State = Erasure.Scope, Erasure.State
_ERASING: Final = Subject.State.ERASING
_ERASED: Final = Thread.Status.ERASED
#: As they follow on each other; what is closed without having begun comes first.
_ORDER: Final = (State.EXPIRED, State.CANCELLED, *State.values)


def fence(row: Erasure) -> str:
    """Tell the ledger, then fence: from here on everything in scope is 410."""
    # What the ledger has promised goes: a backup may hold what was lifted since.
    promised = ledgers.newest(row.id) is not None
    if not promised and journal.run(partial(_held, row.id)):
        return ""
    line = ledgers.intend(row)
    if promised:
        # A restore may lie between: names of it can be unknown here, and are dead.
        thread_tombstones.lay(row, line)
    if row.scope == Scope.SUBJECT:
        journal.run(partial(_fence_subject, row.id, line))
    else:
        _fence_records(row, line)
    return ""


def close(row: Erasure) -> str:
    """Destroy the key, then tell every thread.

    Of narrower scopes nothing is left to do: what fenced them laid their tombstones.
    """
    if row.scope != Scope.SUBJECT:
        journal.run(partial(_enter, row.id, State.TOMBSTONED))
        return ""
    if not row.needles:
        _keep_targets(row)
    now = clock.now()
    keys.destroy(row.subject_id, erasure=row.id, at=now)
    order(row)
    journal.run(partial(_enter, row.id, State.KEY_DESTROYED))
    return ""


def purge(row: Erasure) -> str:
    """Take payloads, names and projections, in batches of 1,000 through the writer."""
    take_rows(row)
    left = erasure_targets.count_left(row)
    # The subject itself goes last, in one transaction with the state that says so.
    if any(count for name, count in left.items() if name != "subjects"):
        return "store"
    journal.run(partial(_enter_purged, row.id))
    return ""


def notify(row: Erasure) -> str:
    """Ring for every thread that is gone: whoever watches looks, and is told 410."""
    keys.forget(row.subject_id)
    thread_terms.forget(row.subject_id)
    notices = _touched(row).values_list("project_id", "id", "head_seq")
    announce.ring(notices.iterator(chunk_size=_RUNG))
    journal.run(partial(_enter, row.id, State.CACHES_PURGED))
    return ""


def scrub(row: Erasure) -> str:
    """Have the engine let go of the bytes, as soon as nobody reads an old state.

    Of all whose rows are gone by now, for it goes through every table.
    """
    purged = Erasure.objects.filter(state=State.CACHES_PURGED)
    times_by_erasure = dict(purged.values_list("id", "times"))
    waiting = scrubbing.scrub(seconds=SCRUB_SECONDS)
    if not waiting:
        for each, times in times_by_erasure.items():
            journal.run(partial(_enter_scrubbed, each, times))
    return waiting


def verify(row: Erasure) -> str:
    """Count anew what is left, and scan: one undeclared hit stops it here.

    Whatever else is scrubbed is looked for as well, for it goes through every byte.
    """
    if _has_rows(row):
        # Somebody wrote beside the fence. Gone once more, before anything is said.
        journal.run(partial(_fall_back, row.id))
        return ""
    # While a restore is being seen to nobody is served, hence in nobody's way.
    alone = bool(maintenance.waiting)
    if row.waiting_on == NIGHT and not alone and scans.waits():
        return NIGHT
    if collecting.lacking(row):
        return NEEDLES
    # What was found before may have been removed since: its bytes have to go as well.
    found = bool(row.waiting_on) and row.waiting_on != NIGHT
    if found and (waiting := scrubbing.scrub(seconds=SCRUB_SECONDS)):
        return waiting
    beside = [each for each in scan_targets.waiting_beside(row) if not _has_rows(each)]
    targets = scan_targets.gather([row, *beside], collecting.list_targets)
    budget = None if alone else scans.BUDGET_BYTES
    _, results = scans.scan(targets, budget_bytes=budget)
    for each in beside:
        pass_scan(each, results[each.id])
    return pass_scan(row, results[row.id])


def pass_scan(row: Erasure, result: ScanResult) -> str:
    """Note what a scan for it found; verified if it found nothing anywhere."""
    if journal.run(partial(_note_scan, row.id, row.times, result)):
        return NEEDLES
    if not result.clean:
        return result.trouble or "store"
    return NIGHT if result.deferred else ""


def prove(row: Erasure) -> str:
    """Sign the receipt, and say in the ledger that it is done.

    The random targets stay until a nightly scan has looked for them once more.
    """
    ledgers.close(row, receipts.issue(row))
    journal.run(partial(_enter, row.id, State.COMPLETE))
    collecting.remembered.pop(row.id)
    return ""


def reached(row: Erasure, state: str) -> bool:
    """Tell whether it is in that state or beyond it."""
    return _ORDER.index(row.state) >= _ORDER.index(state)


@contextmanager
def locked(erasure: UUID) -> Iterator[tuple[Erasure, Subject]]:
    """Lock an erasure and its subject, for which nobody writes until this commits.

    The subject first, as everywhere: two that lock in other orders wait for each other.
    """
    with transaction.atomic():
        subject = Erasure.objects.values_list("subject_id", flat=True).get(id=erasure)
        owner = Subject.objects.select_for_update().get(id=subject)
        yield Erasure.objects.select_for_update().get(id=erasure), owner


def enter(row: Erasure, state: str, *, actor: str, **changes: Any) -> None:
    """Note that the state is true now; call it in the transaction that makes it so.

    The audit log is told last, for its row is one that everybody waits for.
    """
    now = clock.now()
    times = {**orjson.loads(row.times), str(state): now.isoformat()}
    ended = {"waiting_on": "", "defect": ""}
    changes = {**ended, **changes, "state": state, "updated_at": now}
    for name, value in (*changes.items(), ("times", text(times))):
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


def hold_back(row: Erasure, *, actor: str) -> None:
    """Note that a hold forbids it, and keep agents out; call it in a transaction."""
    at = row.confirmed_at or clock.now()
    more = {"waiting_on": "hold", "confirmed_at": at, "restrict": True}
    enter(row, State.HELD, actor=actor, **more)
    restrict(row, basis=HELD, actor=actor)


def restrict(row: Erasure, *, basis: str, actor: str) -> None:
    """Keep agents out for as long as the plan waits; a restriction of its own stays."""
    rows = Subject.objects.filter(id=row.subject_id, state=Subject.State.ACTIVE)
    if rows.update(state=Subject.State.RESTRICTED, basis=basis):
        _audit("subject.restricted", row, actor)


def lift(row: Erasure, *, actor: str) -> None:
    """End the restriction that the plan or a hold against it brought; others stay."""
    rows = Subject.objects.filter(id=row.subject_id, state=Subject.State.RESTRICTED)
    rows = rows.filter(basis__in=(PLANNED, HELD))
    if rows.update(state=Subject.State.ACTIVE, basis=""):
        _audit("subject.unrestricted", row, actor)


def freeze(row: Erasure, subject: Subject) -> None:
    """Put what there is now in the place of what was planned, for good.

    Under the subject's lock, in the transaction of the fence: nobody adds to it from
    here on. The counts that were confirmed stay beside it, and whom to tell.
    """
    draft = erasure_targets.drafted(subject, erasure_targets.wish_of(row))
    before = orjson.loads(row.planned)
    places, fenced = {}, {}
    for name, line in draft.planned["places"].items():
        confirmed = before["places"].get(name, {"erase": 0})
        places[name] = {**line, "erase": confirmed["erase"]}
        fenced[name] = {"fenced": line["erase"], "erased": 0}
    row.erased = text(fenced)
    frozen = {
        "count": before["count"],
        "places": places,
        "confirmed": as_confirmed(row.planned),
        "recipients": recipients.list_recipients(subject.id),
    }
    row.planned = text({**draft.planned, **frozen})
    row.targets = text({**draft.targets, "confirmed": as_confirmed(row.targets)})
    row.save(update_fields=["planned", "targets", "erased"])


def as_confirmed(stored: str) -> str:
    """Return the digest of it as it was confirmed: the fence has counted anew since."""
    plain: dict[str, Any] = orjson.loads(stored)
    digest: str = plain.get("confirmed", "")
    return digest or hashlib.sha256(text(plain).encode()).hexdigest()


def text(value: Mapping[str, Any]) -> str:
    """JSON as the columns of an erasure have it: the same for the same values."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def order(row: Erasure) -> None:
    """Have it stand in every journal that it concerns. A repeat goes on."""
    if row.scope in (Scope.SUBJECT, Scope.THREAD):
        _order_threads(row)
    if row.scope != Scope.SUBJECT:
        for batch in erasing.chunks(_ranges(row)):
            journal.run(partial(_order_records, row, batch))


def take_rows(row: Erasure) -> None:
    """Take what the orders name: payloads, rows, names. A repeat goes on."""
    tried: set[UUID] = set()
    while batch := [*_unblanked(row).exclude(id__in=tried).order_by("id")[:100]]:
        for thread in batch:
            by = thread.head_seq
            _until_done(partial(purging.thread_batches, thread.id, by=by))
            # One that a live fork still folds through keeps its name.
            tried.add(thread.id)
    for thread in _written_to(row).exclude(id__in=tried):
        _until_done(partial(purging.thread_batches, thread.id, by=thread.head_seq))
    if row.scope == Scope.SUBJECT:
        _until_done(partial(purging.subject_batches, row.subject_id))
        return
    for thread in erasing.concerned(_ranges(row)):
        _reseal(thread.id)


def _held(erasure: UUID) -> bool:
    """Tell whether a hold forbids it. None can come later, up to the fence."""
    with locked(erasure) as (row, owner):
        held = in_force(owner.id, now=clock.now()).exists()
        if held and row.state == State.PLANNED:
            hold_back(row, actor=ACTOR)
    return held


def _fence_subject(erasure: UUID, line: Line) -> None:
    with locked(erasure) as (row, owner):
        if reached(row, State.FENCED):
            return
        freeze(row, owner)
        tombstones.lay_subject(row, owner)
        if owner.anonymous:
            owner.anonymous = False
            owner.save(update_fields=["anonymous"])
            # A project that is being deleted needs nobody any more.
            with suppress(ProjectDeletedError):
                fencing.require_active(owner.project_id)
                subjects.create_anonymous(owner.project_id)
        owner.epoch, owner.state, owner.basis = owner.epoch + 1, _ERASING, ""
        owner.save(update_fields=["epoch", "state", "basis"])
        ledgers.apply(line)
        enter(row, State.FENCED, actor=ACTOR, ledger_n=line.n)


def _fence_records(row: Erasure, line: Line) -> None:
    """Append the events that order a narrower scope, each with what it takes."""
    if journal.run(partial(_freeze_records, row.id, line)):
        order(Erasure.objects.get(id=row.id))
    journal.run(partial(_enter_fenced, row.id))


def _freeze_records(erasure: UUID, line: Line) -> bool:
    """Freeze it: who wrote or forked before is counted, who comes later is refused.

    Returns whether more is to be ordered than one transaction should take. Agents are
    kept out until that is done: what is counted here is what goes.
    """
    with locked(erasure) as (row, owner):
        if row.ledger_n is not None:
            return not reached(row, State.FENCED)
        freeze(row, owner)
        # The key lives on: what is looked for has to be taken before it goes.
        row.ledger_n, row.needles = line.n, collecting.collect(row)
        row.save(update_fields=["ledger_n", "needles"])
        more = _begin(row)
        ledgers.apply(line)
        if more:
            restrict(row, basis=PLANNED, actor=ACTOR)
    return more


def _enter_fenced(erasure: UUID) -> None:
    """Note that all is ordered, by transactions that laid tombstones of values too."""
    with locked(erasure) as (row, _):
        if not reached(row, State.FENCED):
            enter(row, State.FENCED, actor=ACTOR)
            enter(row, State.TOMBSTONED, actor=ACTOR)
            lift(row, actor=ACTOR)


def _enter(erasure: UUID, state: str, **changes: Any) -> None:
    with transaction.atomic():
        row = Erasure.objects.select_for_update().get(id=erasure)
        if not reached(row, state):
            enter(row, state, actor=ACTOR, **changes)


def _enter_scrubbed(erasure: UUID, times: str) -> None:
    """Enter it if its rows were gone before the scrub: the times tell."""
    with transaction.atomic():
        row = Erasure.objects.select_for_update().get(id=erasure)
        if (row.state, row.times) == (State.CACHES_PURGED, times):
            enter(row, State.SCRUBBED, actor=ACTOR)


def _enter_purged(erasure: UUID) -> None:
    """Note that the rows are gone: what was fenced is what was erased."""
    with transaction.atomic():
        row = Erasure.objects.select_for_update().get(id=erasure)
        if reached(row, State.ROWS_ERASED):
            return
        if row.scope == Scope.SUBJECT:
            rows = Subject.objects.filter(id=row.subject_id)
            rows.update(state=Subject.State.ERASED, subject_ref=None, external_id=None)
        enter(row, State.ROWS_ERASED, actor=ACTOR, erased=_counted(row))


def _counted(row: Erasure) -> str:
    """Count what is gone of what was fenced, counted from what is left."""
    left = erasure_targets.count_left(row)
    counted = {
        name: {**line, "erased": line["fenced"] - left[name]}
        for name, line in orjson.loads(row.erased).items()
    }
    if row.scope != Scope.SUBJECT:
        targets = orjson.loads(row.targets)
        anew = erasure_targets.count_made_anew(row.scope, targets, by=row.id)
        counted["snapshots"]["rebuilt"] = anew
    return text(counted)


def _fall_back(erasure: UUID) -> None:
    with transaction.atomic():
        row = Erasure.objects.select_for_update().get(id=erasure)
        if row.state != State.SCRUBBED:
            # Somebody else has seen to it: what is proved is not taken back.
            return
        whole = row.scope == Scope.SUBJECT
        row.state = State.KEY_DESTROYED if whole else State.TOMBSTONED
        row.updated_at = clock.now()
        row.save(update_fields=["state", "updated_at"])


def _has_rows(row: Erasure) -> bool:
    return any(erasure_targets.count_left(row).values())


def _note_scan(erasure: UUID, times: str, result: ScanResult) -> bool:
    """Note what it found, and the state that follows: one never without the other.

    Of two scans at once the first that passed is the one that the receipt tells of.
    Returns whether it proves nothing: something was found before in the clear, and
    this one did not look for anything of that kind.
    """
    with transaction.atomic():
        row = Erasure.objects.select_for_update().get(id=erasure)
        # With each state that it enters again the times change.
        if (row.state, row.times) != (State.SCRUBBED, times):
            return False
        if row.hit_at and not result.looked_in_the_clear:
            return True
        now = clock.now()
        if result.found_in_the_clear and not row.hit_at:
            row.hit_at = now
        row.verification, row.updated_at = text(result.facts()), now
        row.save(update_fields=["verification", "hit_at", "updated_at"])
        if result.clean and not result.deferred:
            enter(row, State.VERIFIED, actor=ACTOR)
    return False


def _keep_targets(row: Erasure) -> None:
    row.needles = collecting.collect(row)
    journal.run(lambda: row.save(update_fields=["needles"]))


def _touched(row: Erasure) -> QuerySet[Thread]:
    """Return the threads that lost something."""
    if row.scope == Scope.SUBJECT:
        return Thread.objects.filter(subject=row.subject_id)
    named = erasure_targets.threads_of(orjson.loads(row.targets))
    return Thread.objects.filter(Q(id__in=named) | Q(parent__in=named))


def _begin(row: Erasure) -> bool:
    """Order it in the caller's transaction, in which all was counted.

    A thread that goes whole ends there, so that nobody adds to it. Returns whether the
    records are too many for that, and are left to `order`.
    """
    gone = (_ERASED, Thread.Status.IMPORTING)
    if row.scope == Scope.THREAD and (
        threads := [*_whole(row).exclude(status__in=gone)]
    ):
        _end(row, threads)
    pieces = [*erasing.chunks(_ranges(row))]
    if len(pieces) > 1:
        return True
    for piece in pieces:
        _order_records(row, piece)
    return False


def _order_threads(row: Erasure) -> None:
    # Nobody has seen what is still on its way in, so nothing is left of it.
    arriving = _whole(row).filter(status=Thread.Status.IMPORTING)
    importing.remove(arriving.values_list("id", flat=True))
    left = _whole(row).exclude(status=_ERASED).order_by("id")
    while batch := [*left[: erasing.AT_ONCE]]:
        journal.run(partial(_end, row, batch))


def _end(row: Erasure, threads: Sequence[Thread]) -> None:
    with transaction.atomic():
        _hold(row)
        # Their names are dead from here on, and known now for the last time.
        tombstones.lay_threads(row, [each.name for each in threads])
        erasing.erase_threads(threads, erasure=row.id, reason=_reason(row))


def _order_records(row: Erasure, ranges: Sequence[Range]) -> None:
    with transaction.atomic():
        owner = _hold(row)
        # What was read of it before is stale: imports and exports under way end.
        Subject.objects.filter(id=owner.id).update(epoch=F("epoch") + 1)
        # What was made of them since they were counted goes with them; nothing can be
        # made of what is erased.
        whole = erasure_closures.closure(ranges, taught=row.reason != RETENTION)
        if row.reason != RETENTION:
            tombstones.lay_values(row, _values(owner, whole))
        for piece in erasing.chunks(whole):
            erasing.erase_records(piece, erasure=row.id, reason=_reason(row))


def _values(owner: Subject, ranges: Sequence[Range]) -> Iterator[Value]:
    """Read what may not be written again of these records, as the last who can."""
    try:
        opened = keys.subject_keys(owner.id, epoch=owner.epoch)
    except SubjectErasedError:
        # It is back without its key, from a backup: nobody can read or write it.
        return
    wanted = Q(pk__in=[])
    for thread, first, last in ranges:
        wanted |= Q(thread=thread, seq__range=(first, last))
    sealed = Event.objects.filter(wanted, payload__isnull=False)
    for event in sealed.filter(type__in=tombstones.TYPES).order_by("thread", "seq"):
        # What does not open is erased all the same; there is nothing to know it by.
        with suppress(CorruptError):
            payload = log.open_payload(owner, owner.project_id, event)
            yield from tombstones.values_of(opened, log.recorded(event).event, payload)


def _reseal(thread: UUID) -> None:
    # Without its key, as a restore may leave it, snapshots are gone for good.
    with suppress(SubjectErasedError):
        erasing.reseal(Thread.objects.select_related("subject").get(id=thread))


def _until_done(batches: Callable[[], Iterator[purging.Counts]]) -> None:
    while journal.run(partial(purging.take_some, batches)):
        pass


def _hold(row: Erasure) -> Subject:
    """Lock the subject: what is read of its memory now is what goes."""
    return Subject.objects.select_for_update().get(id=row.subject_id)


def _whole(row: Erasure) -> QuerySet[Thread]:
    """Return the threads that go whole."""
    if row.scope == Scope.SUBJECT:
        return Thread.objects.filter(subject=row.subject_id)
    if row.scope == Scope.THREAD and row.thread_id:
        return Thread.objects.filter(id=row.thread_id)
    return Thread.objects.none()


def _unblanked(row: Erasure) -> QuerySet[Thread]:
    return _whole(row).filter(status=_ERASED).exclude(name__startswith="~")


def _written_to(row: Erasure) -> QuerySet[Thread]:
    """Find threads that hold something again: it was written beside the fence."""
    owner: dict[str, Any] = {"subject": row.subject_id}
    if row.scope != Scope.SUBJECT:
        owner = {"thread": row.thread_id}
    found: set[UUID] = set()
    for place in erasure_counts.iter_places():
        if place.privacy.thread is not None and None not in owner.values():
            rows = place.of(**owner).order_by()
            found |= {*rows.values_list(place.privacy.thread, flat=True).distinct()}
    return _whole(row).filter(status=_ERASED, id__in=found).order_by("id")


def _ranges(row: Erasure) -> list[Range]:
    """List what goes of threads that stay, and what forks have of one that goes."""
    targets: Any = orjson.loads(row.targets)
    heads = [(UUID(thread), 1, seq) for thread, seq in targets["heads"]]
    return [*heads, *erasure_targets.ranges_of(targets)]


def _reason(row: Erasure) -> Any:
    """Return the plan's word; it was checked then."""
    return row.reason


def _audit(action: str, row: Erasure, actor: str) -> None:
    restrictions.audit_act(action, row.subject_id, project=row.project_id, actor=actor)
