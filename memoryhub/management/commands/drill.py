from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, Final, NoReturn

import orjson
from django.core.management.base import CommandParser

from memoryhub import __version__
from memoryhub.distribution import PROGRAM
from memoryhub.management import backup_copies, noting, start
from memoryhub.management.backup_copies import (
    BackupPlace,
    BackupUnusableError,
    ScratchHub,
)
from memoryhub.management.drills import (
    NAMED,
    Drill,
    DrillReport,
    DrillStep,
    HubFigures,
    read_figures,
)
from memoryhub.management.terminal import FAILED, REFUSED, WRONG_USAGE
from memoryhub.management.terminal import Command as Base
from memoryhub.models.server.clock import clock

ABOUT: Final = f"""\
Try whether a backup restores: restore it elsewhere, verify it, scan it, time it.

Without BACKUP the drill makes a backup of this hub first, while its server runs. The
hub itself is only read, and gets one entry in its audit log. The restored hub is a
folder of its own and gone afterwards: the drill erases there what was erased here
since (`forget --replay`), anchors it, runs `verify --all`, `verify --contexts --all`
and `scan`, and compares threads, events and heads of chains with the backup.

  {PROGRAM} drill
  {PROGRAM} drill /backups/2026-11-29 --keys /keys/2026-11-29 --ring ring.json
  {PROGRAM} drill --json > drill.json

BACKUP is a folder with memoryhub.sqlite3 and keys.sqlite3, or on PostgreSQL with
memoryhub.dump and keys.dump of `pg_dump --format=custom`. What else it has is used:
kek.json and cold/; else this hub lends its own. The ledger is this hub's, which
knows of later erasures; only where there is no hub it is the backup's.

On PostgreSQL name two empty databases with --scratch and --scratch-keys. They are
emptied in the end. What is restored passes through their server's log, so take
another server than the hub's.

Exit 0 when the backup restores whole, 1 when a step fails or anything differs, 2 when
the drill can't begin."""

#: Room on the disk that a drill needs, in sizes of the backup: what is restored, and
#: tables that an erasure writes anew.
_ROOM: Final = 2
#: Width of the longest step's bar.
_BAR: Final = 12


class Command(Base):
    help = ABOUT

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("backup", nargs="?", type=Path, help="its folder; default: one made now")
        add("--keys", type=Path, metavar="FOLDER", help="where keys.sqlite3 is instead")
        add(
            "--ring",
            metavar="FILE",
            help="restore this backup of the key ring; its passphrase is asked for, "
            "or read from standard input",
        )
        add(
            "--place",
            type=Path,
            metavar="FOLDER",
            help="restore below this folder (default: the system's temporary one)",
        )
        add("--scratch", metavar="URL", help="an empty database for the memory")
        add("--scratch-keys", metavar="URL", help="an empty database for the keys")
        add("--json", action="store_true", help="report as one JSON object")

    def handle(self, *args: Any, backup: Path | None, **options: Any) -> None:
        start.harden()
        new = start.is_new()
        if backup is None:
            start.require_hub()
        if not new:
            start.refuse_old_formats()
        # Killed, it would leave a copy of all memory behind.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _end_by_signal)
        place = None
        if backup is not None:
            place = BackupPlace(memory=backup, keys=options["keys"] or backup)
        try:
            with TemporaryDirectory(
                prefix="memoryhub-drill-", dir=options["place"]
            ) as folder:
                root = Path(folder)
                self._require_room(root, place, new=new)
                scratch = self._build_scratch(root, options)
                report = self._run_drill(
                    root, scratch, place, ring=options["ring"], new=new
                )
        except BackupUnusableError as unusable:
            self.end(f"The drill can't begin: {unusable}.", code=REFUSED)
        except OSError as failure:
            what = failure.strerror or type(failure).__name__
            self.end(f"The drill stopped: {what} ({failure.filename}).", code=REFUSED)
        if not new:
            outcome = "done" if report.passed else "failed"
            noting.note(self, "drilled", outcome=outcome)
        self._print_report(report, as_json=options["json"])
        if not report.passed:
            sys.exit(FAILED)

    def _build_scratch(self, root: Path, options: dict[str, Any]) -> ScratchHub:
        urls = (options["scratch"], options["scratch_keys"])
        if backup_copies.is_sqlite() == any(urls) or any(urls) != all(urls):
            self.end(
                "--scratch and --scratch-keys name two empty databases of PostgreSQL: "
                "give both where the hub is on PostgreSQL, and none on SQLite.",
                code=WRONG_USAGE,
            )
        named = dict(zip(backup_copies.STEMS, urls, strict=True)) if all(urls) else {}
        scratch = ScratchHub(data=root / "data", urls=named)
        scratch.require_empty()
        return scratch

    def _require_room(
        self, root: Path, place: BackupPlace | None, *, new: bool
    ) -> None:
        """End where the drill would fill the disk, which the hub may write to."""
        if place is None:
            needed = backup_copies.measure_instance() * (_ROOM + 1)
        else:
            needed = sum(each.stat().st_size for each in place.list_files()) * _ROOM
        own = place.memory / "cold" if place else None
        if not new or (own is not None and own.is_dir()):
            needed += backup_copies.measure_cold_storage(own)
        free = shutil.disk_usage(root).free
        if free < needed:
            raise BackupUnusableError(
                f"it needs {needed / 1e6:,.0f} MB and {root.parent} has "
                f"{free / 1e6:,.0f}; --place names another folder"
            )

    def _run_drill(
        self,
        root: Path,
        scratch: ScratchHub,
        place: BackupPlace | None,
        *,
        ring: str | None,
        new: bool,
    ) -> DrillReport:
        live: HubFigures | None = None if new else read_figures("default")
        files = place.describe_files() if place else ()
        report = DrillReport(at=clock.now(), live=live, files=files)
        drill = Drill(scratch=scratch, report=report, say=self.say)
        made = place is None
        try:
            if place is None:
                with drill.time_step("backup"):
                    place = backup_copies.make_backup(root / "backup")
            if place is not None:
                drill.restore(place, ring=ring)
                # What was read before the copy was made must be in the copy.
                drill.compare(live if made else None)
        finally:
            scratch.empty()
        return report

    def _print_report(self, report: DrillReport, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(orjson.dumps(report.to_json()).decode())
            return
        self.stdout.write(
            f"Drill of {report.at:%Y-%m-%d %H:%M:%S} UTC by MemoryHub {__version__}"
        )
        for line in _render_files(report.files):
            self.stdout.write(line)
        for line in _render_steps(report.steps):
            self.stdout.write(line)
        for name in ("live", "backup", "restored"):
            if found := getattr(report, name):
                self.stdout.write(f"{name:<9}{_render_figures(found)}")
        if report.restored_bytes is not None:
            self.stdout.write(
                f"         {report.restored_bytes:,} bytes of databases; "
                f"{report.replayed_erasures:,} erasures replayed"
            )
        if report.missing_events is not None:
            self.stdout.write(
                f"A restore of this backup would lose {report.missing_events:,} events."
            )
        for difference in report.differences[:NAMED]:
            self.stdout.write(f"differs  {difference}")
        verdict = "restores whole" if report.passed else "does NOT restore whole"
        self.stdout.write(f"The backup {verdict}, in {report.seconds:,.1f} s.")
        if report.advice:
            self.stdout.write(report.advice)


def _render_files(files: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not files:
        yield "file     none: a backup made now"
    for file in files:
        yield f"file     {file['path']}, {file['bytes']:,} bytes"
        yield f"         SHA-256 {file['sha256']}"


def _render_steps(steps: Sequence[DrillStep]) -> Iterator[str]:
    """Render a step a line: its seconds, a bar of them, and what it said last."""
    longest = max((step.seconds for step in steps), default=0) or 1
    for step in steps:
        bar = "█" * round(step.seconds / longest * _BAR)
        # A replay ends in what is out of reach; how many it erased stands below.
        result = "" if step.name == "replay" else " ".join(step.lines[-1:])
        if not step.passed:
            result = f"FAILED: {' '.join(step.lines[-1:])}"
        line = f"{step.name:<9}{step.seconds:>9.2f} s {bar:<{_BAR}} {result}"
        yield line.rstrip()


def _render_figures(found: HubFigures) -> str:
    counts = (
        f"{len(found.heads):,} threads, {found.events:,} events, "
        f"{found.subjects:,} subjects"
    )
    if found.newest is None:
        return counts
    return f"{counts}, the newest of {found.newest:%Y-%m-%d %H:%M:%S} UTC"


def _end_by_signal(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
