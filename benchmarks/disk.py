"""What a message takes on disk, all tables, indexes and keys included."""

from __future__ import annotations

from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import Hub, workplace

MESSAGE_BYTES = 1_024


def measure(pace: Pace) -> list[Figure]:
    """Bytes on disk ÷ bytes of content, for messages of 1 KB."""
    count = 2_000 if pace.quick else 20_000
    return [
        _figure("that can't be compressed", count, prose=False),
        _figure("of English words", count, prose=True),
    ]


def _figure(kind: str, count: int, *, prose: bool) -> Figure:
    with workplace() as folder:
        hub = Hub.fresh(folder)
        hub.key()
        empty = hub.size()
        hub.call(
            "benchmarks.threads:fill",
            name="t",
            count=count,
            size=MESSAGE_BYTES,
            prose=prose,
        )
        taken = hub.size() - empty
    return Figure(
        question=f"bytes on disk for messages of 1 KB {kind} ÷ their content",
        value=taken / (count * MESSAGE_BYTES),
        goal=Goal(most=2.5),
        behind=f"{taken / 1e6:,.1f} MB for {count:,} messages, beside "
        f"{empty / 1e6:.1f} MB of an empty hub",
    )
