"""KEK rotation: add a new KEK, re-wrap every key, retire the old KEK.

Only the wrapping changes: no payload, so no chain. A rotation can stop at any point.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from memoryhub.distribution import PROGRAM
from memoryhub.models.keys import KekCheck, KeyMeta
from memoryhub.vault.keys import keyring, ring_file
from memoryhub.vault.keys.ring_file import RingRefusedError
from memoryhub.vault.keys.wrapping import unwrap, wrap

BATCH_ROWS = 1_000


def begin(*, at: datetime) -> tuple[str, bool]:
    """Put a new current KEK into the ring; return its id and whether it is new.

    An interrupted rotation is resumed, without a second new KEK.
    """
    with transaction.atomic(using="keys"):
        # Two rotations at once would each write a ring without the other's key.
        KeyMeta.objects.using("keys").select_for_update().get(id=1)
        ring = keyring.open_ring()
        keyring.check(ring, source=settings.KEK_FILE)
        keyring.record(ring.current, at=at)
        if count_remaining() or _list_outgoing(ring.current_id):
            return ring.current_id, False
        ring = ring.add_kek(ring_file.make_kek())
        # Write the file first: a row never names a key that is not on disk.
        ring_file.replace(settings.KEK_FILE, ring)
        keyring.record(ring.current, at=at)
    return ring.current_id, True


def count_remaining() -> int:
    """Count keys wrapped under another KEK than the current. One query per table."""
    rows = keyring.count_rows_per_kek()
    return sum(rows.values()) - rows.get(keyring.get_ring().current_id, 0)


def step(*, limit: int = BATCH_ROWS) -> int:
    """Re-wrap up to `limit` keys in one transaction; return their number, 0 at end."""
    for table in keyring.WRAPPED:
        if done := _rewrap_table(table, limit):
            return done
    return 0


def finish(*, at: datetime) -> list[str]:
    """Mark each replaced KEK as retired; return the ids of these KEKs.

    A KEK that a row still uses stays: a server without the new ring wrapped a key
    under it meanwhile. Re-wrap and finish again.
    """
    with transaction.atomic(using="keys"):
        KeyMeta.objects.using("keys").select_for_update().get(id=1)
        used = keyring.count_rows_per_kek()
        replaced = [
            i for i in _list_outgoing(keyring.get_ring().current_id) if i not in used
        ]
        KekCheck.objects.using("keys").filter(kek_id__in=replaced).update(
            state=KekCheck.State.RETIRED, retired_at=at
        )
    return replaced


def retire(kek_id: str, *, at: datetime) -> None:
    """Take a retired KEK out of the ring for good.

    Raises RingRefusedError while the KEK is current, a row uses the KEK, or a backup of
    the keys database may still need it.
    """
    with transaction.atomic(using="keys"):
        KeyMeta.objects.using("keys").select_for_update().get(id=1)
        ring = keyring.open_ring()
        row = KekCheck.objects.using("keys").filter(kek_id=kek_id).first()
        if row is None and kek_id not in ring.keks:
            raise RingRefusedError(f"kek_unknown: there is no key {kek_id}")
        if kek_id == ring.current_id:
            raise RingRefusedError(
                f"kek_in_use: {kek_id} is the current key; run `{PROGRAM} keys rotate`"
            )
        if rows := keyring.count_rows_per_kek().get(kek_id):
            raise RingRefusedError(
                f"kek_in_use: {rows} wrapped keys need {kek_id}; run "
                f"`{PROGRAM} keys rotate`"
            )
        if row is not None:
            _refuse_within_window(row, at=at)
        if kek_id in ring.keks:
            ring_file.replace(settings.KEK_FILE, ring.remove_kek(kek_id))
        KekCheck.objects.using("keys").filter(kek_id=kek_id).delete()


def compute_retirable_at(row: KekCheck) -> datetime | None:
    """Return the instant after which no backup needs a KEK; None if not retired."""
    if row.retired_at is None:
        return None
    return row.retired_at + timedelta(days=settings.KEYS_BACKUP_DAYS)


def _refuse_within_window(row: KekCheck, *, at: datetime) -> None:
    due = compute_retirable_at(row)
    if due is None:
        raise RingRefusedError(
            f"kek_in_use: {row.kek_id} is not retired; run `{PROGRAM} keys rotate`"
        )
    if at < due:
        raise RingRefusedError(
            f"kek_window: backups of the keys database may need {row.kek_id} until "
            f"{due:%Y-%m-%d %H:%M} UTC; retire it after that"
        )


def _list_outgoing(current_id: str) -> list[str]:
    checks = KekCheck.objects.using("keys").exclude(kek_id=current_id)
    outgoing = checks.filter(state=KekCheck.State.CURRENT)
    return sorted(outgoing.values_list("kek_id", flat=True))


def _rewrap_table(table: keyring.WrappedTable, limit: int) -> int:
    ring = keyring.get_ring()
    others = [kek_id for kek_id in ring.ids if kek_id != ring.current_id]
    with transaction.atomic(using="keys"):
        rows = table.get_rows().filter(kek_id__in=others)
        batch = list(rows.select_for_update()[:limit])
        for row in batch:
            owner, wrapped = getattr(row, table.owner), bytes(row.wrapped)
            key = unwrap(
                ring.get(row.kek_id), wrapped, purpose=table.purpose, owner=owner
            )
            again = wrap(ring.current, key, purpose=table.purpose, owner=owner)
            # Update, never insert: a key destroyed meanwhile stays destroyed.
            table.get_rows().filter(pk=row.pk).update(
                kek_id=ring.current_id, wrapped=again
            )
    return len(batch)
