"""The ledger beside the databases: lines applied, and lines the databases lack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from memoryhub import journal
from memoryhub.errors import LedgerBrokenError, LedgerUnwritableError, StartRefusedError
from memoryhub.models.erasures import Erasure, Receipt, Tombstone
from memoryhub.models.keys import DestroyedKey, ProjectKey
from memoryhub.models.projects import Instance, Project
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.services.forget import ledger_targets
from memoryhub.vault.proof import ledger, receipts, signing
from memoryhub.vault.proof.chains import BEHIND
from memoryhub.vault.proof.ledger import LedgerKind, LedgerLine

State = Erasure.State
#: States before the fence: what the ledger promises has not begun.
UNFENCED: Final = (State.PLANNED, State.HELD, State.EXPIRED, State.CANCELLED)
#: States in which the subject's key is destroyed.
KEYLESS: Final = (
    State.KEY_DESTROYED,
    State.ROWS_ERASED,
    State.CACHES_PURGED,
    State.SCRUBBED,
    State.VERIFIED,
    State.COMPLETE,
)
#: Scope of lines about a whole project, whose id stands for erasure and subject.
PROJECT: Final = "project"
#: Scopes whose targets begin with a thread.
_OF_THREAD: Final = (Erasure.Scope.THREAD, Erasure.Scope.RECORD)
_AT_ONCE: Final = 500
#: Serialises the request that confirms and the worker, so that a line is written once.
_APPEND_LOCK: Final = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerGap:
    """Intents of the ledger that the databases lack, oldest first."""

    #: Erasures whose row exists but is not fenced: fence before serving requests.
    resumed: tuple[LedgerLine, ...] = ()
    #: Erasures undone by a restore: to be run through all states once more.
    replayed: tuple[LedgerLine, ...] = ()


def record_intent(erasure: Erasure) -> LedgerLine:
    """Record the intent of an erasure in the ledger; a repeat returns the same line.

    Call before the fence, and never inside a transaction: the call waits for the disk.
    Raises LedgerUnwritableError, after which nothing may be erased.
    """
    with _APPEND_LOCK:
        for line in ledger.iter_lines():
            if line.erasure == erasure.id and line.kind is LedgerKind.INTENT:
                return line
        return _append_line(erasure, LedgerKind.INTENT)


def record_completion(erasure: Erasure, receipt: Receipt) -> LedgerLine:
    """Record in the ledger that an erasure is complete; a repeat returns that line.

    An erasure that was complete before a restore is recorded as `replayed`.
    """
    digest, kind = receipts.digest(receipt.text), LedgerKind.DONE
    with _APPEND_LOCK:
        for line in ledger.iter_lines():
            if line.erasure == erasure.id and line.kind is not LedgerKind.INTENT:
                if line.receipt_sha256 == digest:
                    return line
                kind = LedgerKind.REPLAYED
        return _append_applied(erasure, kind, digest)


def record_replay(erasure: Erasure) -> LedgerLine:
    """Record that an erasure with an earlier receipt was carried out again."""
    receipt = Receipt.objects.get(erasure=erasure, n=0)
    return _append_applied(erasure, LedgerKind.REPLAYED, receipts.digest(receipt.text))


def record_project_intent(project: Project) -> LedgerLine:
    """Record the deletion of a project in the ledger; a repeat returns the same line.

    Call before the first of its subjects is erased, and never inside a transaction.
    Raises LedgerUnwritableError.
    """
    return _record_project(project, LedgerKind.INTENT)


def record_project_completion(project: Project) -> LedgerLine:
    """Record that the whole project is erased; a repeat returns the same line."""
    return _record_project(project, LedgerKind.DONE)


def find_newest_line(erasure: UUID) -> LedgerLine | None:
    """Find the newest line of an erasure in the ledger."""
    lines = [line for line in ledger.iter_lines() if line.erasure == erasure]
    return lines[-1] if lines else None


def record_applied(line: LedgerLine) -> None:
    """Record in the memory database that this line is applied; part of the fence."""
    with transaction.atomic():
        Instance.objects.filter(ledger_n__lt=line.n).update(
            ledger_n=line.n, ledger_hash=line.hash
        )


def find_subject_ref(erasure: Erasure) -> bytes | None:
    """Find the digest of the subject's user id; after the erasure in its tombstone."""
    if erasure.subject.subject_ref is not None:
        return bytes(erasure.subject.subject_ref)
    rows = Tombstone.objects.filter(
        subject=erasure.subject_id, kind=Tombstone.Kind.SUBJECT
    )
    found = rows.values_list("digest", flat=True).first()
    return None if found is None else bytes(found)


def verify_ledger(*, restored: bool = False) -> None:
    """Walk the ledger and verify that it reaches the recorded and the applied line.

    With `restored` the keys database may be behind the ledger. Raises
    LedgerBrokenError.
    """
    applied, digest = Instance.objects.values_list("ledger_n", "ledger_hash").get()
    newest = ledger.check(restored=restored)
    if applied > (newest.n if newest else 0):
        raise LedgerBrokenError(n=newest.n + 1 if newest else 1, what=BEHIND)
    if applied and next(ledger.iter_lines(after=applied - 1)).hash != bytes(digest):
        raise LedgerBrokenError(n=applied)


def compare_ledger() -> LedgerGap:
    """Walk the ledger and look up its intents in both databases.

    Eight queries for every five hundred erasures, and two for projects. Raises
    StartRefusedError when the ledger can't be written, is another instance's, or lacks
    what the databases have applied.
    """
    try:
        ledger.refuse_unwritable()
        ledger.recover()
        signing.prepare()
        verify_ledger(restored=True)
        ledger.catch_up()
        intents = {
            line.erasure: line
            for line in ledger.iter_lines()
            if line.kind is LedgerKind.INTENT
        }
    except LedgerUnwritableError as failure:
        raise StartRefusedError(
            f"ledger_unwritable: {ledger.path()} can not be written "
            f"({failure.__cause__}), so nothing could be erased; see to its rights and "
            "its disk"
        ) from None
    except LedgerBrokenError as broken:
        raise StartRefusedError(_render_refusal(broken)) from None
    resumed: list[LedgerLine] = []
    replayed: list[LedgerLine] = []
    for batch in _iter_batches(_drop_covered(list(intents.values()))):
        _sort_lines(batch, resumed, replayed)
    for batch in _iter_batches(list(intents.values())):
        replayed.extend(filter_unknown_threads(batch))
    replayed.extend(
        _filter_restored_projects(
            [line for line in intents.values() if line.scope == PROJECT]
        )
    )
    replayed.sort(key=lambda line: line.n)
    return LedgerGap(resumed=tuple(resumed), replayed=tuple(replayed))


def _drop_covered(lines: Sequence[LedgerLine]) -> list[LedgerLine]:
    """Drop lines about projects, and lines covered by a whole subject's erasure."""
    gone = {line.subject for line in lines if line.scope == Erasure.Scope.SUBJECT}
    return [
        line
        for line in lines
        if line.scope == Erasure.Scope.SUBJECT
        or (line.scope != PROJECT and line.subject not in gone)
    ]


def _filter_restored_projects(lines: Sequence[LedgerLine]) -> list[LedgerLine]:
    """Filter the lines of projects that a restore has undeleted, or whose key is back.

    The database records a project's deletion before the ledger does.
    """
    projects = [line.project for line in lines]
    rows = Project.objects.filter(id__in=projects)
    states: Mapping[UUID, str] = dict(rows.values_list("id", "state"))
    found = ProjectKey.objects.using("keys").filter(project__in=projects)
    opened = set(found.values_list("project", flat=True)) if projects else set()
    return [
        line
        for line in lines
        if (state := states.get(line.project)) == Project.State.ACTIVE
        or (state == Project.State.DELETED and line.project in opened)
    ]


def _sort_lines(
    lines: Sequence[LedgerLine], resumed: list[LedgerLine], replayed: list[LedgerLine]
) -> None:
    """Sort lines into those to resume and those to replay."""
    rows = Erasure.objects.filter(id__in=[line.erasure for line in lines])
    states: Mapping[UUID, str] = dict(rows.values_list("id", "state"))
    gone = DestroyedKey.objects.using("keys")
    subjects = [line.subject for line in lines]
    destroyed = set(gone.filter(subject__in=subjects).values_list("subject", flat=True))
    unknown: list[LedgerLine] = []
    for line in lines:
        state = states.get(line.erasure)
        whole = line.scope == Erasure.Scope.SUBJECT
        if state is None:
            unknown.append(line)
        elif state in UNFENCED:
            resumed.append(line)
        elif whole and state in KEYLESS and line.subject not in destroyed:
            # The keys database alone was restored: the subject's key has come back.
            replayed.append(line)
    replayed.extend(_iter_repeatable(unknown))
    replayed.sort(key=lambda line: line.n)


def _iter_repeatable(lines: Sequence[LedgerLine]) -> Iterator[LedgerLine]:
    """Iterate over the lines that have something to erase in these databases.

    An unknown subject still needs a tombstone; an unknown record or thread does not.
    """
    owners = Subject.objects.filter(id__in=[line.subject for line in lines])
    states: Mapping[UUID, str] = dict(owners.values_list("id", "state"))
    tenants = Project.objects.filter(id__in=[line.project for line in lines])
    projects = set(tenants.values_list("id", flat=True))
    before = [line for line in lines if line.scope == Erasure.Scope.BEFORE]
    threads = _filter_live_threads(
        [line.targets[0] for line in lines if line.scope in _OF_THREAD]
        + [line.targets[2] for line in before if len(line.targets) > 2]
    )
    for line in lines:
        state = states.get(line.subject)
        if line.project not in projects or state == Subject.State.ERASED:
            continue
        whole = line.scope == Erasure.Scope.SUBJECT
        if line.scope == Erasure.Scope.BEFORE:
            # A line of the scope `before` may name the thread that narrows it.
            named = line.targets[2:]
            there = state is not None and all(each in threads for each in named)
        else:
            there = bool(state and line.targets and line.targets[0] in threads)
        if whole or there:
            yield line


def filter_unknown_threads(lines: Sequence[LedgerLine]) -> list[LedgerLine]:
    """Filter the lines of threads unknown here whose names are not dead yet.

    The threads were made and erased after the backup, so only their names matter. Four
    queries.
    """
    digests = {line.erasure: ledger_targets.parse_name_digest(line) for line in lines}
    named = [line for line in lines if digests[line.erasure]]
    stones = Tombstone.objects.filter(digest__in=[*filter(None, digests.values())])
    stones = stones.filter(kind=Tombstone.Kind.THREAD)
    places = stones.values_list("project", "digest")
    dead = {(project, bytes(digest)) for project, digest in places}
    threads = Thread.objects.filter(id__in=[line.targets[0] for line in named])
    found_ids = {str(thread) for thread in threads.values_list("id", flat=True)}
    rows = Erasure.objects.filter(id__in=[line.erasure for line in named])
    found_ids |= {str(row) for row in rows.values_list("id", flat=True)}
    # In a deleted project no thread is ever named again.
    tenants = Project.objects.filter(id__in=[line.project for line in named])
    tenants = tenants.filter(state=Project.State.ACTIVE)
    projects = set(tenants.values_list("id", flat=True))
    return [
        line
        for line in named
        if line.project in projects
        and not found_ids & {line.targets[0], str(line.erasure)}
        and (line.project, digests[line.erasure]) not in dead
    ]


def _filter_live_threads(threads: Sequence[str]) -> set[str]:
    """Filter the ids of threads that exist and are not erased."""
    rows = Thread.objects.filter(id__in=threads).exclude(status=Thread.Status.ERASED)
    return {str(thread) for thread in rows.values_list("id", flat=True)}


def _render_refusal(broken: LedgerBrokenError) -> str:
    """Render why the server does not start, with what the operator should do."""
    detail = broken.detail
    if detail.get("what") == BEHIND:
        return (
            f"ledger_behind: {ledger.path()} lacks line {detail['n']}, which was "
            "written or applied; put back its longest copy"
        )
    what = (
        f"line {detail['n']} of it" if "n" in detail else f"{detail['file']} beside it"
    )
    return (
        f"ledger_broken: the ledger {ledger.path()} is not as this instance wrote it "
        f"({what}); put back its last good copy"
    )


def _iter_batches(lines: Sequence[LedgerLine]) -> Iterator[Sequence[LedgerLine]]:
    """Iterate over batches of at most `_AT_ONCE` lines."""
    for start in range(0, len(lines), _AT_ONCE):
        yield lines[start : start + _AT_ONCE]


def _append_applied(erasure: Erasure, kind: LedgerKind, digest: bytes) -> LedgerLine:
    """Append a line with a receipt's digest, and record the line as applied."""
    line = _append_line(erasure, kind, receipt_sha256=digest)
    journal.run(partial(record_applied, line))
    return line


def _record_project(project: Project, kind: LedgerKind) -> LedgerLine:
    """Return the project's line of this kind, appended if absent, and apply it."""
    with _APPEND_LOCK:
        lines = (line for line in ledger.iter_lines() if line.erasure == project.id)
        line = next((line for line in lines if line.kind is kind), None)
        line = line or ledger.append(
            kind=kind,
            erasure=project.id,
            project=project.id,
            subject=project.id,
            subject_ref=None,
            scope=PROJECT,
            reason=project.deletion_reason,
            ticket=project.deletion_ticket,
            targets=[],
            at=clock.now(),
        )
    journal.run(partial(record_applied, line))
    return line


def _append_line(erasure: Erasure, kind: LedgerKind, **more: Any) -> LedgerLine:
    """Append a line about an erasure."""
    # The first line holds the names of a subject's threads; later lines need none.
    whole = erasure.scope == Erasure.Scope.SUBJECT
    targets = (
        []
        if whole and kind is not LedgerKind.INTENT
        else ledger_targets.build_targets(erasure)
    )
    return ledger.append(
        kind=kind,
        erasure=erasure.id,
        project=erasure.project_id,
        subject=erasure.subject_id,
        subject_ref=find_subject_ref(erasure),
        scope=erasure.scope,
        reason=erasure.reason,
        ticket=erasure.ticket,
        targets=targets,
        at=clock.now(),
        **more,
    )
