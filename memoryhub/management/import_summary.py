"""The summary of an import: as a table, as JSON, as an exit code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from typing import Any

from memoryhub.kernel.formats.records import BadRecord
from memoryhub.services.imports.imports import ImportCounts

COMPLETE, STOPPED, NOTHING, COMPLETE_BUT = 0, 1, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The result of an import."""

    file: str
    format: str
    complete: bool
    dry_run: bool
    counts: ImportCounts
    read_bytes: int
    took_seconds: float

    @property
    def exit_code(self) -> int:
        if not self.complete:
            return STOPPED
        if self.is_empty:
            return NOTHING
        left_out = self.counts.skipped or self.counts.erased
        return COMPLETE_BUT if left_out else COMPLETE

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the file was imported, now or before."""
        counts = self.counts
        written = counts.runs or counts.blocks or counts.claims
        return not (written or counts.present or counts.erased)

    @property
    def slots_per_second(self) -> float:
        return self.counts.slots / max(self.took_seconds, 0.001)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, for programs."""
        counts = {
            each.name: getattr(self.counts, each.name) for each in fields(ImportCounts)
        }
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

    def render_table(self) -> str:
        """Render a few lines, for people."""
        counts = self.counts
        rows = {
            "imported": f"{counts.runs:,}",
            "present": self._render_present(),
            "erased": f"{counts.erased:,}",
            "skipped": f"{counts.skipped:,}",
            "slots": f"{counts.slots:,}",
            "turns": f"{counts.turns:,}",
            **self._build_knowledge(),
            "warnings": self._render_codes(counts.warnings) or "0",
            **self._build_optional("paging", counts.paging),
            **self._build_optional("left out", counts.omitted),
            "took": f"{self.took_seconds:,.1f} s, {self.slots_per_second:,.0f} slots/s",
        }
        lines = [f"{name:<10}{value}" for name, value in rows.items()]
        if self.dry_run:
            lines.append("Nothing was written: this was a dry run.")
        if not self.complete:
            lines.append("Stopped. What came before is in; repeat to go on.")
        return "\n".join(lines)

    def _render_present(self) -> str:
        """Render what was there before: threads, then blocks and claims, if any."""
        counts = self.counts
        knowledge = {"blocks": counts.present_blocks, "claims": counts.present_claims}
        threads = counts.present - sum(knowledge.values())
        named = [f"{name} {times:,}" for name, times in knowledge.items() if times]
        return ", ".join([f"{threads:,}", *named])

    def _build_knowledge(self) -> dict[str, str]:
        """Build the rows of blocks and claims, if any were written."""
        counts = {"blocks": self.counts.blocks, "claims": self.counts.claims}
        return {name: f"{times:,}" for name, times in counts.items() if times}

    def _build_optional(self, name: str, counts: Counter[str]) -> dict[str, str]:
        """Build a row of counts, if there are any."""
        listed = self._render_codes(counts)
        return {name: listed} if listed else {}

    def _render_codes(self, counts: Counter[str]) -> str:
        return ", ".join(f"{code} {times:,}" for code, times in sorted(counts.items()))


def build_bad_fields(file: str, bad: BadRecord) -> dict[str, str | int | None]:
    """Build the report's record of a bad record: its place and code."""
    return {
        "file": file,
        "line": bad.place.line,
        "offset": bad.place.offset,
        "run": bad.run,
        "message": bad.message,
        "code": bad.code,
    }


def render_bad_line(file: str, bad: BadRecord) -> str:
    """Render a bad record: `file:line:offset run=<n> message=<n> code: why`."""
    parts = [f"{file}:{bad.place.line}:{bad.place.offset}"]
    if bad.run is not None:
        parts.append(f"run={bad.run}")
    if bad.message is not None:
        parts.append(f"message={bad.message}")
    return " ".join([*parts, f"{bad.code}: {bad.detail}" if bad.detail else bad.code])
