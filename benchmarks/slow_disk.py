"""Durable appends again, on a disk that takes two milliseconds to flush.

What a flush costs decides what group commit saves, and on a virtual machine it changes
by a factor of a hundred from one minute to the next. Here it is the same for the server
and for its reference: a preloaded library waits where the system would flush.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import appends, stock
from benchmarks.figures import Benchmark, Figure, Pace

FLUSH_US = 2_000
SOURCE = Path(__file__).with_name("slow_flush.c")


def measure(pace: Pace) -> list[Figure]:
    """Measure appends on a disk like a cheap server's; none without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        print("No C compiler (cc) on Linux: the slow disk is left out.")
        return []
    asked: list[Benchmark] = [appends.sqlite_full, stock.measure, appends.postgres]
    # A preload counts from a process's first moment on, so they run in new ones.
    with (
        slow_flushes(compiler),
        ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), max_tasks_per_child=1
        ) as processes,
    ):
        found = [processes.submit(each, pace).result() for each in asked]
    return [figure for figures in found for figure in figures]


@contextmanager
def slow_flushes(compiler: str) -> Iterator[None]:
    """Make processes within flush slowly, PostgreSQL's own user's among them."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        library = Path(folder) / "slow_flush.so"
        built = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE)]
        subprocess.run(built, check=True)
        library.chmod(0o755)
        given = {
            "LD_PRELOAD": str(library),
            "SLOW_FLUSH_US": str(FLUSH_US),
            "BENCH_DISK": f", {FLUSH_US / 1000:g} ms flushes",
        }
        os.environ.update(given)
        try:
            yield
        finally:
            for name in given:
                del os.environ[name]
