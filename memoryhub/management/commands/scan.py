from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TextIO, cast

from django.core.management.base import CommandParser

from memoryhub.management import start
from memoryhub.management.progress import ProgressBar
from memoryhub.management.terminal import FAILED, REFUSED
from memoryhub.management.terminal import Command as Base
from memoryhub.queries.forget import erasures
from memoryhub.queries.scan.residue import list_residue
from memoryhub.services.scan import scan_targets, scans
from memoryhub.services.scan.scans import HitStanding, ScanFinding, ScanResult

#: Most places of hits that are printed; there may be as many as there are rows.
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
        start.prepare_existing()
        targets = (
            scan_targets.ScanTargets()
            if self_test
            else scan_targets.gather_unfinished()
        )
        progress = ProgressBar(
            cast("TextIO", self.stderr._out),  # noqa: SLF001 # to ask it isatty
            total=scans.measure_extent(),
            unit="bytes",
        )
        result, _ = scans.scan_surfaces(
            targets, progress=progress.add, budget_bytes=None
        )
        progress.close()
        scans.audit_scan(result, actor="command")
        self._print_result(result, of=len(targets.by_erasure))
        self._end_with_code(result)

    def _print_result(self, result: ScanResult, *, of: int) -> None:
        for name, found in result.self_test.items():
            self.stdout.write(f"probe {name}: {'found' if found else 'NOT FOUND'}")
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in result.targets.items())
        self.stdout.write(
            f"Looked for {kinds or 'nothing but the probes'} of {of:,} "
            f"erasures in {result.scanned_bytes:,} bytes: "
            f"{', '.join(result.surfaces)}."
        )
        for line in _render_hits(result.hits):
            self.stdout.write(line)
        declared = ", ".join(list_residue())
        self.stdout.write(f"Declared, whatever was found: {declared}.")

    def _end_with_code(self, result: ScanResult) -> None:
        if result.is_void:
            self.end("scan_void: it did not find its own probes", code=REFUSED)
        if result.unreachable:
            places = ", ".join(result.unreachable)
            self.end(f"store_away: {places} can't be looked through", code=REFUSED)
        if result.undeclared:
            self.end(f"{result.undeclared:,} where nothing should be", code=FAILED)
        if found := erasures.count_with_hits():
            self.end(
                f"{found:,} erasures wait, for which a scan had found something: "
                "`forget status` says what each waits for",
                code=FAILED,
            )
        self.say("Nothing is where it should not be.")


def _render_hits(hits: Iterable[ScanFinding]) -> list[str]:
    """Render the hits: first undeclared ones, then each declared place once."""
    undeclared = [
        f"{hit.standing}: {hit.kind} in {hit.surface} {hit.place} by {hit.decoder} "
        f"at {hit.at:,}"
        for hit in hits
        if hit.standing is HitStanding.UNDECLARED
    ]
    lawful = [
        f"{hit.standing}: {hit.kind} in {hit.surface} {hit.place}"
        for hit in hits
        if hit.standing is not HitStanding.UNDECLARED
    ]
    return [*undeclared[:NAMED], *list(dict.fromkeys(lawful))[:NAMED]]
