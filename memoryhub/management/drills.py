"""Drills: a backup is restored elsewhere, verified, scanned, timed and compared."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from django.db import DatabaseError, connections

from memoryhub.errors import Refusal
from memoryhub.management.backup_copies import (
    BackupPlace,
    BackupUnusableError,
    ScratchHub,
    restore_backup,
)
from memoryhub.models.erasures import Erasure
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread

FORMAT: Final = "memoryhub.drill/1"
#: Commands on the restored instance, in the order of a restore.
STEPS: Final[Mapping[str, Sequence[str]]] = {
    "replay": ("forget", "--replay"),
    "anchor": ("anchor", "--anew"),
    "verify": ("verify", "--all"),
    "contexts": ("verify", "--contexts", "--all"),
    "scan": ("scan",),
}
_OLDER: Final = "Drill the backup before this one, and make a new one now."
#: What an operator does after the step that failed.
ADVICE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "backup": "Mend what the line above names, then drill again.",
        "restore": _OLDER,
        "keys": "Give the backup of this hub's key ring, and its passphrase.",
        "replay": "Give memory, keys and key ring of one hub, and this hub's ledger.",
        "verify": f"Give memory and keys of one time. If they are, {_OLDER.lower()}",
    }
)
#: Most differences, and lines of a step, that a report has.
NAMED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFigures:
    """Counts of a memory database, and the head of each thread's chain."""

    events: int
    #: Number of subjects that are not erased.
    subjects: int
    #: Number of erasures that have ended with a receipt.
    erasures: int
    newest: datetime | None
    #: Seq and hash of the newest event, by thread.
    heads: Mapping[UUID, tuple[int, bytes]]

    def to_json(self) -> dict[str, Any]:
        newest = self.newest.isoformat() if self.newest else None
        return {
            "threads": len(self.heads),
            "events": self.events,
            "subjects": self.subjects,
            "erasures": self.erasures,
            "newest": newest,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillStep:
    """A step that was done: its seconds, and the last lines that its command wrote."""

    name: str
    seconds: float
    passed: bool
    lines: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "seconds": round(self.seconds, 3),
            "passed": self.passed,
            "lines": list(self.lines),
        }


@dataclass(slots=True, kw_only=True)
class DrillReport:
    """Steps of a drill, and figures of the backup, the restored and the live hub."""

    at: datetime
    #: Path, bytes and SHA-256 of each file; none of a backup that was made now.
    files: Sequence[Mapping[str, Any]] = ()
    steps: list[DrillStep] = field(default_factory=list)
    live: HubFigures | None = None
    backup: HubFigures | None = None
    restored: HubFigures | None = None
    #: Bytes of the restored databases.
    restored_bytes: int | None = None
    differences: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        stopped = self.restored is None or not all(each.passed for each in self.steps)
        return not (stopped or self.differences)

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.steps)

    @property
    def missing_events(self) -> int | None:
        """Number of events that the live hub has and the backup lacks."""
        if self.live is None or self.backup is None:
            return None
        return max(0, self.live.events - self.backup.events)

    @property
    def replayed_erasures(self) -> int | None:
        """Number of erasures that the backup lacked and the ledger knew of."""
        if self.backup is None or self.restored is None:
            return None
        return self.restored.erasures - self.backup.erasures

    @property
    def advice(self) -> str | None:
        """Sentence that says what to do; None about a drill that passed."""
        if self.passed:
            return None
        return ADVICE.get(self.steps[-1].name, _OLDER) if self.steps else _OLDER

    def to_json(self) -> dict[str, Any]:
        figures = {
            name: found.to_json() if found else None
            for name, found in (
                ("live", self.live),
                ("backup", self.backup),
                ("restored", self.restored),
            )
        }
        return {
            "format": FORMAT,
            "at": self.at.isoformat(),
            "passed": self.passed,
            "advice": self.advice,
            "seconds": round(self.seconds, 3),
            "files": [*self.files],
            "steps": [each.to_json() for each in self.steps],
            **figures,
            "restored_bytes": self.restored_bytes,
            "replayed_erasures": self.replayed_erasures,
            "missing_events": self.missing_events,
            "differences": self.differences[:NAMED],
            "difference_count": len(self.differences),
        }


@dataclass(slots=True, kw_only=True)
class Drill:
    """A running drill. `say` receives a line for each step and of each command."""

    scratch: ScratchHub
    report: DrillReport
    say: Callable[[str], object]

    @contextmanager
    def time_step(self, name: str) -> Iterator[None]:
        """Time work of this process as a step; a failure is its result.

        The report is then stopped: its last step has not passed.
        """
        self.say(f"{name} …")
        began, reason = time.monotonic(), ""
        try:
            yield
        except (BackupUnusableError, OSError, sqlite3.Error) as failure:
            reason = str(failure)
        except Refusal as refusal:
            reason = refusal.code
        except DatabaseError as failure:
            # The driver's text may hold an address with a password.
            reason = f"the database can't be read ({type(failure).__name__})"
        lines = [reason] if reason else []
        self._note_step(name, began, passed=not reason, lines=lines)

    def restore(self, place: BackupPlace, *, ring: str | None) -> None:
        """Restore the backup and take the steps of a restore, up to the first failure.

        `ring` is a file of `keys backup`, whose passphrase is read from standard input.
        """
        with self.time_step("restore"):
            restore_backup(place, self.scratch, ring=ring is None)
            self.report.backup = self.read_figures()
        steps = {"keys": ("keys", "restore", ring)} if ring else {}
        for name, words in {**steps, **STEPS}.items():
            if not self.report.steps[-1].passed:
                return
            self._run_command(name, words)
        if self.report.steps[-1].passed:
            with self.time_step("compare"):
                self.report.restored = self.read_figures()
                self.report.restored_bytes = self.scratch.measure()

    def compare(self, expected: HubFigures | None = None) -> None:
        """Compare the restored instance with the backup, and with `expected` as well.

        Replayed erasures add events, and never take an event or a thread away.
        """
        found = self.report.restored
        for before in (expected, self.report.backup):
            if before is None or found is None:
                continue
            with self.scratch.connect("default") as alias:
                self.report.differences += list_differences(before, found, alias)

    def read_figures(self) -> HubFigures:
        """Read the figures of the restored memory database."""
        with self.scratch.connect("default") as alias:
            return read_figures(alias)

    def _run_command(self, name: str, words: Sequence[str]) -> None:
        self.say(f"{name} …")
        began, lines = time.monotonic(), deque[str](maxlen=NAMED)
        with subprocess.Popen(  # noqa: S603  # ourselves, as we were called
            [sys.executable, sys.argv[0], *words],
            env=self.scratch.build_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            try:
                for line in filter(None, map(str.strip, process.stdout)):
                    self.say(f"  {line}")
                    lines.append(line)
                process.wait()
            except BaseException:
                process.kill()
                raise
        self._note_step(name, began, passed=process.returncode == 0, lines=lines)

    def _note_step(
        self, name: str, began: float, *, passed: bool, lines: Iterable[str]
    ) -> None:
        seconds = time.monotonic() - began
        step = DrillStep(name=name, seconds=seconds, passed=passed, lines=tuple(lines))
        self.report.steps.append(step)


def read_figures(alias: str) -> HubFigures:
    """Read the figures of a memory database.

    Reads three columns of every thread and counts all events and subjects.
    """
    connection = connections[alias]
    # Threads of a running import do not count, as in `verify`.
    rows = Thread.objects.using(alias).exclude(status=Thread.Status.IMPORTING)
    columns = rows.values_list("id", "head_seq", "head_hash", "last_event_at")
    heads, newest = dict[UUID, tuple[int, bytes]](), None
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET statement_timeout = 0")
        try:
            for thread, seq, digest, at in columns.iterator(chunk_size=2_000):
                heads[thread] = seq, bytes(digest)
                newest = max(newest or at, at)
            events = Event.objects.using(alias).filter(thread__in=rows.order_by())
            count = events.count()
            people = Subject.objects.using(alias).filter(anonymous=False)
            subjects = people.exclude(state=Subject.State.ERASED).count()
            complete = Erasure.objects.using(alias).filter(state=Erasure.State.COMPLETE)
            erasures = complete.count()
        finally:
            if connection.vendor == "postgresql":
                cursor.execute("RESET statement_timeout")
    return HubFigures(
        events=count, subjects=subjects, erasures=erasures, newest=newest, heads=heads
    )


def list_differences(before: HubFigures, after: HubFigures, alias: str) -> list[str]:
    """List what the later figures lack of the earlier ones.

    `alias` names the database of the later figures, whose chains must reach the earlier
    heads. Cost: a query for each thread whose head moved.
    """
    found = list[str]()
    if lacking := before.heads.keys() - after.heads.keys():
        found.append(f"{len(lacking):,} threads are missing")
    if after.events < before.events:
        found.append(f"{before.events - after.events:,} events are missing")
    for thread, head in before.heads.items():
        if thread in lacking or after.heads[thread] == head or not head[0]:
            continue
        rows = Event.objects.using(alias).filter(thread=thread)
        if not rows.filter(seq=head[0], chain=head[1]).exists():
            found.append(f"thread {thread} does not reach event {head[0]:,}")
    return found
