"""What an append costs in a thread that has a million events.

Both threads are in one database and take turns, so that only the thread's own length
differs. The long one is written by the journal itself, in batches.
"""

from __future__ import annotations

from functools import partial

from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import Hub, workplace
from benchmarks.load import Writers
from benchmarks.rounds import Series, ratio, take_turns

LONG, SHORT = "long", "short"
SHORT_EVENTS = 1_000


def measure(pace: Pace) -> list[Figure]:
    """Cost per append at 1e6 events ÷ at 1e3; ten times fewer when in haste."""
    events = 100_000 if pace.quick else 1_000_000
    with workplace() as folder:
        hub = Hub.fresh(folder)
        key = hub.key()
        hub.call("benchmarks.threads:grow", name=LONG, events=events)
        hub.call("benchmarks.threads:grow", name=SHORT, events=SHORT_EVENTS)
        with hub.serve() as server:
            threads = {
                name: Writers(server=server, key=key, threads=[name])
                for name in (LONG, SHORT)
            }
            taken = take_turns(
                {
                    name: partial(writers.turn, pace.turn_seconds / 4)
                    for name, writers in threads.items()
                },
                rounds=2 * pace.rounds,
            )
    return _figures(taken, events)


def _figures(taken: dict[str, Series], events: int) -> list[Figure]:
    """The growth in time and, where the system tells, in CPU of the server."""
    long, short = taken[LONG], taken[SHORT]
    question = f"append at {events:,} events in the thread ÷ at {SHORT_EVENTS:,}"
    behind = f"{long.described()} against {short.described()}"
    goal = Goal(most=1.2)
    # A cost is the other way round than a rate.
    time = Figure(
        question=f"time of an {question}",
        value=ratio(short, long),
        goal=goal,
        behind=behind,
        series=taken,
    )
    if long.cpu_us is None or short.cpu_us is None:
        return [time]
    value = long.cpu_us / short.cpu_us
    return [time, Figure(question=f"CPU of an {question}", value=value, goal=goal)]
