"""Size of a message on disk, all tables, indexes and keys included."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import Hub, workplace

MESSAGE_BYTES = 1_024


def measure(pace: Pace) -> list[Figure]:
    """Measure bytes on disk ÷ bytes of content, for messages of 1 KB."""
    count = 2_000 if pace.quick else 20_000
    return [
        _figure("that can't be compressed", count, prose=False),
        _figure("of English words", count, prose=True),
    ]


def _figure(kind: str, count: int, *, prose: bool) -> Figure:
    def fill(hub: Hub, _: str) -> None:
        hub.call(
            "benchmarks.threads:fill",
            name="t",
            count=count,
            size=MESSAGE_BYTES,
            prose=prose,
        )

    question = f"bytes on disk for messages of 1 KB {kind} ÷ their content"
    return weigh(question, fill, count=count, size=MESSAGE_BYTES)


def weigh(
    question: str, fill: Callable[[Hub, str], None], *, count: int, size: int
) -> Figure:
    """Weigh a fresh hub after a function, given its key, has filled it."""
    with workplace() as folder:
        hub = Hub.fresh(folder)
        key = hub.key()
        empty = hub.size()
        fill(hub, key)
        taken = hub.size() - empty
    return Figure(
        question=question,
        value=taken / (count * size),
        goal=Goal(most=2.5),
        behind=f"{taken / 1e6:,.1f} MB for {count:,} messages, beside "
        f"{empty / 1e6:.1f} MB of an empty hub",
    )
