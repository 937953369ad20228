"""Runner of the benchmarks: all of them, or those that are named."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks import (
    appends,
    checkpoints,
    disk,
    exports,
    foresight,
    growth,
    knowledge,
    locomo,
    observed_talks,
    observing,
    observing_kept,
    paging,
    prefixes,
    recall,
    report,
    savers,
    screens,
    searching,
    side_by_side,
    slow_disk,
    starting,
    stock,
    thread_lists,
    viewers,
    waits,
)
from benchmarks.figures import Benchmark, Pace
from benchmarks.report import Outcome

BENCHMARKS: dict[str, Benchmark] = {
    "append-sqlite-full": appends.sqlite_full,
    "append-sqlite-normal": appends.sqlite_normal,
    "append-postgres": appends.postgres,
    "append-stock": stock.measure,
    "slow-disk": slow_disk.measure,
    "growth": growth.measure,
    "inspector": screens.measure,
    "inspector-lists": thread_lists.measure,
    "live": viewers.measure,
    "paging-kernel": paging.kernel,
    "paging-packs": paging.packs,
    "paging-faults": paging.faults,
    "recall": recall.measure,
    "searching": searching.measure,
    "locomo": locomo.measure,
    "observing": observing.measure,
    "observing-kept": observing_kept.measure,
    "locomo-observed": observed_talks.measure,
    "knowledge": knowledge.measure,
    "prefixes": prefixes.measure,
    "foresight": foresight.measure,
    "checkpoints": checkpoints.measure,
    "disk": disk.measure,
    "exports": exports.measure,
    "starting": starting.measure,
    "waits": waits.measure,
    "side-by-side": side_by_side.measure,
    "savers": savers.measure,
}


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.list:
        print("\n".join(f"{n:<22} {b.__doc__}" for n, b in BENCHMARKS.items()))
        return 0
    pace = Pace(quick=options.quick, before=options.before)
    outcomes = _run(options.only or list(BENCHMARKS), pace)
    if options.quick:
        print("A glance only: nothing is written.")
        return 0
    path = report.keep(outcomes, order=list(BENCHMARKS))
    print(f"Written to {path.name}; `make docs` puts it into docs/measured.md.")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--list", action="store_true", help="say which there are")
    add("--only", action="append", choices=[*BENCHMARKS], help="may be repeated")
    add("--before", type=_find_checkout, help="a checkout with its .venv, to compare")
    add("--quick", action="store_true", help="smaller, shorter, nothing written")
    return parser


def _find_checkout(folder: str) -> Path:
    return Path(folder).resolve(strict=True)


def _run(names: list[str], pace: Pace) -> dict[str, Outcome]:
    outcomes = {}
    for name in names:
        began, start = report.load_average(), time.perf_counter()
        print(f"\n{name} (load average {began:.2f})", flush=True)
        figures = BENCHMARKS[name](pace)
        outcomes[name] = Outcome(
            figures=figures,
            seconds=time.perf_counter() - start,
            load=(began, report.load_average()),
        )
        for figure in figures:
            print(report.shown(figure), flush=True)
    return outcomes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
