"""Seconds from a server's start until it serves, and its memory then."""

from __future__ import annotations

import time
from statistics import median

from benchmarks import messages
from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import Hub, workplace
from benchmarks.load import slot


def measure(pace: Pace) -> list[Figure]:
    """Measure the time to the first answer, and the memory after an append."""
    seconds: list[float] = []
    spent: list[float] = []
    sizes: list[int] = []
    with workplace() as folder:
        hub = Hub.fresh(folder)
        key = hub.key()
        # The first start writes the bytecode of what the next ones import.
        with hub.serve():
            pass
        for _ in range(pace.rounds):
            start = time.perf_counter()
            with hub.serve() as server:
                seconds.append(time.perf_counter() - start)
                spent.append(server.cpu_seconds() or 0)
                server.post("/threads/t/slots", key, slot(messages.messages()[0]))
                if size := server.memory_bytes():
                    sizes.append(size)
    took = Figure(
        question="start of the server to its first answer",
        value=median(seconds),
        unit=" s",
        goal=Goal(most=1.2),
        behind=f"{min(seconds):.1f} to {max(seconds):.1f} s in {len(seconds)} starts, "
        f"CPU {median(spent):.2f} s",
    )
    if not sizes:
        return [took]
    return [took, _memory(sizes)]


def _memory(sizes: list[int]) -> Figure:
    return Figure(
        question="memory of the idle server",
        value=median(sizes) / 1e6,
        unit=" MB",
        goal=Goal(most=110),
        behind="resident, after one append",
    )
