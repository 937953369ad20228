"""Checkpoints: whether taking, comparing and restoring cost what changed."""

from __future__ import annotations

import json
from statistics import median

from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import Hub, workplace

LARGE, SMALL = 10_000, 100
#: Of this many rounds the median is taken: one act is a millisecond.
ROUNDS, GLANCE = 60, 10


def measure(pace: Pace) -> list[Figure]:
    """Measure checkpoints with ten changed keys, of 10,000 keys against 100, by CPU."""
    with workplace() as folder:
        hub = Hub.fresh(folder)
        hub.key()
        told = hub.call(
            "benchmarks.keeping:measure",
            sizes=[LARGE, SMALL],
            rounds=GLANCE if pace.quick else ROUNDS,
        )
    rounds = json.loads(told.splitlines()[-1])
    return [_figure(act, rounds) for act in ("take", "compare", "restore")]


def _figure(act: str, rounds: list[list[dict[str, float]]]) -> Figure:
    large, small = ([each[n][act] * 1_000 for each in rounds] for n in (0, 1))
    return Figure(
        question=f"{act} a checkpoint with 10 changed keys: {LARGE:,} keys ÷ {SMALL}",
        value=median(large) / median(small),
        goal=Goal(most=2),
        behind=f"{median(large):.2f} against {median(small):.2f} ms CPU, "
        f"journal and database included",
    )
