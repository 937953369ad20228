"""The progress line of an import: the position in the file and the counts."""

from __future__ import annotations

import shutil
from typing import TextIO

from memoryhub.management.progress import ProgressBar
from memoryhub.services.imports.imports import ImportCounts

_WIDTH = 20


class ImportProgress(ProgressBar):
    """Progress by bytes of the file; without a size, as of stdin, no bar."""

    def __init__(
        self, out: TextIO, *, size_bytes: int | None, counts: ImportCounts
    ) -> None:
        super().__init__(out, total=size_bytes or 1, unit="bytes")
        self.sized = size_bytes is not None
        self.counts = counts

    def render_line(self, took_seconds: float) -> str:
        """Render the line after `took_seconds`."""
        counts = self.counts
        rate = counts.slots / max(took_seconds, 0.001)
        parts = [
            f"{counts.runs:,} runs",
            f"{counts.slots:,} slots",
            f"{counts.present:,} present",
            f"{counts.skipped:,} skipped",
            f"{rate:,.0f} slots/s",
        ]
        if not self.sized:
            return " · ".join([f"{self.done / 1e6:,.1f} MB", *parts])
        left = took_seconds * (self.total - self.done) / max(self.done, 1)
        share = min(self.done / self.total, 1.0)
        return " · ".join([f"{share:4.0%}", *parts, f"{_render_minutes(left)} left"])

    def _draw(self, took_seconds: float) -> None:
        text = self.render_line(took_seconds)
        if not self.out.isatty():
            self.out.write(text + "\n")
        else:
            if self.sized:
                bar = "█" * round(min(self.done / self.total, 1.0) * _WIDTH)
                text = f"{bar:░<{_WIDTH}} {text}"
            # A wrapped line could not be redrawn.
            columns = shutil.get_terminal_size().columns
            self.out.write("\r\x1b[K" + text[: columns - 1])
        self.out.flush()


def _render_minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
