"""The steps of an erasure: each makes the next state true, then enters it.

All are harmless when done twice. They return the word of what they wait for; nothing
once the state is entered.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, Final
from uuid import UUID

import orjson
from django.db import transaction
from django.db.models import Q, QuerySet

from memoryhub import journal
from memoryhub.errors import ProjectDeletedError
from memoryhub.journal.forget import scrub as scrubbing
from memoryhub.journal.log import announce, thread_terms
from memoryhub.journal.log import fence as fencing
from memoryhub.journal.rows import tombstones
from memoryhub.models.erasures import Erasure
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.forget import erasure_targets
from memoryhub.queries.forget.holds import in_force
from memoryhub.services.forget import (
    erasure_plans,
    erasure_rows,
    ledgers,
    receipts,
    thread_tombstones,
)
from memoryhub.services.forget.erasure_plans import text
from memoryhub.services.forget.maintenance import maintenance
from memoryhub.services.people import subjects
from memoryhub.services.people.restrictions import PLANNED
from memoryhub.services.scan import collecting, scan_targets, scans
from memoryhub.services.scan.scans import ScanResult
from memoryhub.vault.keys import keys
from memoryhub.vault.proof.ledger import Line

ACTOR: Final = "worker:erasures"
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
#: As they follow on each other; what is closed without having begun comes first.
_ORDER: Final = (State.EXPIRED, State.CANCELLED, *State.values)


def fence(row: Erasure) -> str:
    """Tell the ledger, then fence: from here on everything in scope is 410."""
    # What the ledger has promised goes: a backup may hold what was lifted since.
    promised = ledgers.newest(row.id) is not None
    if not promised and journal.run(partial(_hold_back, row.id)):
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
    erasure_rows.order(row)
    journal.run(partial(_enter, row.id, State.KEY_DESTROYED))
    return ""


def purge(row: Erasure) -> str:
    """Take payloads, names and projections, in batches of 1,000 through the writer."""
    erasure_rows.purge(row)
    left = erasure_plans.count_left(row)
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


def _has_rows(row: Erasure) -> bool:
    return any(erasure_plans.count_left(row).values())


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


def _hold_back(erasure: UUID) -> bool:
    """Tell whether a hold forbids it. None can come later, up to the fence."""
    with erasure_rows.locked(erasure) as (row, owner):
        held = in_force(owner.id, now=clock.now()).exists()
        if held and row.state == State.PLANNED:
            erasure_plans.hold_back(row, actor=ACTOR)
    return held


def _fence_subject(erasure: UUID, line: Line) -> None:
    with erasure_rows.locked(erasure) as (row, owner):
        if reached(row, State.FENCED):
            return
        erasure_plans.freeze(row, owner)
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
        erasure_plans.enter(row, State.FENCED, actor=ACTOR, ledger_n=line.n)


def _fence_records(row: Erasure, line: Line) -> None:
    """Append the events that order a narrower scope, each with what it takes."""
    if journal.run(partial(_freeze_records, row.id, line)):
        erasure_rows.order(Erasure.objects.get(id=row.id))
    journal.run(partial(_enter_fenced, row.id))


def _freeze_records(erasure: UUID, line: Line) -> bool:
    """Freeze it: who wrote or forked before is counted, who comes later is refused.

    Returns whether more is to be ordered than one transaction should take. Agents are
    kept out until that is done: what is counted here is what goes.
    """
    with erasure_rows.locked(erasure) as (row, owner):
        if row.ledger_n is not None:
            return not reached(row, State.FENCED)
        erasure_plans.freeze(row, owner)
        # The key lives on: what is looked for has to be taken before it goes.
        row.ledger_n, row.needles = line.n, collecting.collect(row)
        row.save(update_fields=["ledger_n", "needles"])
        more = erasure_rows.begin(row)
        ledgers.apply(line)
        if more:
            erasure_plans.restrict(row, basis=PLANNED, actor=ACTOR)
    return more


def _enter_fenced(erasure: UUID) -> None:
    """Note that all is ordered, by transactions that laid tombstones of values too."""
    with erasure_rows.locked(erasure) as (row, _):
        if not reached(row, State.FENCED):
            erasure_plans.enter(row, State.FENCED, actor=ACTOR)
            erasure_plans.enter(row, State.TOMBSTONED, actor=ACTOR)
            erasure_plans.lift(row, actor=ACTOR)


def _enter(erasure: UUID, state: str, **changes: Any) -> None:
    with transaction.atomic():
        row = Erasure.objects.select_for_update().get(id=erasure)
        if not reached(row, state):
            erasure_plans.enter(row, state, actor=ACTOR, **changes)


def _enter_scrubbed(erasure: UUID, times: str) -> None:
    """Enter it if its rows were gone before the scrub: the times tell."""
    with transaction.atomic():
        row = Erasure.objects.select_for_update().get(id=erasure)
        if (row.state, row.times) == (State.CACHES_PURGED, times):
            erasure_plans.enter(row, State.SCRUBBED, actor=ACTOR)


def _enter_purged(erasure: UUID) -> None:
    """Note that the rows are gone: what was fenced is what was erased."""
    with transaction.atomic():
        row = Erasure.objects.select_for_update().get(id=erasure)
        if reached(row, State.ROWS_ERASED):
            return
        if row.scope == Scope.SUBJECT:
            rows = Subject.objects.filter(id=row.subject_id)
            rows.update(state=Subject.State.ERASED, subject_ref=None, external_id=None)
        erasure_plans.enter(row, State.ROWS_ERASED, actor=ACTOR, erased=_counted(row))


def _counted(row: Erasure) -> str:
    """Count what is gone of what was fenced, counted from what is left."""
    left = erasure_plans.count_left(row)
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
            erasure_plans.enter(row, State.VERIFIED, actor=ACTOR)
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
