"""The reference of appends: one row and one commit, by the database's own driver.

A message is a row of a table with the key that any log of messages needs: thread and
index. Nothing is sealed, chained, counted or served.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count, cycle
from pathlib import Path

import psycopg

from benchmarks import messages
from benchmarks.figures import Turn
from benchmarks.rounds import Sample

_TABLE = (
    "CREATE TABLE message (thread TEXT NOT NULL, idx INTEGER NOT NULL, "
    "content TEXT NOT NULL, PRIMARY KEY (thread, idx))"
)
THREADS = 16


def timed(insert: Callable[[str, int, str], None], seconds: float) -> Turn:
    """Build a turn that inserts the sample's messages for so long, one by one."""
    texts = cycle([messages.text_of(each) for each in messages.messages()])
    numbers = count()

    def turn() -> Sample:
        done, cpu, start = 0, time.process_time(), time.perf_counter()
        while time.perf_counter() - start < seconds:
            number = next(numbers)
            insert(f"t-{number % THREADS}", number // THREADS, next(texts))
            done += 1
        took = time.perf_counter() - start
        cpu = time.process_time() - cpu
        return Sample(requests=done, seconds=took, cpu_seconds=cpu)

    return turn


@contextmanager
def sqlite(folder: Path, *, synchronous: str, seconds: float) -> Iterator[Turn]:
    """Insert into a SQLite file set up like ours: WAL, the same `synchronous`."""
    with closing(sqlite3.connect(folder / "raw.sqlite3", isolation_level=None)) as line:
        line.execute("PRAGMA journal_mode=WAL")
        line.execute(f"PRAGMA synchronous={synchronous}")
        line.execute(_TABLE)

        def insert(thread: str, index: int, text: str) -> None:
            row = (thread, index, text)
            # Without a transaction around it each statement is one of its own.
            line.execute("INSERT INTO message VALUES (?, ?, ?)", row)

        yield timed(insert, seconds)


@contextmanager
def postgres(url: str, *, seconds: float) -> Iterator[Turn]:
    """Insert into a PostgreSQL table over one connection."""
    with psycopg.connect(url, autocommit=True) as line:
        line.execute(_TABLE)

        def insert(thread: str, index: int, text: str) -> None:
            row = (thread, index, text)
            line.execute("INSERT INTO message VALUES (%s, %s, %s)", row)

        yield timed(insert, seconds)
