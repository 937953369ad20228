"""Budget bars: the tokens of a working set by kind, in per cent of its room. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memoryhub.queries.paging.eviction_runs import EvictionRun
from memoryhub.queries.paging.residency import TokenUse


@dataclass(frozen=True, slots=True, kw_only=True)
class BarSegment:
    """A part of a budget bar, and its line in the legend."""

    name: str
    label: str
    tokens: int
    x: float
    width: float
    #: Shown behind the tokens in the legend.
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetBar:
    """A working set as one bar: segments, thresholds, and an eviction run's aim."""

    segments: tuple[BarSegment, ...]
    low: int
    low_x: float
    high: int
    high_x: float
    #: Tokens that the eviction run under way comes down to; None without a run.
    aim: int | None = None
    aim_x: float = 0.0


def draw(budget: TokenUse, run: EvictionRun | None, *, at: int) -> BudgetBar:
    """Draw a budget; `run` is the eviction run under way at event `at`, if any."""
    settings = budget.settings
    whole = max(settings.usable, budget.used, 1)
    freed = sum(each.freed for each in run.list_up_to(at)) if run else 0
    free = max(0, whole - budget.used)
    ghost = min(freed, free)
    of_all = f"of {run.freed:,}" if run else ""
    sizes = (
        ("pinned", "pinned", budget.explicit, ""),
        ("protected", "kept by a rule", _count_held(budget), ""),
        ("mapped", "evictable", _count_evictable(budget), ""),
        ("ghost", "freed so far", ghost, of_all),
        ("free", "empty", free - ghost, ""),
    )
    aim = None
    if run is not None and run.newcomer is not None:
        aim = max(0, settings.low - run.newcomer.tokens)
    return BudgetBar(
        segments=stack_segments(sizes, whole),
        low=settings.low,
        low_x=compute_share(settings.low, whole),
        high=int(settings.high),
        high_x=compute_share(int(settings.high), whole),
        aim=aim,
        aim_x=compute_share(aim or 0, whole),
    )


def _count_held(budget: TokenUse) -> int:
    return max(0, budget.pinned - budget.explicit) + budget.protected


def _count_evictable(budget: TokenUse) -> int:
    return max(0, budget.used - budget.explicit - _count_held(budget))


def stack_segments(
    sizes: Iterable[tuple[str, str, int, str]], whole: int
) -> tuple[BarSegment, ...]:
    """Place parts side by side: name, label, tokens and remark of each part.

    Only the part `ghost` is left out when it has no tokens.
    """
    found, begin = [], 0
    for name, label, tokens, remark in sizes:
        if tokens or name != "ghost":
            x, end = compute_share(begin, whole), compute_share(begin + tokens, whole)
            found.append(
                BarSegment(
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


def compute_share(tokens: int, whole: int) -> float:
    """Compute the share of `tokens` in `whole`, in per cent, at most 100."""
    return round(min(100.0, 100 * tokens / whole), 2)
