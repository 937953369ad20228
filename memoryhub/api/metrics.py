"""Counts of this process in the text format of Prometheus, version 0.0.4.

No label names a project, a thread, a key or a person.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Final, Literal, NamedTuple

import orjson
from django.conf import settings

from memoryhub import __version__
from memoryhub.api.http import limits, request_counts
from memoryhub.api.http.request_counts import requests
from memoryhub.api.threads.socket import sockets
from memoryhub.journal import writer
from memoryhub.journal.writing import activity as activity_counts
from memoryhub.journal.writing.activity import activity
from memoryhub.queries.verify import health
from memoryhub.vault.registry import lru

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_STARTED_AT: Final = time.time()
_COMMIT_SECONDS: Final = tuple(each / 1_000 for each in activity_counts.WITHIN)

Labels = Mapping[str, str]
Value = float | None


class Metric(NamedTuple):
    """A metric, and its samples: suffix of the name, labels, value."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Iterable[tuple[str, Labels, Value]]


def render_metrics(*, page_sockets: int) -> str:
    """Render all metrics. Queries the database as `/health/ready` does."""
    metrics = (
        *_iter_process_metrics(),
        *_iter_health_metrics(),
        *_iter_disk_metrics(),
        *_iter_request_metrics(page_sockets),
        *_iter_journal_metrics(),
        *_iter_cache_metrics(),
    )
    return "".join(line for metric in metrics for line in _render_lines(metric))


def _iter_process_metrics() -> Iterator[Metric]:
    version = [("", {"version": __version__}, 1)]
    yield Metric("memoryhub_build_info", "gauge", "Version of the server.", version)
    yield _build_gauge(
        "process_start_time_seconds", "Start, as Unix time.", _STARTED_AT
    )
    yield Metric(
        "process_cpu_seconds_total",
        "counter",
        "CPU time of the process.",
        [("", {}, time.process_time())],
    )


def _iter_health_metrics() -> Iterator[Metric]:
    parts = health.get_readiness().parts
    states = {name: float(part.state == "ok") for name, part in parts.items()}
    yield _build_gauge("memoryhub_part_ok", "Whether a part is well.", states)
    for name, text, part, figure in (
        ("clock_behind", "What the clock is off.", "clock", "behind_seconds"),
        ("worker_age", "Since the last heartbeat.", "worker", "age_seconds"),
        ("expiry_lag", "Wait of the oldest expired.", "expiry", "lag_seconds"),
        ("keyring_backup_age", "Since its backup.", "keys", "backup_age_seconds"),
    ):
        seconds = parts[part].figures.get(figure)
        yield _build_gauge(f"memoryhub_{name}_seconds", text, seconds)
    waiting = {kind: parts["erasures"].figures.get(kind) for kind in ("late", "broken")}
    text = "Erasures that wait for something, or failed by a defect."
    yield _build_gauge("memoryhub_erasures_waiting", text, waiting)


def _iter_disk_metrics() -> Iterator[Metric]:
    """Yield sizes of files, by one look at each. PostgreSQL has figures of its own."""
    free = float(shutil.disk_usage(settings.DATA_DIR).free)
    text = "Free bytes of the data folder's disk."
    yield _build_gauge("memoryhub_disk_free_bytes", text, free)
    sizes = {
        alias: _measure_database(str(database["NAME"]))
        for alias, database in settings.DATABASES.items()
        if database["ENGINE"].endswith("sqlite3")
    }
    text = "Bytes of SQLite's files, with what is not yet in the main file."
    yield _build_gauge("memoryhub_database_bytes", text, sizes)


def _measure_database(file: str) -> Value:
    with suppress(OSError):
        size = Path(file).stat().st_size
        with suppress(OSError):
            size += Path(f"{file}-wal").stat().st_size
        return size
    return None


def _iter_request_metrics(page_sockets: int) -> Iterator[Metric]:
    answers = [
        ("", {"route": route, "code": f"{digit}xx"}, count)
        for (route, digit), count in sorted(requests.answers.items())
    ]
    yield Metric("memoryhub_requests_total", "counter", "API requests.", answers)
    durations = (
        sample
        for route, (*columns, total) in sorted(requests.durations.items())
        for sample in _iter_buckets(
            request_counts.WITHIN, columns, total, {"route": route}
        )
    )
    name, text = "memoryhub_request_duration_seconds", "Time until an answer begins."
    yield Metric(name, "histogram", text, durations)
    agents, held = sockets.count, sum(limits.account.streams.copy().values())
    yield _build_gauge(
        "memoryhub_open_connections",
        "Open sockets and event streams.",
        {
            "agent_socket": agents,
            "agent_stream": max(0, held - agents),
            "page_socket": page_sockets,
        },
    )


def _iter_journal_metrics() -> Iterator[Metric]:
    totals = activity.sum_up()
    figures = totals.figures
    for figure, name, text in (
        ("events", "events", "Appended events."),
        ("turns", "turns", "Turns that began."),
        ("tokens", "request_tokens", "Tokens of requests for models of agents."),
        ("prefix_tokens", "request_prefix_tokens", "Those that a cache can have."),
        ("exchanges", "exchanges", "Exchanges that began."),
        ("faulted_exchanges", "faulted_exchanges", "Exchanges with a page fault."),
        ("faults", "faults", "Page faults."),
        ("refaults", "refaults", "Faults of pages that were evicted before."),
    ):
        yield _build_counter(f"memoryhub_{name}_total", text, figures[figure])
    looked_up = {"hit": totals.tlb_hits, "miss": totals.tlb_misses}
    yield _build_counter("memoryhub_tlb_lookups_total", "Look-ups of TLBs.", looked_up)
    text = "Texts that turns recalled unasked, by what became of them."
    yield _build_counter("memoryhub_recalled_total", text, totals.recalled)
    refusals = [("", {"code": code}, n) for code, n in sorted(totals.refusals.items())]
    text = "Refusals of requests with a valid key, and of page faults."
    yield Metric("memoryhub_refusals_total", "counter", text, refusals)
    yield Metric(
        "memoryhub_commit_duration_seconds",
        "histogram",
        "Time until a command of an agent was on disk.",
        _iter_buckets(_COMMIT_SECONDS, totals.commits, totals.commit_seconds, {}),
    )
    for name, text, value in (
        ("queue_commands", "Jobs that wait for the writer.", writer.waiting),
        ("queue_bytes", "Their bytes.", writer.waiting_bytes),
        ("queue_max_commands", "Most jobs that may wait.", settings.QUEUE_COMMANDS),
        ("queue_max_bytes", "Most bytes that may wait.", settings.QUEUE_BYTES),
    ):
        yield _build_gauge(f"memoryhub_writer_{name}", text, value)
    for column, name in enumerate(("runs", "calls", "tokens")):
        runs = [
            ("", {"kind": role, "code": outcome}, figures[column])
            for (role, outcome), figures in sorted(totals.model.items())
        ]
        text = f"The hub's own use of a language model, in {name}."
        yield Metric(f"memoryhub_model_{name}_total", "counter", text, runs)


def _iter_cache_metrics() -> Iterator[Metric]:
    caches = {each.name: each for each in lru.list_caches()}
    weighed = {name: each for name, each in caches.items() if each.is_bytes}
    for name, text, values in (
        ("entries", "Entries of a cache.", {n: c.entries for n, c in caches.items()}),
        ("bytes", "Bytes in a cache.", {n: c.weight for n, c in weighed.items()}),
        ("max_bytes", "Most bytes of it.", {n: c.most for n, c in weighed.items()}),
    ):
        yield _build_gauge(f"memoryhub_cache_{name}", text, values)


def _build_gauge(name: str, text: str, value: Value | Mapping[str, Value]) -> Metric:
    """Build a gauge of one value, or of values by kind."""
    return Metric(name, "gauge", text, _list_samples(value))


def _build_counter(name: str, text: str, value: Value | Mapping[str, Value]) -> Metric:
    return Metric(name, "counter", text, _list_samples(value))


def _list_samples(
    value: Value | Mapping[str, Value],
) -> list[tuple[str, Labels, Value]]:
    if isinstance(value, Mapping):
        return [("", {"kind": kind}, each) for kind, each in sorted(value.items())]
    return [("", {}, value)]


def _iter_buckets(
    bounds: Sequence[float], columns: Sequence[float], total: float, labels: Labels
) -> Iterator[tuple[str, Labels, Value]]:
    """Yield a histogram's samples; `columns` has one more for what is slower."""
    sums = [*accumulate(columns)]
    for bound, count in zip((*map(str, bounds), "+Inf"), sums, strict=True):
        yield "_bucket", {**labels, "le": bound}, count
    yield "_sum", labels, total
    yield "_count", labels, sums[-1]


def _render_lines(metric: Metric) -> Iterator[str]:
    """Render a metric; a sample without a value is left out."""
    yield f"# HELP {metric.name} {metric.help}\n"
    yield f"# TYPE {metric.name} {metric.kind}\n"
    for suffix, labels, value in metric.samples:
        if value is not None:
            # JSON escapes what the format wants escaped: \\, the quote, a line's end.
            pairs = (f"{n}={orjson.dumps(v).decode()}" for n, v in labels.items())
            braced = f"{{{','.join(pairs)}}}" if labels else ""
            yield f"{metric.name}{suffix}{braced} {value}\n"
