"""The report: figures of a day as JSON, and as a table of docs/measured.md."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure

RESULTS = Path(__file__).with_name("results")

Report = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Figures of one benchmark, and the load of the machine meanwhile."""

    figures: Sequence[Figure]
    seconds: float
    #: Load average of a minute, at its begin and at its end.
    load: tuple[float, float]

    def as_json(self) -> Report:
        return {
            "took_seconds": round(self.seconds, 1),
            "load_average": [round(each, 2) for each in self.load],
            "figures": [_as_json(figure) for figure in self.figures],
        }


def keep(outcomes: Mapping[str, Outcome], *, order: Sequence[str]) -> Path:
    """Write today's file, and drop older figures of the same benchmarks.

    Figures that were measured earlier today and not again stay.
    """
    now = datetime.now(UTC)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now.date()}.json"
    known: Report = json.loads(path.read_text("utf-8")) if path.exists() else {}
    found = known.get("benchmarks", {})
    found |= {name: each.as_json() for name, each in outcomes.items()}
    report = {
        "date": str(now.date()),
        "machine": machine(),
        "benchmarks": {name: found[name] for name in order if name in found},
    }
    _write(path, report)
    for older in files():
        if older != path:
            _drop(older, {*report["benchmarks"]})
    return path


def _drop(path: Path, names: set[str]) -> None:
    """Drop these benchmarks from a file; delete a file that has no other."""
    report: Report = json.loads(path.read_text("utf-8"))
    left = {
        name: each for name, each in report["benchmarks"].items() if name not in names
    }
    if left:
        _write(path, report | {"benchmarks": left})
    else:
        path.unlink()


def _write(path: Path, report: Report) -> None:
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")


def files() -> list[Path]:
    """List the files of all days, the oldest first."""
    return sorted(RESULTS.glob("*.json"))


def table(report: Report) -> str:
    """Return the report in Markdown."""
    lines = ["| question | figure | goal | behind it |", "|---|--:|---|---|"]
    loads = []
    for each in report["benchmarks"].values():
        loads += each["load_average"]
        lines += [_row(figure) for figure in each["figures"]]
    about = ", ".join(report["machine"].values())
    busy = f"; load average {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    told = f"Measured on {report['date']} by `make bench`: {about}{busy}. "
    told += (
        "Medians of rounds in which both sides take turns; CPU is that of the process "
    )
    told += "that serves, or that writes by itself."
    return "\n".join([*lines, "", told, ""])


def machine() -> dict[str, str]:
    """Return properties of the machine that bear on the figures."""
    return {
        "cpu": f"{os.cpu_count()} × {_processor()}",
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"Python {platform.python_version()}",
        "sqlite": f"SQLite {sqlite3.sqlite_version}",
    }


def load_average() -> float:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def shown(figure: Figure) -> str:
    """Return the figure for a terminal."""
    row = _as_json(figure)
    goal = f" (goal {row['goal']}: {row['verdict']})" if row["goal"] else ""
    return f"  {figure.question}\n    {_value(row)}{goal}   {figure.behind}"


def _as_json(figure: Figure) -> Report:
    return {
        "question": figure.question,
        "value": float(f"{figure.value:.4g}"),
        "unit": figure.unit,
        "goal": str(figure.goal) if figure.goal else "",
        "verdict": figure.verdict,
        "unscored": figure.unscored,
        "behind": figure.behind,
        "rounds": {
            name: [
                [each.requests, round(each.seconds, 4), each.cpu_seconds]
                for each in series.samples
            ]
            for name, series in figure.series.items()
        },
    }


def _row(figure: Report) -> str:
    goal = figure["goal"]
    if goal:
        goal += f", {figure['verdict']}"
    if figure["unscored"]:
        goal += f": {figure['unscored']}"
    return f"| {figure['question']} | {_value(figure)} | {goal} | {figure['behind']} |"


def _value(figure: Report) -> str:
    value = figure["value"]
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}{figure['unit']}"


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown"
    names = (line for line in text.splitlines() if line.startswith("model name"))
    return next(names, ": unknown").partition(":")[2].strip()
