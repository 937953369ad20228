"""Cost of overview, list of threads and turns among few threads, and many.

As in `screens`, two processes take turns, each on an instance of its own.
"""

from __future__ import annotations

from contextlib import ExitStack
from statistics import median

from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import PROJECT, Ask
from benchmarks.screens import instance

#: Threads of the large side and of the small one; each has one of so many events too.
FULL, QUICK = (10_000, 100), (1_000, 100)
EVENTS = 4_000
TIMES = 5
QUESTIONS = {
    "the overview": ("visit", f"/p/{PROJECT}/", TIMES),
    "the list of threads": ("visit", f"/p/{PROJECT}/threads", TIMES),
    "the list of threads by name": ("visit", f"/p/{PROJECT}/threads?sort=name", TIMES),
    "a turn of somebody new": ("turn", TIMES),
}


def measure(pace: Pace) -> list[Figure]:
    """Measure overview, list of threads and a turn among 10,000 threads ÷ among 100."""
    threads = QUICK if pace.quick else FULL
    with ExitStack() as stack:
        many, few = (
            stack.enter_context(instance(EVENTS, 0, count)) for count in threads
        )
        return [
            _figure(what, _taken(many, few, question, rounds=pace.rounds), threads)
            for what, question in QUESTIONS.items()
        ]


def _taken(
    many: Ask, few: Ask, question: tuple[str | int, ...], *, rounds: int
) -> list[tuple[float, float]]:
    """Return CPU of each round on both sides; the first warms up."""
    return [(many(*question)["cpu"], few(*question)["cpu"]) for _ in range(rounds + 1)][
        1:
    ]


def _figure(
    what: str, taken: list[tuple[float, float]], threads: tuple[int, int]
) -> Figure:
    """Build the figure of the median of the rounds' own ratios."""
    a, b = (median(each) * 1_000 for each in zip(*taken, strict=True))
    most, least = threads
    return Figure(
        question=f"CPU of {what} among {most:,} threads ÷ among {least:,}",
        value=median(one / other for one, other in taken),
        goal=Goal(most=1.2),
        behind=f"{a:.1f} ms against {b:.1f} ms",
    )
