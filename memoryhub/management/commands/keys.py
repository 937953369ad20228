from __future__ import annotations

import argparse
import getpass
import sys
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error, connections

from memoryhub.distribution import PROGRAM
from memoryhub.errors import ClockSkewError, StartRefusedError
from memoryhub.management import noting
from memoryhub.models.keys import DestroyedKey, KekCheck, KeyMeta
from memoryhub.models.server.clock import clock
from memoryhub.vault.keys import backup, keyring, ring_file, rotation
from memoryhub.vault.keys.ring_file import RingRefusedError
from memoryhub.workers import heartbeats

ABOUT: Final = """\
Care for the key ring: the file of key-encryption keys (KEKs) that opens
everything this instance remembers.

Content is sealed under a key per subject; those keys lie in the keys database,
wrapped under the ring's current KEK. The ring itself is in no database: it is
MEMORYHUB_KEK_FILE, by default kek.json in the data folder. Whoever has the ring
and both databases can read everything; whoever loses the ring can read nothing.
So make a backup, and keep it apart from the backups of the databases."""

ABOUT_STATUS: Final = """\
Show the ring's keys: which one is current, how many wrapped keys each holds, when
it was backed up and when a retired one may go. Prints no key. Exit code 1 when
something needs you."""

ABOUT_BACKUP: Final = """\
Write the ring, sealed under a passphrase, to a new file. The passphrase, of 12
characters or more, is asked for, or read from the first line of stdin. It can not
be recovered: a backup without its passphrase is worth nothing. Make a new backup
after each rotation."""

ABOUT_RESTORE: Final = """\
Put the ring of a backup in its place. Never over a ring that exists: move that
one away first. A backup that can not open this keys database is refused, and
nothing is written."""

ABOUT_ROTATE: Final = """\
Add a new KEK to the ring, make it the current one and re-wrap every key under it,
1,000 at a time. No content is touched. Servers may go on running. Stopped
anywhere, the same command goes on. With several hosts, copy the changed ring file
to each of them. The old KEK stays in the ring, retired, for older backups of the
keys database; `keys retire` removes it later."""

ABOUT_RETIRE: Final = """\
Remove a retired KEK from the ring for good. Refused while a wrapped key uses it,
or while a backup of the keys database may still need it
(MEMORYHUB_KEYS_BACKUP_DAYS after its retirement)."""


class Command(BaseCommand):
    help = ABOUT
    requires_system_checks = []

    def create_parser(
        self, prog_name: str, subcommand: str, **kwargs: Any
    ) -> CommandParser:
        kwargs["formatter_class"] = argparse.RawDescriptionHelpFormatter
        return super().create_parser(prog_name, subcommand, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

        def add(name: str, short: str, about: str) -> argparse.ArgumentParser:
            return actions.add_parser(
                name,
                help=short,
                description=about,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )

        add("status", "show the ring's keys and what needs doing", ABOUT_STATUS)
        saving = add("backup", "write the ring under a passphrase", ABOUT_BACKUP)
        saving.add_argument("file", type=Path, help="a file that does not exist yet")
        restoring = add("restore", "put a backup of the ring in place", ABOUT_RESTORE)
        restoring.add_argument("file", type=Path, help="what `keys backup` wrote")
        add("rotate", "start using a new key, or go on with that", ABOUT_ROTATE)
        retiring = add("retire", "remove a key that is not needed", ABOUT_RETIRE)
        retiring.add_argument("id", help="the key's id, as `keys status` shows it")

    def handle(self, *_: Any, action: str, **options: Any) -> None:
        try:
            if action == "restore":
                self._restore_ring(options["file"])
                return
            ring = keyring.open_ring()
            _refuse_unstarted()
            if action == "status":
                self._print_status(ring)
            elif action == "backup":
                self._write_backup(ring, options["file"])
            elif action == "rotate":
                self._rotate_ring()
            else:
                self._retire_key(options["id"])
        except StartRefusedError as refused:
            raise CommandError(refused.reason, returncode=2) from None
        except RingRefusedError as refused:
            raise CommandError(refused.reason) from None

    def _print_status(self, ring: ring_file.Ring) -> None:
        checks = {row.kek_id: row for row in KekCheck.objects.using("keys").all()}
        rows = keyring.count_rows_per_kek()
        line = "{:<9} {:<8} {:>12}  {:<17} {:<17} {}"
        self.stdout.write(f"Key ring {settings.KEK_FILE}\n")
        heads = ("key", "state", "wrapped keys", "made", "backed up", "may go")
        self.stdout.write(line.format(*heads))
        for kek_id in sorted(checks.keys() | set(ring.ids)):
            row = checks.get(kek_id)
            self.stdout.write(
                line.format(
                    kek_id,
                    _describe_state(kek_id, row, ring),
                    f"{rows.get(kek_id, 0):,}",
                    _render_moment(row.created_at if row else None),
                    _render_moment(row.backed_up_at if row else None, never="never"),
                    _render_moment(rotation.compute_retirable_at(row) if row else None),
                ).rstrip()
            )
        destroyed = DestroyedKey.objects.using("keys").count()
        self.stdout.write(f"Destroyed subject keys: {destroyed:,}\n")
        self._print_verdict(ring, checks)

    def _print_verdict(self, ring: ring_file.Ring, checks: dict[str, KekCheck]) -> None:
        keyring.check(ring, source=settings.KEK_FILE)
        wrong = []
        row = checks.get(ring.current_id)
        if row is None or row.backed_up_at is None:
            wrong.append(
                f"No backup holds the current key: `{PROGRAM} keys backup FILE`."
            )
        if left := rotation.count_remaining():
            wrong.append(
                f"{left:,} wrapped keys are not under the current key: "
                f"`{PROGRAM} keys rotate`."
            )
        if wrong:
            raise CommandError("\n".join(wrong))
        self.stdout.write("All is well.")

    def _write_backup(self, ring: ring_file.Ring, file: Path) -> None:
        if file.exists():
            raise CommandError(f"{file} exists; a backup is never written over a file.")
        passphrase = _read_passphrase(twice=True)
        data = backup.seal_ring(ring, passphrase=passphrase)
        try:
            ring_file.write_new(file, data)
            written = file.read_bytes()
        except OSError as error:
            raise CommandError(
                f"{file} can not be written: {error.strerror}."
            ) from None
        # Read the file back before the backup is recorded.
        if backup.open_ring(written, passphrase=passphrase) != ring:
            raise CommandError(f"{file} does not hold what was written to it.")
        backup.record(ring, at=clock.now())
        self._note_action("kek.backed_up", ring.current_id)
        self.stdout.write(
            f"Wrote {_render_count(len(ring.ids))} to {file} and read it back. "
            "Keep the file and the passphrase apart from each other and from the "
            "databases."
        )

    def _restore_ring(self, file: Path) -> None:
        place = settings.KEK_FILE
        if place.exists():
            raise CommandError(f"There is a ring at {place}. Move it away first.")
        try:
            data = file.read_bytes()
        except OSError as error:
            raise CommandError(f"{file} can not be read: {error.strerror}.") from None
        ring = backup.open_ring(data, passphrase=_read_passphrase(twice=False))
        if _has_tables():
            keyring.check(ring, source=file)
        try:
            ring_file.create(place, ring)
        except OSError as error:
            raise CommandError(f"{place} can not be made: {error.strerror}.") from None
        if _has_tables():
            self._note_action("kek.restored", ring.current_id)
        self.stdout.write(
            f"Restored {_render_count(len(ring.ids))} to {place}; "
            f"{ring.current_id} is current."
        )

    def _rotate_ring(self) -> None:
        kek_id, fresh = rotation.begin(at=clock.now())
        if fresh:
            self._note_action("kek.made", kek_id)
        self.stdout.write(f"{'Rotating' if fresh else 'Going on'} to key {kek_id}.")
        try:
            done = self._rewrap_keys()
        except KeyboardInterrupt:
            raise CommandError(
                f"Stopped between two batches; `{PROGRAM} keys rotate` goes on.",
                returncode=130,
            ) from None
        for old in rotation.finish(at=clock.now()):
            self._note_action("kek.rotated", old, count=done)
            self.stdout.write(
                f"Key {old} is retired; `{PROGRAM} keys retire {old}` removes it in "
                f"{settings.KEYS_BACKUP_DAYS} days."
            )
        self.stdout.write(
            f"Re-wrapped {_render_count(done)}. The ring has changed, so make a new "
            f"backup: `{PROGRAM} keys backup FILE`."
        )

    def _note_action(self, action: str, kek_id: str, *, count: int = 0) -> None:
        noting.note(self, action, target_kind="kek", target_id=kek_id, count=count)

    def _rewrap_keys(self) -> int:
        total, done = rotation.count_remaining(), 0
        while batch := rotation.step():
            done += batch
            if self.stderr.isatty():
                self.stderr.write(f"\r{done:,} of {total:,} keys", ending="")
        if done and self.stderr.isatty():
            self.stderr.write("")
        return done

    def _retire_key(self, kek_id: str) -> None:
        _refuse_skewed()
        rotation.retire(kek_id, at=clock.now())
        self._note_action("kek.retired", kek_id)
        self.stdout.write(
            f"Key {kek_id} is out of the ring. Older backups of the ring still hold it."
        )


def _read_passphrase(*, twice: bool) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    first = getpass.getpass("Passphrase: ")
    if twice and getpass.getpass("Once more: ") != first:
        raise CommandError("The two passphrases differ; nothing was written.")
    return first


def _has_tables() -> bool:
    with connections["keys"].cursor() as cursor:
        tables = connections["keys"].introspection.table_names(cursor)
    return KeyMeta._meta.db_table in tables


def _refuse_unstarted() -> None:
    if not _has_tables() or not KeyMeta.objects.using("keys").exists():
        raise CommandError(
            "This instance was never started, so there are no keys to care for. "
            f"Run `{PROGRAM} serve` once."
        )


def _refuse_skewed() -> None:
    """Refuse if the clock is wrong: a clock ahead would retire keys that backups still
    need."""
    try:
        heartbeats.compare()
        clock.require_true()
    except ClockSkewError as refusal:
        raise CommandError(f"{refusal.code}: {refusal.message}") from None
    except Error:
        raise CommandError(
            "The memory database does not answer, so nothing tells whether this "
            "machine's clock is right."
        ) from None


def _describe_state(kek_id: str, row: KekCheck | None, ring: ring_file.Ring) -> str:
    if kek_id == ring.current_id:
        return "current"
    if row is None:
        return "unknown"
    return "leaving" if row.state == KekCheck.State.CURRENT else row.state


def _render_count(count: int) -> str:
    return "1 key" if count == 1 else f"{count:,} keys"


def _render_moment(at: datetime | None, *, never: str = "–") -> str:
    return f"{at:%Y-%m-%d %H:%M}" if at else never
