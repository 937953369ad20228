from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TextIO, cast

from django.core.management.base import CommandParser

from memoryhub.management import start
from memoryhub.management.progress import Progress
from memoryhub.management.terminal import FAILED, REFUSED
from memoryhub.management.terminal import Command as Base
from memoryhub.queries.forget import erasures
from memoryhub.queries.scan.residue import Standing, list_residue
from memoryhub.services.scan import scan_targets, scans
from memoryhub.services.scan.scans import Found, Verdict

#: Places of undeclared hits that are named; there may be as many as there are rows.
NAMED = 20


class Command(Base):
    help = (
        "Look through every file, log and table, and Redis, for what unfinished "
        "erasures, and those of today, must not leave behind. The worker does so once "
        "a night. Nothing that is looked for is ever printed. "
        "Exit 0 when nothing is where it should not be, 1 when something is, 2 when "
        "the scan does not find its own probes or a place does not answer."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--self-test",
            action="store_true",
            help="only find what the scan plants for itself, by every decoder",
        )

    def handle(self, *args: Any, self_test: bool, **options: Any) -> None:
        start.prepare()
        targets = scan_targets.Targets() if self_test else scan_targets.unfinished()
        progress = Progress(
            cast("TextIO", self.stderr._out),  # noqa: SLF001 # to ask it isatty
            total=scans.extent(),
            unit="bytes",
        )
        verdict = scans.scan(
            targets.needles,
            subjects=targets.subjects,
            threads=targets.threads,
            progress=progress.add,
            budget_bytes=None,
        )
        progress.close()
        scans.note(verdict, actor="command")
        self._report(verdict, of=targets.erasures)
        self._end(verdict)

    def _report(self, verdict: Verdict, *, of: int) -> None:
        for name, found in verdict.self_test.items():
            self.stdout.write(f"probe {name}: {'found' if found else 'NOT FOUND'}")
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in verdict.needles.items())
        self.stdout.write(
            f"Looked for {kinds or 'nothing but the probes'} of {of:,} "
            f"erasures in {verdict.scanned_bytes:,} bytes: "
            f"{', '.join(verdict.surfaces)}."
        )
        for line in _lines(verdict.hits):
            self.stdout.write(line)
        declared = ", ".join(each.what for each in list_residue())
        self.stdout.write(f"Declared, whatever was found: {declared}.")

    def _end(self, verdict: Verdict) -> None:
        if verdict.void:
            self.end("scan_void: it did not find its own probes", code=REFUSED)
        if verdict.unreachable:
            places = ", ".join(verdict.unreachable)
            self.end(f"store_away: {places} can't be looked through", code=REFUSED)
        if verdict.undeclared:
            self.end(f"{verdict.undeclared:,} where nothing should be", code=FAILED)
        if found := erasures.count_found():
            self.end(
                f"{found:,} erasures wait, for which a scan had found something: "
                "`forget status` says what each waits for",
                code=FAILED,
            )
        self.say("Nothing is where it should not be.")


def _lines(hits: Iterable[Found]) -> list[str]:
    """What was found where; of the undeclared ones the first places."""
    told = [
        f"{hit.standing}: {hit.kind} in {hit.surface} {hit.place} by {hit.decoder} "
        f"at {hit.at:,}"
        for hit in hits
        if hit.standing is Standing.UNDECLARED
    ]
    declared = [
        f"{hit.standing}: {hit.kind} in {hit.surface} {hit.place} {hit.what}".rstrip()
        for hit in hits
        if hit.standing is not Standing.UNDECLARED
    ]
    return [*told[:NAMED], *list(dict.fromkeys(declared))[:NAMED]]
