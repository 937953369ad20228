"""Durable appends over HTTP, against one commit each by the driver."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from benchmarks import raw_commits
from benchmarks.figures import Figure, Goal, Pace, Turn
from benchmarks.hubs import MANAGE, ROOT, Hub, workplace
from benchmarks.load import CLIENTS, Writers
from benchmarks.rounds import Series, ratio, take_turns
from tests.harness import parts

THREADS = [f"t-{number}" for number in range(CLIENTS)]
#: Where raw commits are faster than this a flush costs next to nothing, so that there
#: is nothing to save by committing together.
SCORED_BELOW = 1_000


@contextmanager
def appending(
    hub: Hub, *, seconds: float, program: Sequence[str] = MANAGE
) -> Iterator[Turn]:
    """Yield turns of sixteen clients that append to sixteen threads of this hub."""
    key = hub.key()
    with hub.serve(program) as server:
        writers = Writers(server=server, key=key, threads=THREADS)
        yield lambda: writers.turn(seconds)


def sqlite_full(pace: Pace) -> list[Figure]:
    """Commit to SQLite with a flush per commit."""
    return [_on_sqlite(pace, "FULL", Goal(least=1.5))]


def sqlite_normal(pace: Pace) -> list[Figure]:
    """Commit to SQLite, which flushes at its checkpoints only."""
    return [_on_sqlite(pace, "NORMAL", Goal(least=0.3))]


def postgres(pace: Pace) -> list[Figure]:
    """Commit to PostgreSQL, which flushes."""
    question = "append over HTTP, PostgreSQL, 16 clients ÷ raw psycopg commits"
    with ExitStack() as stack:
        try:
            urls = stack.enter_context(parts.postgres(durable=True))
        except parts.MissingPartError as missing:
            print(f"No PostgreSQL, so nothing was measured on it: {missing}")
            return []
        hub = Hub.fresh(stack.enter_context(workplace()), root=ROOT, **urls)
        # Its own connection; the hub's server has the same database.
        raw = raw_commits.postgres(urls["DATABASE_URL"], seconds=pace.turn_seconds)
        things = {
            "appends": stack.enter_context(appending(hub, seconds=pace.turn_seconds)),
            "raw": stack.enter_context(raw),
        }
        taken = take_turns(things, rounds=pace.rounds)
    return [_figure(question, Goal(least=0.9), taken)]


def _on_sqlite(pace: Pace, synchronous: str, goal: Goal) -> Figure:
    question = f"append over HTTP, SQLite {synchronous}, 16 clients ÷ raw commits"
    with ExitStack() as stack:
        folder = stack.enter_context(workplace())
        hub = Hub.fresh(folder, MEMORYHUB_SQLITE_SYNCHRONOUS=synchronous)
        raw = raw_commits.sqlite(
            folder, synchronous=synchronous, seconds=pace.turn_seconds
        )
        things = {
            "appends": stack.enter_context(appending(hub, seconds=pace.turn_seconds)),
            "raw": stack.enter_context(raw),
        }
        taken = take_turns(things, rounds=pace.rounds)
    fast = taken["raw"].rate >= SCORED_BELOW
    unscored = "flushes are free here" if synchronous == "FULL" and fast else ""
    return _figure(question, goal, taken, unscored)


def _figure(
    question: str, goal: Goal, taken: dict[str, Series], unscored: str = ""
) -> Figure:
    return Figure(
        question=question + os.environ.get("BENCH_DISK", ""),
        value=ratio(taken["appends"], taken["raw"]),
        goal=goal,
        unscored=unscored,
        behind=f"{taken['appends'].described()} ÷ {taken['raw'].described()}",
        series=taken,
    )
