"""Bars: where the tokens of a working set are, in per cent of its room. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memoryhub.queries.paging.eviction_runs import EvictionRun
from memoryhub.queries.paging.residency import Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of a bar, and its line in the legend."""

    name: str
    label: str
    tokens: int
    x: float
    width: float
    #: Said behind the tokens in the legend.
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A working set as one bar: its segments, its thresholds, and what a run is for."""

    segments: tuple[Segment, ...]
    low: int
    low_x: float
    high: int
    high_x: float
    #: Tokens that the run under way comes down to; None when none is.
    aim: int | None = None
    aim_x: float = 0.0


def draw(budget: Budget, run: EvictionRun | None, *, at: int) -> Bar:
    """Draw a budget; `run` is one that is under way at an event, if one is."""
    settings = budget.settings
    whole = max(settings.usable, budget.used, 1)
    freed = sum(each.freed for each in run.up_to(at)) if run else 0
    free = max(0, whole - budget.used)
    ghost = min(freed, free)
    of_all = f"of {run.freed:,}" if run else ""
    sizes = (
        ("pinned", "pinned", budget.explicit, ""),
        ("protected", "held by a rule", _held(budget), ""),
        ("mapped", "free to leave", _loose(budget), ""),
        ("ghost", "freed so far", ghost, of_all),
        ("free", "empty", free - ghost, ""),
    )
    aim = None
    if run is not None and run.newcomer is not None:
        aim = max(0, settings.low - run.newcomer.tokens)
    return Bar(
        segments=stacked(sizes, whole),
        low=settings.low,
        low_x=share(settings.low, whole),
        high=int(settings.high),
        high_x=share(int(settings.high), whole),
        aim=aim,
        aim_x=share(aim or 0, whole),
    )


def _held(budget: Budget) -> int:
    return max(0, budget.pinned - budget.explicit) + budget.protected


def _loose(budget: Budget) -> int:
    return max(0, budget.used - budget.explicit - _held(budget))


def stacked(
    sizes: Iterable[tuple[str, str, int, str]], whole: int
) -> tuple[Segment, ...]:
    """Put parts side by side: name, label, tokens and a remark of each.

    Each is named, but for a run that is not under way.
    """
    found, begin = [], 0
    for name, label, tokens, remark in sizes:
        if tokens or name != "ghost":
            x, end = share(begin, whole), share(begin + tokens, whole)
            found.append(
                Segment(
                    name=name,
                    label=label,
                    tokens=tokens,
                    x=x,
                    width=round(end - x, 2),
                    remark=remark,
                )
            )
        begin += tokens
    return tuple(found)


def share(tokens: int, whole: int) -> float:
    """Compute where so many of all tokens end, in per cent."""
    return round(min(100.0, 100 * tokens / whole), 2)
