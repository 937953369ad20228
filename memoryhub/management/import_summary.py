"""What an import came to: as a table, as JSON, as an exit code."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from memoryhub.kernel.formats.records import Bad
from memoryhub.services.imports.imports import Counts

COMPLETE, STOPPED, NOTHING, COMPLETE_BUT = 0, 1, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One import, once it is over."""

    file: str
    format: str
    complete: bool
    dry_run: bool
    counts: Counts
    read_bytes: int
    took_seconds: float

    @property
    def exit_code(self) -> int:
        if not self.complete:
            return STOPPED
        if self.nothing:
            return NOTHING
        left_out = self.counts.skipped or self.counts.erased
        return COMPLETE_BUT if left_out else COMPLETE

    @property
    def nothing(self) -> bool:
        """Whether the file held nothing that is in now, or was before."""
        counts = self.counts
        return not (counts.runs or counts.present or counts.erased)

    @property
    def slots_per_second(self) -> float:
        return self.counts.slots / max(self.took_seconds, 0.001)

    def plain(self) -> dict[str, Any]:
        """Return JSON values, for programs."""
        counts = {each.name: getattr(self.counts, each.name) for each in fields(Counts)}
        return {
            "file": self.file,
            "format": self.format,
            "complete": self.complete,
            "dry_run": self.dry_run,
            **counts,
            "bytes": self.read_bytes,
            "took_seconds": round(self.took_seconds, 3),
            "slots_per_second": round(self.slots_per_second, 1),
            "exit_code": self.exit_code,
        }

    def table(self) -> str:
        """Return a few lines, for people."""
        counts = self.counts
        rows = {
            "imported": f"{counts.runs:,}",
            "present": f"{counts.present:,}",
            "erased": f"{counts.erased:,}",
            "skipped": f"{counts.skipped:,}",
            "slots": f"{counts.slots:,}",
            "turns": f"{counts.turns:,}",
            "warnings": self._warnings(),
            **self._paging(),
            "took": f"{self.took_seconds:,.1f} s, {self.slots_per_second:,.0f} slots/s",
        }
        lines = [f"{name:<10}{value}" for name, value in rows.items()]
        if self.dry_run:
            lines.append("Nothing was written: this was a dry run.")
        if not self.complete:
            lines.append("Stopped. What came before is in; repeat to go on.")
        return "\n".join(lines)

    def _paging(self) -> dict[str, str]:
        """A row, where paging was simulated."""
        paging = sorted(self.counts.paging.items())
        listed = ", ".join(f"{word} {times:,}" for word, times in paging)
        return {"paging": listed} if listed else {}

    def _warnings(self) -> str:
        warnings = sorted(self.counts.warnings.items())
        listed = ", ".join(f"{code} {times:,}" for code, times in warnings)
        return listed or "0"


def bad_fields(file: str, bad: Bad) -> dict[str, str | int | None]:
    """Return a bad record for the report: its place and code."""
    return {
        "file": file,
        "line": bad.place.line,
        "offset": bad.place.offset,
        "run": bad.run,
        "message": bad.message,
        "code": bad.code,
    }


def bad_line(file: str, bad: Bad) -> str:
    """Describe a bad record: `file:line:offset run=<n> message=<n> code: why`."""
    parts = [f"{file}:{bad.place.line}:{bad.place.offset}"]
    if bad.run is not None:
        parts.append(f"run={bad.run}")
    if bad.message is not None:
        parts.append(f"message={bad.message}")
    return " ".join([*parts, f"{bad.code}: {bad.detail}" if bad.detail else bad.code])
