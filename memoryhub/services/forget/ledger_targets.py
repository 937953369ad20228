"""Targets in the ledger's lines: what each erasure removes, in ids and digests alone.

The words identify the same content in a restored database. For content that a backup
may not have, they identify the names that no one may use again.
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
from memoryhub.queries.forget import erasure_targets
from memoryhub.vault.keys import blind_index, keys
from memoryhub.vault.proof.ledger import LedgerLine


def build_targets(erasure: Erasure) -> list[Any]:
    """Build the list of what is erased, in words valid in a restored database too.

    The list includes digests that a backup may lack: of a thread's name, and for a
    whole subject of all threads that a backup might not know.
    """
    if erasure.scope == Erasure.Scope.THREAD:
        return [_get_thread_id(erasure), _get_name_digest(erasure).hex()]
    if erasure.scope == Erasure.Scope.RECORD:
        return [str(erasure.thread_id), erasure.seq]
    if erasure.scope == Erasure.Scope.BEFORE:
        assert erasure.before is not None
        at = erasure.before.isoformat(timespec="microseconds")
        narrowed = [str(erasure.thread_id)] if erasure.thread_id else []
        return [at, erasure_targets.get_clock(erasure), *narrowed]
    return [digest.hex() for digest in _iter_new_name_digests(erasure)]


def _iter_new_name_digests(erasure: Erasure) -> Iterator[bytes]:
    """Iterate over digests of threads younger than the oldest restorable backup.

    One query. Older threads come back with any backup, and are erased by their content.
    """
    # Compare ids, which begin with the time: an imported thread may have an old
    # creation time. One more day covers imports under way during the backup.
    since = clock.now() - timedelta(days=settings.BACKUP_DAYS + 1)
    oldest = UUID(int=int(since.timestamp() * 1_000) << 80)
    threads = Thread.objects.filter(subject=erasure.subject_id, id__gte=oldest)
    # No one has been told the name of a thread that is being imported.
    threads = threads.exclude(status=Thread.Status.IMPORTING).order_by("id")
    try:
        project = keys.get_project_key(erasure.project_id)
    except ProjectDeletedError:
        # No thread is ever named in a deleted project again.
        return
    for name in threads.values_list("name", flat=True).iterator():
        if name.startswith("~"):
            yield bytes.fromhex(name.split("~")[1])
        else:
            yield blind_index.digest_thread_name(project, name)


def _get_thread_id(erasure: Erasure) -> str:
    """Get the id of the erasure's thread, also after a restore removed the row."""
    if erasure.thread_id is not None:
        return str(erasure.thread_id)
    return str(orjson.loads(erasure.targets)["heads"][0][0])


def _get_name_digest(erasure: Erasure) -> bytes:
    """Get the digest of the thread's name, also if no database knows the name."""
    name = "" if erasure.thread is None else erasure.thread.name
    if name.startswith("~"):
        return bytes.fromhex(name.split("~")[1])
    if name:
        project = keys.get_project_key(erasure.project_id)
        return blind_index.digest_thread_name(project, name)
    stones = Tombstone.objects.filter(erasure=erasure, kind=Tombstone.Kind.THREAD)
    return bytes(stones.values_list("digest", flat=True).get())


def parse_name_digest(line: LedgerLine) -> bytes | None:
    """Parse the digest of a thread's name; None for other scopes than `thread`."""
    if line.scope != Erasure.Scope.THREAD or len(line.targets) < 2:
        return None
    return bytes.fromhex(line.targets[1])


def parse_names_digests(line: LedgerLine) -> list[bytes]:
    """Parse the digests of a subject's names that a backup might not know."""
    if line.scope != Erasure.Scope.SUBJECT:
        return []
    return [bytes.fromhex(digest) for digest in line.targets]


def parse_before(line: LedgerLine) -> dict[str, Any]:
    """Parse the fields of a request of the scope `before`; old lines hold the instant.

    One query for a line that names a thread.
    """
    at, *rest = line.targets
    given: dict[str, Any] = {"before": datetime.fromisoformat(at), "clock": "recorded"}
    if rest:
        given["clock"] = rest[0]
    if rest[1:]:
        given["thread"] = Thread.objects.get(id=rest[1])
    return given
