"""The ledger beside the databases: what both have applied of it, and what they lack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from threading import Lock
from typing import Any, Final
from uuid import UUID

import orjson
from django.db import transaction

from memoryhub import journal
from memoryhub.errors import LedgerBrokenError, LedgerUnwritableError, StartRefusedError
from memoryhub.models.clock import clock
from memoryhub.models.erasures import Erasure, Receipt, Tombstone
from memoryhub.models.keys import DestroyedKey, KeyMeta
from memoryhub.models.projects import Instance, Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.vault import blind_index, keys, ledger, receipts
from memoryhub.vault.ledger import Kind, Line

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
            if line.erasure == erasure.id and line.kind is Kind.INTENT:
                return line
        return _append(erasure, Kind.INTENT)


def close(erasure: Erasure, receipt: Receipt) -> Line:
    """Say that it is complete; the same line if it says so of this receipt already.

    Of what was complete before a restore it says `replayed`.
    """
    digest, kind = receipts.digest(receipt.text), Kind.DONE
    with _SAYING:
        for line in ledger.lines():
            if line.erasure == erasure.id and line.kind is not Kind.INTENT:
                if line.receipt_sha256 == digest:
                    return line
                kind = Kind.REPLAYED
        return _closed(erasure, kind, digest)


def repeat(erasure: Erasure) -> Line:
    """Say that what has its receipt since before a restore was erased once more."""
    receipt = Receipt.objects.get(erasure=erasure, n=0)
    return _closed(erasure, Kind.REPLAYED, receipts.digest(receipt.text))


def newest(erasure: UUID) -> Line | None:
    """The last thing the ledger says of an erasure."""
    said = [line for line in ledger.lines() if line.erasure == erasure]
    return said[-1] if said else None


def apply(line: Line) -> None:
    """Note in both databases that this line is applied; part of the fence.

    The keys database follows by itself: nobody can commit to both at once.
    """
    with transaction.atomic():
        Instance.objects.filter(ledger_n__lt=line.n).update(
            ledger_n=line.n, ledger_hash=line.hash
        )
    KeyMeta.objects.using("keys").filter(ledger_n__lt=line.n).update(ledger_n=line.n)


def subject_ref(erasure: Erasure) -> bytes | None:
    """The digest of the subject's user id, also once only her tombstone has it."""
    if erasure.subject.subject_ref is not None:
        return bytes(erasure.subject.subject_ref)
    rows = Tombstone.objects.filter(
        subject=erasure.subject_id, kind=Tombstone.Kind.SUBJECT
    )
    found = rows.values_list("digest", flat=True).first()
    return None if found is None else bytes(found)


def targets(erasure: Erasure) -> list[Any]:
    """What of the subject goes, in so few words that a restored database has it too."""
    if erasure.scope == Erasure.Scope.THREAD:
        return [_thread(erasure), _name_digest(erasure).hex()]
    if erasure.scope == Erasure.Scope.RECORD:
        return [str(erasure.thread_id), erasure.seq]
    if erasure.scope == Erasure.Scope.BEFORE:
        assert erasure.before is not None
        return [erasure.before.isoformat(timespec="microseconds")]
    return []


def _thread(erasure: Erasure) -> str:
    """Its id, also where a restore has left no row of it."""
    if erasure.thread_id is not None:
        return str(erasure.thread_id)
    return str(orjson.loads(erasure.targets)["heads"][0][0])


def _name_digest(erasure: Erasure) -> bytes:
    """Of the name of its thread, which stays dead though no database knows it."""
    name = "" if erasure.thread is None else erasure.thread.name
    if name.startswith("~"):
        return bytes.fromhex(name.split("~")[1])
    if name:
        project = keys.project_key(erasure.project_id)
        return blind_index.thread_name(project, name)
    stones = Tombstone.objects.filter(erasure=erasure, kind=Tombstone.Kind.THREAD)
    return bytes(stones.values_list("digest", flat=True).get())


def name_digest(line: Line) -> bytes | None:
    """Of the scope `thread`: the digest of its name."""
    if line.scope != Erasure.Scope.THREAD or len(line.targets) < 2:
        return None
    return bytes.fromhex(line.targets[1])


def moment(line: Line) -> datetime:
    """Of the scope `before`: the time that its targets say."""
    return datetime.fromisoformat(line.targets[0])


def compare() -> Standing:
    """Walk the ledger and look up what it says in both databases.

    Eight queries for every five hundred erasures. Raises StartRefusedError when the
    ledger can't be written, is not ours, or lacks what the databases have applied.
    """
    try:
        ledger.refuse_unwritable()
        ledger.recover()
        _refuse_behind(ledger.check())
        intents = {
            line.erasure: line for line in ledger.lines() if line.kind is Kind.INTENT
        }
    except LedgerUnwritableError:
        raise StartRefusedError(
            f"ledger_unwritable: {ledger.path()} can not be written, so nothing could "
            "be erased; see to its rights and its disk"
        ) from None
    except LedgerBrokenError as broken:
        what = broken.detail.get("file") or f"line {broken.detail['n']} of it"
        raise StartRefusedError(
            f"ledger_broken: the ledger {ledger.path()} is not as this instance wrote "
            f"it ({what}); put back its last good copy"
        ) from None
    resumed: list[Line] = []
    replayed: list[Line] = []
    for some in _in_batches(_needed(list(intents.values()))):
        _sort(some, resumed, replayed)
    for some in _in_batches(list(intents.values())):
        replayed.extend(unheard(some))
    replayed.sort(key=lambda line: line.n)
    return Standing(resumed=tuple(resumed), replayed=tuple(replayed))


def _needed(lines: Sequence[Line]) -> list[Line]:
    """Those that are not part of a later one: who goes whole takes all along."""
    gone = {line.subject for line in lines if line.scope == Erasure.Scope.SUBJECT}
    return [
        line
        for line in lines
        if line.scope == Erasure.Scope.SUBJECT or line.subject not in gone
    ]


def _sort(some: Sequence[Line], resumed: list[Line], replayed: list[Line]) -> None:
    rows = Erasure.objects.filter(id__in=[line.erasure for line in some])
    states: Mapping[UUID, str] = dict(rows.values_list("id", "state"))
    gone = DestroyedKey.objects.using("keys")
    subjects = [line.subject for line in some]
    destroyed = set(gone.filter(subject__in=subjects).values_list("subject", flat=True))
    unknown: list[Line] = []
    for line in some:
        state = states.get(line.erasure)
        whole = line.scope == Erasure.Scope.SUBJECT
        if state is None:
            unknown.append(line)
        elif state in UNFENCED:
            resumed.append(line)
        elif whole and state in KEYLESS and line.subject not in destroyed:
            # The keys database alone was restored: her key has come back.
            replayed.append(line)
    replayed.extend(_reachable(unknown))
    replayed.sort(key=lambda line: line.n)


def _reachable(lines: Sequence[Line]) -> Iterator[Line]:
    """Those that there is something to do for: what they are about may be unknown too.

    A subject who is unknown still needs her tombstone; a record or a thread does not.
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
    """Those of threads that are unknown here, whose names are not dead yet.

    Made and erased since the backup: nothing of them is left but that. Four queries.
    """
    digests = {line.erasure: name_digest(line) for line in lines}
    named = [line for line in lines if digests[line.erasure]]
    stones = Tombstone.objects.filter(digest__in=[*filter(None, digests.values())])
    stones = stones.filter(kind=Tombstone.Kind.THREAD)
    places = stones.values_list("project", "digest")
    dead = {(project, bytes(digest)) for project, digest in places}
    threads = Thread.objects.filter(id__in=[line.targets[0] for line in named])
    known = {str(thread) for thread in threads.values_list("id", flat=True)}
    rows = Erasure.objects.filter(id__in=[line.erasure for line in named])
    known |= {str(row) for row in rows.values_list("id", flat=True)}
    tenants = Project.objects.filter(id__in=[line.project for line in named])
    projects = set(tenants.values_list("id", flat=True))
    return [
        line
        for line in named
        if line.project in projects
        and not known & {line.targets[0], str(line.erasure)}
        and (line.project, digests[line.erasure]) not in dead
    ]


def _live(threads: Sequence[str]) -> set[str]:
    """Those that are here and not erased."""
    rows = Thread.objects.filter(id__in=threads).exclude(status=Thread.Status.ERASED)
    return {str(thread) for thread in rows.values_list("id", flat=True)}


def _refuse_behind(newest: Line | None) -> None:
    applied, digest = Instance.objects.values_list("ledger_n", "ledger_hash").get()
    known = KeyMeta.objects.using("keys").values_list("ledger_n", flat=True).get()
    last = newest.n if newest else 0
    if last < max(applied, known):
        raise StartRefusedError(
            f"ledger_behind: the databases have applied line {max(applied, known)} of "
            f"the ledger, but {ledger.path()} ends at {last}; put back its longest copy"
        )
    if applied and next(ledger.lines(after=applied - 1)).hash != bytes(digest):
        raise LedgerBrokenError(n=applied)


def _in_batches(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    for start in range(0, len(lines), _AT_ONCE):
        yield lines[start : start + _AT_ONCE]


def _closed(erasure: Erasure, kind: Kind, digest: bytes) -> Line:
    line = _append(erasure, kind, receipt_sha256=digest)
    journal.run(partial(apply, line))
    return line


def _append(erasure: Erasure, kind: Kind, **more: Any) -> Line:
    return ledger.append(
        kind=kind,
        erasure=erasure.id,
        project=erasure.project_id,
        subject=erasure.subject_id,
        subject_ref=subject_ref(erasure),
        scope=erasure.scope,
        reason=erasure.reason,
        targets=targets(erasure),
        at=clock.now(),
        **more,
    )
