"""Cost of the inspector on a large database: seeking, and every page there is.

Both sides are processes of their own that take turns: one on a large instance, one on
a small one made the same way. No server stands between, so that all that is measured
is what the answer takes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median

from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import Ask, Hub, workplace
from benchmarks.rounds import Sample, take_turns
from memoryhub.management.progress import ProgressBar

#: Events of the long thread and of a short one, threads in all; then of the small side.
#: Both have a short thread, so that a page of the newest threads shows as many.
FULL = (1_000_000, 10_000, 10_000), (10_000, 4_000, 150)
QUICK = (20_000, 4_000, 1_000), (4_000, 4_000, 150)
#: The thread that has it all, and one of the same kind that is short.
LONG, SHORT = "long", "short"
LARGE, SMALL = "large", "small"
SEEKS, VISITS, LOOKS = 200, 1, 3


def measure(pace: Pace) -> list[Figure]:
    """Measure seeks to any event, and all inspector pages, ÷ in a small database."""
    with ExitStack() as stack:
        sizes = QUICK if pace.quick else FULL
        ask = {
            name: stack.enter_context(instance(*size))
            for name, size in zip((LARGE, SMALL), sizes, strict=True)
        }
        told = " against ".join(
            "{events:,} events, {pages:,} pages, {threads:,} threads".format(
                **ask[name]("counts")
            )
            for name in ask
        )
        print(f"  {told}", flush=True)
        return [*_seeks(ask[LARGE], pace), *_pages(ask, pace, told)]


@contextmanager
def instance(events: int, short: int, threads: int) -> Iterator[Ask]:
    """Make an instance with a thread of so many events, a short one, and others."""
    with workplace() as folder:
        hub = Hub.fresh(folder)
        hub.key()
        hub.call("benchmarks.crowds:fill", events=events, short=short, threads=threads)
        with hub.converse("benchmarks.visits:serve") as ask:
            yield ask


# Seeking


def _seeks(ask: Ask, pace: Pace) -> list[Figure]:
    """Compare the slowest hundredth of seeks, long ÷ short thread, in one database."""

    def turn(name: str) -> Sample:
        taken = ask("seek", name, SEEKS)
        cpu, seconds = map(_worst, zip(*taken, strict=True))
        return Sample(requests=1, seconds=seconds, cpu_seconds=cpu)

    taken = take_turns(
        {name: partial(turn, name) for name in (LONG, SHORT)}, rounds=pace.rounds
    )
    return [
        _seek_figure(
            what,
            *([getattr(each, name) for each in taken[of].samples] for of in taken),
            pace=pace,
        )
        for what, name in (("time", "seconds"), ("CPU", "cpu_seconds"))
    ]


def _seek_figure(
    what: str, long: list[float], short: list[float], *, pace: Pace
) -> Figure:
    (events, fewer, _), _ = QUICK if pace.quick else FULL
    return Figure(
        question=f"{what} of a seek to any event, p99, at {events:,} events in the "
        f"thread ÷ at {fewer:,}",
        value=median(a / b for a, b in zip(long, short, strict=True)),
        goal=Goal(most=2),
        behind=f"{median(long) * 1_000:.1f} ms against {median(short) * 1_000:.1f} ms",
    )


def _worst(taken: tuple[float, ...]) -> float:
    """Return the ninety-ninth in a hundred."""
    return sorted(taken)[len(taken) * 99 // 100]


# Pages


def _pages(ask: dict[str, Ask], pace: Pace, told: str) -> list[Figure]:
    large, small = (ask[name]("pages") for name in (LARGE, SMALL))
    # A list that ends sooner in the small database has nothing to compare with.
    pairs = {name: (large[name], small[name]) for name in large if name in small}
    return [_dearest(ask, pace, pairs, told), _more_queries(ask, pairs)]


def _dearest(
    ask: dict[str, Ask], pace: Pace, pairs: dict[str, tuple[str, str]], told: str
) -> Figure:
    progress, costs = _looking(pairs), []
    for name, (large, small) in pairs.items():
        costs.append((*_cost(ask, pace, large, small), name))
        progress.add(1)
    progress.close()
    costs.sort(reverse=True)
    middle = median(ratio for ratio, _, _ in costs)
    dearest = "; ".join(f"{name}: {behind}" for _, behind, name in costs[:5])
    return Figure(
        question="CPU of the inspector's dearest page on a large database ÷ on a small "
        "one",
        value=costs[0][0],
        goal=Goal(most=2),
        behind=f"{dearest}; the middle of {len(pairs)} pages {middle:.2f}×; {told}",
    )


def _more_queries(ask: dict[str, Ask], pairs: dict[str, tuple[str, str]]) -> Figure:
    differ = [
        f"{name}: {large} against {small}"
        for name, large, small in _queries(ask, pairs)
        if large > small
    ]
    return Figure(
        question="pages of the inspector that ask a large database more questions",
        value=len(differ),
        unit=f" of {len(pairs)}",
        goal=Goal(most=0),
        behind="; ".join(differ[:5]),
    )


def _cost(ask: dict[str, Ask], pace: Pace, large: str, small: str) -> tuple[float, str]:
    """Build the figure of the rounds' median CPU ratio."""
    taken = [
        (
            ask[LARGE]("visit", large, VISITS)["cpu"],
            ask[SMALL]("visit", small, VISITS)["cpu"],
        )
        for _ in range(pace.rounds + 1)
    ][1:]
    ratio = median(a / b for a, b in taken)
    a, b = (median(each) * 1_000 for each in zip(*taken, strict=True))
    return ratio, f"{a:.1f} ms against {b:.1f} ms"


def _queries(
    ask: dict[str, Ask], pairs: dict[str, tuple[str, str]]
) -> Iterator[tuple[str, int, int]]:
    progress = _looking(pairs)
    for page, paths in pairs.items():
        large, small = (
            ask[name]("queries", path, LOOKS)
            for name, path in zip((LARGE, SMALL), paths, strict=True)
        )
        progress.add(1)
        yield page, large, small
    progress.close()


def _looking(pairs: dict[str, tuple[str, str]]) -> ProgressBar:
    return ProgressBar(sys.stderr, total=len(pairs), unit="pages")
