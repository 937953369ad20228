"""Worth of our request path and group commit.

The reference is the same application on Django's own ASGI handler, with a commit for
each request. `python -m benchmarks.stock serve …` starts it.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from importlib import import_module

import django
from django.core.management import execute_from_command_line

from benchmarks.appends import appending
from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import Hub, workplace
from benchmarks.rounds import ratio, take_turns


def measure(pace: Pace) -> list[Figure]:
    """Measure appends ÷ the same on the stock handler with a commit each."""
    with ExitStack() as stack:
        folder = stack.enter_context(workplace())
        ours = Hub.fresh(folder / "ours")
        theirs = Hub.fresh(folder / "stock", MEMORYHUB_LEAN_API="0")
        program = (sys.executable, "-m", "benchmarks.stock")
        seconds = pace.turn_seconds
        things = {
            "ours": stack.enter_context(appending(ours, seconds=seconds)),
            "stock": stack.enter_context(
                appending(theirs, seconds=seconds, program=program)
            ),
        }
        taken = take_turns(things, rounds=pace.rounds)
    return [
        Figure(
            question="append over HTTP ÷ the same app on the stock handler, a commit "
            "per request" + os.environ.get("BENCH_DISK", ""),
            value=ratio(taken["ours"], taken["stock"]),
            goal=Goal(least=10),
            behind=f"{taken['ours'].described()} ÷ {taken['stock'].described()}",
            series=taken,
        )
    ]


def serve(arguments: list[str]) -> None:
    """Run `manage.py` with a writer that commits one command at a time."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    django.setup()
    # Only now, and by its name: the package calls its writer by the same.
    writing = vars(import_module("memoryhub.journal.writing.writer"))
    assert "BATCH_COMMANDS" in writing
    writing["BATCH_COMMANDS"] = 1
    execute_from_command_line(["manage.py", *arguments])


if __name__ == "__main__":
    serve(sys.argv[1:])
