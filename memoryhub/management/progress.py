"""A progress line: redrawn on a terminal, a line every 10 s elsewhere."""

from __future__ import annotations

import time
from typing import TextIO

_WIDTH = 30
_REDRAW_SECONDS = 0.1
_LINE_SECONDS = 10.0


class ProgressBar:
    """A counter of work against a total that draws the share, the rate and the time
    left."""

    def __init__(self, out: TextIO, *, total: int, unit: str) -> None:
        self.out = out
        self.total = max(total, 1)
        self.unit = unit
        self.done = 0
        self.began = self.shown = time.monotonic()
        self.every = _REDRAW_SECONDS if out.isatty() else _LINE_SECONDS

    def add(self, amount: int) -> None:
        self.done += amount
        now = time.monotonic()
        if now - self.shown >= self.every:
            self.shown = now
            self._draw(now - self.began)

    def close(self) -> None:
        """Clear the line for the output that follows."""
        if self.out.isatty():
            self.out.write("\r\x1b[K")
            self.out.flush()

    def _draw(self, took_seconds: float) -> None:
        share = min(self.done / self.total, 1.0)
        rate = self.done / max(took_seconds, 0.001)
        left = max(self.total - self.done, 0) / max(rate, 0.001)
        text = (
            f"{share:4.0%} {self.done:,} of {self.total:,} {self.unit} · "
            f"{rate:,.0f}/s · {left:.0f} s left"
        )
        if self.out.isatty():
            bar = "█" * round(share * _WIDTH)
            self.out.write(f"\r\x1b[K{bar:░<{_WIDTH}} {text}")
        else:
            self.out.write(text + "\n")
        self.out.flush()
