"""Knowledge: what it costs to assert 10,000 facts of one subject, and to read them.

Over HTTP, one request after the other, as an agent would. Most facts are of timelines
of their own and begin on different days of two years; one timeline has a thousand
assertions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlencode

from benchmarks.figures import Figure, Pace
from benchmarks.hubs import Hub, Server, workplace

FACTS, LONG, READS = 10_000, 1_000, 100
QUICK_FACTS, QUICK_LONG, QUICK_READS = 1_000, 200, 10
BATCH = 200
THREAD = "known"
FIRST_DAY = datetime(2024, 1, 1, tzinfo=UTC)
DAYS = 730
PREDICATES = ("home airport", "seat", "meal", "birthday")
VALUES = ("Bergen", "by the window", "vegetarian", "in the third week of May")
#: What the long timeline is of.
ENTITY, PREDICATE = "traveller", "current city"


class Taken(NamedTuple):
    """Milliseconds of each request, and CPU of the server for one of them."""

    each: Sequence[float]
    cpu: float | None

    @property
    def p99(self) -> float:
        return sorted(self.each)[-max(1, len(self.each) // 100) - 1]

    def described(self) -> str:
        cpu = "" if self.cpu is None else f" at {self.cpu:.1f} ms CPU"
        return f"p99 {self.p99:,.0f} ms; {len(self.each)} requests{cpu}"


def measure(pace: Pace) -> list[Figure]:
    """Assert 10,000 facts of one subject in batches, and read them in five ways."""
    count, long, reads = (
        (QUICK_FACTS, QUICK_LONG, QUICK_READS) if pace.quick else (FACTS, LONG, READS)
    )
    with workplace() as folder:
        hub = Hub.fresh(folder)
        key = hub.key()
        with hub.serve() as server:
            made: Any = server.send(
                "PUT", f"/threads/{THREAD}", key, {"user_id": "ann"}
            )
            send = partial(_timed, server, key)
            facts = [*_facts(count - long)]
            half = len(facts) // 2
            first = send(_batches(facts[:half]))
            known_at = datetime.now(UTC)
            later = send(_batches(facts[half:]))
            send(_batches([*_moves(long)]))
            where = f"/subjects/{made['subject_id']}"
            found: Any = server.post(
                f"{where}/facts:search", key, {"entity": ENTITY, "limit": 1}
            )
            story = f"{where}/facts/{found['items'][0]['id']}"
            asked = _asked(where, story, known_at)
            taken = {
                what: send([("GET", path, None)] * reads)
                for what, path in asked.items()
            }
    every = Taken([*first.each, *later.each], later.cpu)
    return [
        Figure(
            question=f"a batch of {BATCH} facts, until one subject has {count:,}",
            value=median(every.each),
            unit=" ms",
            behind=f"{median(every.each) / BATCH:.2f} ms a fact; "
            f"{median(first.each):.0f} ms in the first half, {median(later.each):.0f} "
            f"in the second; {every.described()}",
        ),
        *(
            Figure(
                question=f"{what}, {count:,} facts of one subject",
                value=median(each.each),
                unit=" ms",
                behind=each.described(),
            )
            for what, each in taken.items()
        ),
    ]


def _asked(where: str, story: str, known_at: datetime) -> dict[str, str]:
    day = FIRST_DAY + timedelta(days=DAYS // 2)
    past = urlencode({"valid_at": day.isoformat(), "known_at": known_at.isoformat()})
    return {
        "the first 50 facts that hold now": f"{where}/facts?limit=50",
        "the first 50 facts of a day, as known before half of them": f"{where}/facts"
        f"?limit=50&{past}",
        "what an agent loads at its start": f"{where}/memory",
        "a fact of the longest timeline, with all of its timeline": story,
    }


def _facts(count: int) -> Iterator[dict[str, Any]]:
    """Yield facts of timelines of their own, begun on one day or another."""
    for number in range(count):
        which = number % len(PREDICATES)
        yield {
            "entity": f"passenger {number // len(PREDICATES)}",
            "predicate": PREDICATES[which],
            "value": VALUES[which],
            "valid_from": (FIRST_DAY + timedelta(days=number * 7 % DAYS)).isoformat(),
        }


def _moves(count: int) -> Iterator[dict[str, Any]]:
    """Yield assertions of one timeline, each of which ends the one before."""
    for number in range(count):
        begun = FIRST_DAY + timedelta(hours=number)
        yield {
            "entity": ENTITY,
            "predicate": PREDICATE,
            "value": f"City {number}",
            "valid_from": begun.isoformat(),
        }


def _batches(facts: Sequence[dict[str, Any]]) -> list[tuple[str, str, object]]:
    path = f"/threads/{THREAD}/facts:batch"
    return [
        ("POST", path, {"items": facts[start : start + BATCH]})
        for start in range(0, len(facts), BATCH)
    ]


def _timed(
    server: Server, key: str, requests: Sequence[tuple[str, str, object]]
) -> Taken:
    used, each = server.cpu_seconds(), list[float]()
    for method, path, body in requests:
        begun = time.perf_counter()
        server.send(method, path, key, body)
        each.append((time.perf_counter() - begun) * 1e3)
    after = server.cpu_seconds()
    if used is None or after is None:
        return Taken(each, None)
    return Taken(each, (after - used) * 1e3 / len(each))
