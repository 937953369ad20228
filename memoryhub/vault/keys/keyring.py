"""The KEK ring in force: loaded once per process, checked against both databases.

`prepare` refuses to start with a ring that can not open the stored keys.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Lock

from django.conf import settings
from django.db import connections, transaction
from django.db.models import Count, QuerySet

from memoryhub.errors import KeyMissingError, StartRefusedError
from memoryhub.models.keys import (
    DestroyedKey,
    KekCheck,
    KeyMeta,
    NewestLine,
    OperatorKey,
    ProjectKey,
    SigningKey,
    SubjectKey,
    WebhookKey,
    WrappedKey,
)
from memoryhub.models.projects import Instance
from memoryhub.models.server.clock import clock
from memoryhub.models.server.ids import uuid7
from memoryhub.vault.keys import ring_file
from memoryhub.vault.keys.ring_file import Kek, Ring
from memoryhub.vault.keys.wrapping import KeyPurpose, unwrap, wrap


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedTable:
    """A table of wrapped keys: purpose of the keys, and the field with the owner."""

    model: type[WrappedKey]
    purpose: KeyPurpose
    owner: str

    def get_rows(self) -> QuerySet[WrappedKey]:
        return self.model._default_manager.using("keys")


WRAPPED = (
    WrappedTable(model=ProjectKey, purpose=KeyPurpose.PROJECT, owner="project"),
    WrappedTable(model=SubjectKey, purpose=KeyPurpose.SUBJECT, owner="subject"),
    WrappedTable(model=SigningKey, purpose=KeyPurpose.SIGNING, owner="id"),
    WrappedTable(model=NewestLine, purpose=KeyPurpose.LINE, owner="place"),
    WrappedTable(model=OperatorKey, purpose=KeyPurpose.FACTOR, owner="operator"),
    WrappedTable(model=WebhookKey, purpose=KeyPurpose.WEBHOOK, owner="webhook"),
)
_SENTINEL = b"memoryhub: this is the right KEK"

_lock = Lock()
_held: list[tuple[object, Ring]] = []


def open_ring() -> Ring:
    """Read the ring of `settings.KEK_FILE` anew. Raises StartRefusedError."""
    return ring_file.read(settings.KEK_FILE)


def make_ring(path: Path) -> Ring:
    """Create a first ring with one KEK, and write it to an unused path."""
    made = ring_file.make_ring()
    ring_file.create(path, made)
    return made


def get_ring() -> Ring:
    """Get the process's ring: loaded once, and again only when its file changes.

    A running server thus takes up `keys rotate`. If the file becomes unreadable, the
    server keeps its ring until the next start. Cost: one stat.
    """
    path = settings.KEK_FILE
    with _lock:
        seen = ring_file.get_stamp(path)
        if _held and (seen is None or _held[0][0] == seen):
            return _held[0][1]
        try:
            opened = ring_file.read(path)
        except StartRefusedError:
            if not _held:
                raise
            return _held[0][1]
        _held[:] = [(seen, opened)]
        return opened


def get_kek(kek_id: str) -> Kek:
    """Get a KEK of the process's ring.

    Raises KeyMissingError when the ring lacks it.
    """
    return get_ring().get(kek_id)


def reset() -> None:
    """Drop the loaded ring."""
    with _lock:
        _held.clear()


def prepare(*, empty: bool) -> Ring:
    """Prepare ring and databases for serving, or raise StartRefusedError.

    `empty`: the memory database holds nothing yet. Only then, with an unused keys
    database and the default path, a missing ring is created. Also gives both
    databases the same instance id, once.
    """
    _refuse_one_database()
    unused = empty and not _has_keys()
    if unused and settings.KEK_FILE_IS_DEFAULT and not settings.KEK_FILE.exists():
        # Another process of this instance may start too; then its ring is ours.
        with suppress(FileExistsError):
            make_ring(settings.KEK_FILE)
    opened = open_ring()
    _require_same_instance(unused=unused)
    with transaction.atomic(using="keys"):
        KeyMeta.objects.using("keys").select_for_update().get()
        check(opened, source=settings.KEK_FILE)
        _record_ring(opened, at=clock.now())
    reset()
    return get_ring()


def check(opened: Ring, *, source: Path) -> None:
    """Refuse a ring that can not open the keys of the keys database.

    `source` is the file of the ring, for the message. Raises StartRefusedError:
    kek_wrong when a sentinel does not open, kek_unknown when rows name an id that
    the ring lacks.
    """
    rows = KekCheck.objects.using("keys").all()
    sentinels = {row.kek_id: row for row in rows}
    for kek_id in sorted(sentinels.keys() & opened.keks.keys()):
        if not _is_sentinel(opened.get(kek_id), bytes(sentinels[kek_id].sealed)):
            raise StartRefusedError(
                f"kek_wrong: the key {kek_id} of {source} is not the one "
                "this keys database was sealed with; restore the right ring"
            )
    current = {row.kek_id for row in rows if row.state == KekCheck.State.CURRENT}
    if absent := sorted((current | count_rows_per_kek().keys()) - opened.keks.keys()):
        raise StartRefusedError(
            f"kek_unknown: the keys database needs the key {', '.join(absent)}, which "
            f"{source} lacks; restore the ring that has it"
        )


def count_rows_per_kek() -> dict[str, int]:
    """Count the keys wrapped under each KEK, by KEK id. One query per table."""
    rows: Counter[str] = Counter()
    for table in WRAPPED:
        counted = table.get_rows().values_list("kek_id").annotate(Count("kek_id"))
        rows.update(dict(counted.order_by("kek_id")))
    return dict(rows)


def has_outdated_keys() -> bool:
    """Return whether any key is wrapped under another KEK of the ring than the current.

    At most one query per table, by the index; none while the ring has one KEK.
    """
    others = [each for each in get_ring().ids if each != get_ring().current_id]
    return bool(others) and any(
        table.get_rows().filter(kek_id__in=others).exists() for table in WRAPPED
    )


def is_kek_backed_up() -> bool:
    """Return whether the current KEK has a backup. One query."""
    backed_up = KekCheck.objects.using("keys").filter(backed_up_at__isnull=False)
    return backed_up.filter(kek_id=get_ring().current_id).exists()


def record(kek: Kek, *, at: datetime, retired: bool = False) -> None:
    """Seal a sentinel under a KEK, if the KEK is new to the keys database."""
    sentinel = {
        "sealed": wrap(kek, _SENTINEL, purpose=KeyPurpose.CHECK, owner=kek.id),
        "state": KekCheck.State.RETIRED if retired else KekCheck.State.CURRENT,
        "created_at": at,
        "retired_at": at if retired else None,
    }
    KekCheck.objects.using("keys").get_or_create(kek_id=kek.id, defaults=sentinel)


def _record_ring(opened: Ring, *, at: datetime) -> None:
    for kek_id in opened.ids:
        # An old ring that was restored may hold keys that were removed since.
        record(opened.get(kek_id), at=at, retired=kek_id != opened.current_id)
    KekCheck.objects.using("keys").filter(
        kek_id=opened.current_id, state=KekCheck.State.RETIRED
    ).update(state=KekCheck.State.CURRENT, retired_at=None)


def _is_sentinel(kek: Kek, sealed: bytes) -> bool:
    try:
        return unwrap(kek, sealed, purpose=KeyPurpose.CHECK, owner=kek.id) == _SENTINEL
    except KeyMissingError:
        return False


def _has_keys() -> bool:
    wrapped = any(table.get_rows().exists() for table in WRAPPED)
    checks, destroyed = (
        KekCheck.objects.using("keys"),
        DestroyedKey.objects.using("keys"),
    )
    return wrapped or checks.exists() or destroyed.exists()


def _refuse_one_database() -> None:
    # Compare contents: two addresses can be one server, so names prove nothing.
    with connections["keys"].cursor() as cursor:
        tables = connections["keys"].introspection.table_names(cursor)
    if Instance._meta.db_table in tables:
        raise StartRefusedError(
            "keys_same: DATABASE_URL and KEYS_DATABASE_URL name one database; the "
            "keys need one of their own"
        )


def _require_same_instance(*, unused: bool) -> None:
    meta, instance = KeyMeta.objects.using("keys").first(), Instance.objects.first()
    missing = meta is None or instance is None
    if (missing and not unused) or (meta and instance and meta.instance != instance.id):
        raise StartRefusedError(
            "keys_mismatch: the memory database and the keys database belong to "
            "different instances; restore two that belong together"
        )
    # If a process dies here, the next start completes the step; if two processes start
    # together, the first id counts.
    chosen = instance.id if instance else uuid7()
    kept, _ = KeyMeta.objects.using("keys").get_or_create(
        id=1, defaults={"instance": chosen}
    )
    Instance.objects.get_or_create(
        id=kept.instance, defaults={"created_at": clock.now()}
    )
