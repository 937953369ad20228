"""Figures: what a benchmark found out, and whether that is what we aim for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from benchmarks.rounds import Sample, Series

Verdict = Literal["met", "not met", "not scored", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Goal of a figure: at least, or at most, so much."""

    least: float | None = None
    most: float | None = None

    def met_by(self, value: float) -> bool:
        above = self.least is None or value >= self.least
        return above and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        if self.least is not None:
            return f"≥ {self.least:g}"
        return f"≤ {self.most:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Line of the table of figures."""

    question: str
    value: float
    unit: str = "×"
    goal: Goal | None = None
    #: Why the goal says nothing here, if so.
    unscored: str = ""
    #: What stands behind the figure: rates, CPU, sizes.
    behind: str = ""
    series: Mapping[str, Series] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        if self.goal is None:
            return ""
        if self.unscored:
            return "not scored"
        return "met" if self.goal.met_by(self.value) else "not met"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Time that a benchmark may take: the full run, or a quick one."""

    quick: bool = False
    #: Another checkout, which some figures are ratios to.
    before: Path | None = None

    @property
    def turn_seconds(self) -> float:
        return 0.5 if self.quick else 2.0

    @property
    def rounds(self) -> int:
        return 3 if self.quick else 5

    def scale(self, size: int) -> int:
        """Return a size for this pace: a tenth for a glance."""
        return size // 10 if self.quick else size


Benchmark = Callable[[Pace], list[Figure]]
Turn = Callable[[], Sample]
