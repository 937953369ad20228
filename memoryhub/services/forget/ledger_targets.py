"""What the ledger's lines say of their erasures: what goes, in ids and digests alone.

In so few words that a restored database has it too; and of what it may not have, what
nobody may ever use again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings

from memoryhub.errors import ProjectDeletedError
from memoryhub.models.erasures import Erasure, Tombstone
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.vault.keys import blind_index, keys
from memoryhub.vault.proof.ledger import Line


def targets(erasure: Erasure) -> list[Any]:
    """List what of the subject goes, in words that a restored database has too.

    And what it may not have: the digest of a thread's name; of a whole person those of
    all threads that a backup might not know.
    """
    if erasure.scope == Erasure.Scope.THREAD:
        return [_thread(erasure), _name_digest(erasure).hex()]
    if erasure.scope == Erasure.Scope.RECORD:
        return [str(erasure.thread_id), erasure.seq]
    if erasure.scope == Erasure.Scope.BEFORE:
        assert erasure.before is not None
        return [erasure.before.isoformat(timespec="microseconds")]
    return [digest.hex() for digest in _new_names(erasure)]


def _new_names(erasure: Erasure) -> Iterator[bytes]:
    """Find digests of threads younger than the oldest backup that may be restored.

    One query. The others come back with any backup, and are erased by what they hold.
    """
    # By their ids, which begin with the time: one that was imported is as old as it was
    # elsewhere. A day more, for what was on its way in while the backup was taken.
    since = clock.now() - timedelta(days=settings.BACKUP_DAYS + 1)
    oldest = UUID(int=int(since.timestamp() * 1_000) << 80)
    threads = Thread.objects.filter(subject=erasure.subject_id, id__gte=oldest)
    # What is on its way in has a name that nobody has been told.
    threads = threads.exclude(status=Thread.Status.IMPORTING).order_by("id")
    try:
        project = keys.project_key(erasure.project_id)
    except ProjectDeletedError:
        # Nothing is ever named there again.
        return
    for name in threads.values_list("name", flat=True).iterator():
        if name.startswith("~"):
            yield bytes.fromhex(name.split("~")[1])
        else:
            yield blind_index.thread_name(project, name)


def _thread(erasure: Erasure) -> str:
    """Return its id, also where a restore has left no row of it."""
    if erasure.thread_id is not None:
        return str(erasure.thread_id)
    return str(orjson.loads(erasure.targets)["heads"][0][0])


def _name_digest(erasure: Erasure) -> bytes:
    """Find the digest of its thread's name, dead though no database knows it."""
    name = "" if erasure.thread is None else erasure.thread.name
    if name.startswith("~"):
        return bytes.fromhex(name.split("~")[1])
    if name:
        project = keys.project_key(erasure.project_id)
        return blind_index.thread_name(project, name)
    stones = Tombstone.objects.filter(erasure=erasure, kind=Tombstone.Kind.THREAD)
    return bytes(stones.values_list("digest", flat=True).get())


def name_digest(line: Line) -> bytes | None:
    """Return the digest of its name; of the scope `thread` alone."""
    if line.scope != Erasure.Scope.THREAD or len(line.targets) < 2:
        return None
    return bytes.fromhex(line.targets[1])


def names_digests(line: Line) -> list[bytes]:
    """Return the digests of a subject's names that a backup might not know."""
    if line.scope != Erasure.Scope.SUBJECT:
        return []
    return [bytes.fromhex(digest) for digest in line.targets]


def moment(line: Line) -> datetime:
    """Return the time that the targets of the scope `before` say."""
    return datetime.fromisoformat(line.targets[0])
