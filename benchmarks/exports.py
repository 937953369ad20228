"""Exports: how fast a subject's memory is handed over, and how much memory it takes.

By CPU: what else runs on the machine does not count. A process of its own for each
export, which has made nothing of what it reads.
"""

from __future__ import annotations

import json
from statistics import median
from typing import Any

from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import Hub, workplace

EVENTS, GLANCE = 250_000, 25_000


def measure(pace: Pace) -> list[Figure]:
    """Measure the export of a subject with 250,000 messages; a tenth in haste."""
    count = GLANCE if pace.quick else EVENTS
    with workplace() as folder:
        hub = Hub.fresh(folder, MEMORYHUB_EXPORTS_PER_DAY="1000")
        hub.key()
        hub.call("benchmarks.threads:grow", name="t", events=count)
        taken = [_taken(hub) for _ in range(pace.rounds)]
    rates = [each["events"] / each["cpu_seconds"] for each in taken]
    peak = max(each["peak_bytes"] for each in taken) / 2**20
    events, size = taken[0]["events"], taken[0]["bytes"] / 1e6
    return [
        Figure(
            question=f"export of {events:,} events",
            value=median(rates),
            unit=" events/s of CPU",
            goal=Goal(least=20_000),
            behind=f"{size:,.0f} MB of ZIP; each event is read twice",
        ),
        Figure(
            question=f"memory of a process that exports {events:,} events",
            value=peak,
            unit=" MB",
            goal=Goal(most=200),
        ),
    ]


def _taken(hub: Hub) -> Any:
    told = hub.call("benchmarks.exporting:measure")
    return json.loads(told.splitlines()[-1])
