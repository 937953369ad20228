"""The ledger beside the databases: what both have applied of it, and what they lack."""

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
from memoryhub.vault.proof.ledger import LedgerKind, Line

State = Erasure.State
#: Before the fence: what the ledger says of it has not begun.
UNFENCED: Final = (State.PLANNED, State.HELD, State.EXPIRED, State.CANCELLED)
#: From here on the subject's key is gone.
KEYLESS: Final = (
    State.KEY_DESTROYED,
    State.ROWS_ERASED,
    State.CACHES_PURGED,
    State.SCRUBBED,
    State.VERIFIED,
    State.COMPLETE,
)
#: The scope of lines about a whole project: its id stands for erasure and subject.
PROJECT: Final = "project"
#: Scopes whose targets begin with a thread.
_OF_THREAD: Final = (Erasure.Scope.THREAD, Erasure.Scope.RECORD)
_AT_ONCE: Final = 500
#: Who confirms and the worker may take the same step at once: it is said once.
_SAYING: Final = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the databases lack of the ledger: intents, oldest first."""

    #: Their row is here but not fenced: to be fenced before anything is served.
    resumed: tuple[Line, ...] = ()
    #: A restore took them back: to be run through all states once more.
    replayed: tuple[Line, ...] = ()


def intend(erasure: Erasure) -> Line:
    """Say in the ledger that this will be done; the same line if it says so already.

    Before the fence, and never inside of a transaction: it waits for the disk. Raises
    LedgerUnwritableError, after which nothing may be erased.
    """
    with _SAYING:
        for line in ledger.lines():
            if line.erasure == erasure.id and line.kind is LedgerKind.INTENT:
                return line
        return _append(erasure, LedgerKind.INTENT)


def close(erasure: Erasure, receipt: Receipt) -> Line:
    """Say that it is complete; the same line if it says so of this receipt already.

    Of what was complete before a restore it says `replayed`.
    """
    digest, kind = receipts.digest(receipt.text), LedgerKind.DONE
    with _SAYING:
        for line in ledger.lines():
            if line.erasure == erasure.id and line.kind is not LedgerKind.INTENT:
                if line.receipt_sha256 == digest:
                    return line
                kind = LedgerKind.REPLAYED
        return _closed(erasure, kind, digest)


def repeat(erasure: Erasure) -> Line:
    """Say that what has its receipt since before a restore was erased once more."""
    receipt = Receipt.objects.get(erasure=erasure, n=0)
    return _closed(erasure, LedgerKind.REPLAYED, receipts.digest(receipt.text))


def intend_project(project: Project) -> Line:
    """Say in the ledger that a project is deleted; the same line if it says so.

    Before the first of its people is erased, and never inside of a transaction. Raises
    LedgerUnwritableError.
    """
    return _said_of_project(project, LedgerKind.INTENT)


def close_project(project: Project) -> Line:
    """Say that all of it is gone; the same line if it says so already."""
    return _said_of_project(project, LedgerKind.DONE)


def newest(erasure: UUID) -> Line | None:
    """Return the last thing the ledger says of an erasure."""
    lines = [line for line in ledger.lines() if line.erasure == erasure]
    return lines[-1] if lines else None


def apply(line: Line) -> None:
    """Note in the memory database that this line is applied; part of the fence."""
    with transaction.atomic():
        Instance.objects.filter(ledger_n__lt=line.n).update(
            ledger_n=line.n, ledger_hash=line.hash
        )


def subject_ref(erasure: Erasure) -> bytes | None:
    """Find the digest of the subject's user id, once erased in its tombstone."""
    if erasure.subject.subject_ref is not None:
        return bytes(erasure.subject.subject_ref)
    rows = Tombstone.objects.filter(
        subject=erasure.subject_id, kind=Tombstone.Kind.SUBJECT
    )
    found = rows.values_list("digest", flat=True).first()
    return None if found is None else bytes(found)


def check(*, restored: bool = False) -> None:
    """Walk the ledger; see that it goes as far as was noted, and applied.

    With `restored` the keys database may be behind it. Raises LedgerBrokenError.
    """
    applied, digest = Instance.objects.values_list("ledger_n", "ledger_hash").get()
    newest = ledger.check(restored=restored)
    if applied > (newest.n if newest else 0):
        raise LedgerBrokenError(n=newest.n + 1 if newest else 1, what=BEHIND)
    if applied and next(ledger.lines(after=applied - 1)).hash != bytes(digest):
        raise LedgerBrokenError(n=applied)


def compare() -> Standing:
    """Walk the ledger and look up what it says in both databases.

    Eight queries for every five hundred erasures, and two for projects. Raises
    StartRefusedError when the ledger can't be written, is not ours, or lacks what the
    databases have applied.
    """
    try:
        ledger.refuse_unwritable()
        ledger.recover()
        signing.prepare()
        check(restored=True)
        ledger.catch_up()
        intents = {
            line.erasure: line
            for line in ledger.lines()
            if line.kind is LedgerKind.INTENT
        }
    except LedgerUnwritableError as failure:
        raise StartRefusedError(
            f"ledger_unwritable: {ledger.path()} can not be written "
            f"({failure.__cause__}), so nothing could be erased; see to its rights and "
            "its disk"
        ) from None
    except LedgerBrokenError as broken:
        raise StartRefusedError(_refusal(broken)) from None
    resumed: list[Line] = []
    replayed: list[Line] = []
    for batch in _in_batches(_needed(list(intents.values()))):
        _sort(batch, resumed, replayed)
    for batch in _in_batches(list(intents.values())):
        replayed.extend(unheard(batch))
    replayed.extend(_back([line for line in intents.values() if line.scope == PROJECT]))
    replayed.sort(key=lambda line: line.n)
    return Standing(resumed=tuple(resumed), replayed=tuple(replayed))


def _needed(lines: Sequence[Line]) -> list[Line]:
    """Return those that are not part of a later one: who goes whole takes all along."""
    gone = {line.subject for line in lines if line.scope == Erasure.Scope.SUBJECT}
    return [
        line
        for line in lines
        if line.scope == Erasure.Scope.SUBJECT
        or (line.scope != PROJECT and line.subject not in gone)
    ]


def _back(lines: Sequence[Line]) -> list[Line]:
    """Return those of projects that a restore has made whole again, or their keys.

    The database knows that a project is deleted before the ledger does.
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


def _sort(lines: Sequence[Line], resumed: list[Line], replayed: list[Line]) -> None:
    rows = Erasure.objects.filter(id__in=[line.erasure for line in lines])
    states: Mapping[UUID, str] = dict(rows.values_list("id", "state"))
    gone = DestroyedKey.objects.using("keys")
    subjects = [line.subject for line in lines]
    destroyed = set(gone.filter(subject__in=subjects).values_list("subject", flat=True))
    unknown: list[Line] = []
    for line in lines:
        state = states.get(line.erasure)
        whole = line.scope == Erasure.Scope.SUBJECT
        if state is None:
            unknown.append(line)
        elif state in UNFENCED:
            resumed.append(line)
        elif whole and state in KEYLESS and line.subject not in destroyed:
            # The keys database alone was restored: its key has come back.
            replayed.append(line)
    replayed.extend(_reachable(unknown))
    replayed.sort(key=lambda line: line.n)


def _reachable(lines: Sequence[Line]) -> Iterator[Line]:
    """Find those with something to do: what they are about may be unknown too.

    A subject who is unknown still needs its tombstone; a record or a thread does not.
    """
    owners = Subject.objects.filter(id__in=[line.subject for line in lines])
    states: Mapping[UUID, str] = dict(owners.values_list("id", "state"))
    tenants = Project.objects.filter(id__in=[line.project for line in lines])
    projects = set(tenants.values_list("id", flat=True))
    threads = _live([line.targets[0] for line in lines if line.scope in _OF_THREAD])
    for line in lines:
        state = states.get(line.subject)
        if line.project not in projects or state == Subject.State.ERASED:
            continue
        whole = line.scope == Erasure.Scope.SUBJECT
        before = line.scope == Erasure.Scope.BEFORE and state is not None
        if whole or before or (state and line.targets and line.targets[0] in threads):
            yield line


def unheard(lines: Sequence[Line]) -> list[Line]:
    """Return those of threads that are unknown here, whose names are not dead yet.

    Made and erased since the backup: nothing of them is left but that. Four queries.
    """
    digests = {line.erasure: ledger_targets.name_digest(line) for line in lines}
    named = [line for line in lines if digests[line.erasure]]
    stones = Tombstone.objects.filter(digest__in=[*filter(None, digests.values())])
    stones = stones.filter(kind=Tombstone.Kind.THREAD)
    places = stones.values_list("project", "digest")
    dead = {(project, bytes(digest)) for project, digest in places}
    threads = Thread.objects.filter(id__in=[line.targets[0] for line in named])
    found_ids = {str(thread) for thread in threads.values_list("id", flat=True)}
    rows = Erasure.objects.filter(id__in=[line.erasure for line in named])
    found_ids |= {str(row) for row in rows.values_list("id", flat=True)}
    # In one that is deleted nothing is ever named again.
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


def _live(threads: Sequence[str]) -> set[str]:
    """Return those that are here and not erased."""
    rows = Thread.objects.filter(id__in=threads).exclude(status=Thread.Status.ERASED)
    return {str(thread) for thread in rows.values_list("id", flat=True)}


def _refusal(broken: LedgerBrokenError) -> str:
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


def _in_batches(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    for start in range(0, len(lines), _AT_ONCE):
        yield lines[start : start + _AT_ONCE]


def _closed(erasure: Erasure, kind: LedgerKind, digest: bytes) -> Line:
    line = _append(erasure, kind, receipt_sha256=digest)
    journal.run(partial(apply, line))
    return line


def _said_of_project(project: Project, kind: LedgerKind) -> Line:
    with _SAYING:
        lines = (line for line in ledger.lines() if line.erasure == project.id)
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
    journal.run(partial(apply, line))
    return line


def _append(erasure: Erasure, kind: LedgerKind, **more: Any) -> Line:
    # The names of a person's threads stand in the first line, and need no second.
    whole = erasure.scope == Erasure.Scope.SUBJECT
    targets = (
        []
        if whole and kind is not LedgerKind.INTENT
        else ledger_targets.targets(erasure)
    )
    return ledger.append(
        kind=kind,
        erasure=erasure.id,
        project=erasure.project_id,
        subject=erasure.subject_id,
        subject_ref=subject_ref(erasure),
        scope=erasure.scope,
        reason=erasure.reason,
        ticket=erasure.ticket,
        targets=targets,
        at=clock.now(),
        **more,
    )
