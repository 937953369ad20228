"""Cost of an append and a turn in a thread that has a million events.

The threads are in one database and take turns, so that only the thread's own length
differs. They are written by the journal itself, in batches.
"""

from __future__ import annotations

from functools import partial
from itertools import islice

from benchmarks import messages
from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import Hub, Server, workplace
from benchmarks.load import Writers, send_all, turn_request
from benchmarks.rounds import Sample, Series, ratio, take_turns

LONG, SHORT, FULL = "long", "short", "full"
#: Of an append's other thread; of a turn's, whose working set must be as full.
SHORT_EVENTS, FULL_EVENTS = 1_000, 2_600
TURNS = 20


def measure(pace: Pace) -> list[Figure]:
    """Measure append and turn at 1e6 events ÷ at few; 1e5 when in haste."""
    events = 100_000 if pace.quick else 1_000_000
    sizes = {LONG: events, SHORT: SHORT_EVENTS, FULL: FULL_EVENTS}
    with workplace() as folder:
        hub = Hub.fresh(folder)
        key = hub.key()
        for name, size in sizes.items():
            hub.call("benchmarks.threads:grow", name=name, events=size)
        with hub.serve() as server:
            threads = {
                name: Writers(server=server, key=key, threads=[name])
                for name in (LONG, SHORT)
            }
            appends = take_turns(
                {
                    name: partial(writers.turn, pace.turn_seconds / 4)
                    for name, writers in threads.items()
                },
                rounds=2 * pace.rounds,
            )
            turns = take_turns(
                {name: partial(_turns, server, key, name) for name in (LONG, FULL)},
                rounds=pace.rounds,
            )
    return [*_figures("an append", appends, sizes), *_figures("a turn", turns, sizes)]


def _turns(server: Server, key: str, thread: str) -> Sample:
    said = (each for each in messages.messages() if each["role"] == "user")
    return send_all(
        server, [turn_request(thread, key, each) for each in islice(said, TURNS)]
    )


def _figures(
    what: str, taken: dict[str, Series], sizes: dict[str, int]
) -> list[Figure]:
    """Return the growth in time and, where the system tells, in CPU of the server."""
    (one, long), (other, short) = taken.items()
    question = f"{what} at {sizes[one]:,} events in the thread ÷ at {sizes[other]:,}"
    behind = f"{long.described()} against {short.described()}"
    goal = Goal(most=1.2)
    # A cost is the other way round than a rate.
    time = Figure(
        question=f"time of {question}",
        value=ratio(short, long),
        goal=goal,
        behind=behind,
        series=taken,
    )
    if long.cpu_us is None or short.cpu_us is None:
        return [time]
    value = long.cpu_us / short.cpu_us
    return [time, Figure(question=f"CPU of {question}", value=value, goal=goal)]
