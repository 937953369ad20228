"""Cost of a seek in a thread of a million events, against another checkout.

`python -m benchmarks.seeks --against ../before` makes one database, or takes that of
`--data`, and has both checkouts answer the same seeks from it, taking turns event by
event, so that a drift of the machine favours nobody. A seek is what the browser asks
for while the thumb is being dragged, and what it asks for once that stands still; each
is followed by one to the next event, as replay goes on.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks.hubs import PROJECT, ROOT, Ask, Hub, workplace
from benchmarks.screens import LONG

EVENTS, QUICK, SEEKS = 1_000_000, 20_000, 200
NEXT = ", next event"
_SERVE = "import benchmarks.visits as visits; visits.serve()"
_PANEL = f"/p/{PROJECT}/threads/{LONG}/panels/moment?at_seq={{seq}}"
#: What each side is asked: by its name the address, and whether it is the other's.
SIDES = {
    "before": (_PANEL, True),
    "dragging": (f"{_PANEL}&passing=1", False),
    "at rest": (_PANEL, False),
}


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    events = QUICK if options.quick else EVENTS
    with ExitStack() as stack:
        folder = options.data or stack.enter_context(workplace())
        hub = _made(Path(folder), events)
        other = Path(options.against).resolve()
        # A process each: what one leaves to the collector must not cost the others.
        sides = {
            name: stack.enter_context(_serving(hub, other if before else ROOT))
            for name, (_, before) in SIDES.items()
        }
        taken = _seek(sides, events)
    for name, seconds in taken.items():
        worst = _worst(seconds) * 1_000
        print(f"{name:<20} p99 {worst:7.1f} ms, median {median(seconds) * 1e3:7.1f} ms")
    for step in ("", NEXT):
        before = taken[f"before{step}"]
        for name in (f"dragging{step}", f"at rest{step}"):
            print(f"{name} ÷ before: p99 {_worst(taken[name]) / _worst(before):.3f}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.seeks")
    parser.add_argument("--against", required=True, help="a checkout of before")
    parser.add_argument("--data", help="a folder to make the database in, or with one")
    parser.add_argument("--quick", action="store_true", help="20,000 events")
    return parser


def _made(folder: Path, events: int) -> Hub:
    """Make an instance with the long thread, or take the one that is there."""
    there = (folder / "data").exists()
    hub = Hub.at(folder) if there else Hub.fresh(folder)
    if not there:
        hub.key()
        hub.call("benchmarks.crowds:fill", events=events, short=0, threads=10)
    return hub


@contextmanager
def _serving(hub: Hub, checkout: Path) -> Iterator[Ask]:
    """Run a process of a checkout inside the instance, asked as `Hub.converse` does."""
    with subprocess.Popen(
        [sys.executable, "manage.py", "shell", "--verbosity", "0", "-c", _SERVE],
        cwd=checkout,
        env=dict(hub.env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def ask(*question: object) -> object:
            asked.write(json.dumps(question) + "\n")
            asked.flush()
            return json.loads(answers.readline())

        yield ask
        asked.close()


def _seek(sides: dict[str, Ask], events: int) -> dict[str, list[float]]:
    """Return CPU seconds of each seek, by side; the first few do not count."""
    chance, taken = random.Random(7), defaultdict[str, list[float]](list)
    for number in range(SEEKS + 10):
        seq = chance.randrange(1, events)
        for step, at in (("", seq), (NEXT, seq + 1)):
            for name, (path, _) in SIDES.items():
                cost = sides[name]("visit", path.format(seq=at), 1)
                if number >= 10:
                    taken[name + step].append(cost["cpu"])
    return taken


def _worst(seconds: list[float]) -> float:
    """Return the ninety-ninth in a hundred."""
    return sorted(seconds)[len(seconds) * 99 // 100]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
