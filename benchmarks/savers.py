"""LangGraph's checkpoints in our hub and in its SQLite saver: bytes and CPU of a step.

A checkpoint follows each message, as a graph writes one a step at least. Its `messages`
channel holds the conversation so far. Ours runs over HTTP, and the CPU is that of both
processes; the other runs in the caller's. What HTTP costs by itself is told beside: a
request a step to a bare ASGI app that stores its body as a row (decision 101).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    CheckpointMetadata,
    empty_checkpoint,
)
from langgraph.checkpoint.sqlite import SqliteSaver

from benchmarks import messages
from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import Hub, workplace
from benchmarks.messages import Run
from memoryhub_client import Client, keys
from memoryhub_client.langgraph import MemoryHubSaver

#: Runs of the sample; the SQLite saver writes a growing list for each message.
RUNS, GLANCE = 60, 8


def measure(pace: Pace) -> list[Figure]:
    """Measure bytes and CPU of the sample's steps, elsewhere and here."""
    runs = messages.runs()[: GLANCE if pace.quick else RUNS]
    steps = sum(len(run.messages) for run in runs)
    with workplace() as folder:
        theirs, their_bytes = _write_sqlite(folder / "saver.sqlite3", runs)
    with workplace() as folder:
        bare = _send_bare(folder, steps)
    figures = []
    for timeline in (False, True):
        with workplace() as folder:
            ours, our_bytes = _write_hub(folder, runs, timeline=timeline)
        what = "with" if timeline else "without"
        case = f"{steps:,} steps of {messages.source()} runs, {what} the timeline"
        figures += [
            Figure(
                question=f"bytes on disk for {case}: LangGraph's SqliteSaver ÷ ours",
                value=their_bytes / our_bytes,
                goal=Goal(least=10),
                behind=f"{their_bytes / 1e6:.1f} MB ÷ {our_bytes / 1e6:.1f} MB",
            ),
            Figure(
                question=f"CPU for {case}: ours over HTTP ÷ LangGraph's SqliteSaver",
                value=ours / theirs,
                goal=Goal(most=2),
                behind=f"{ours / steps * 1e3:.2f} ms a step, of both processes, ÷ "
                f"{theirs / steps * 1e3:.2f} ms; the requests alone take "
                f"{bare / steps * 1e3:.2f} ms of it, {bare / theirs:.1f}×",
            ),
        ]
    return figures


def _send_bare(folder: Path, steps: int) -> float:
    """Return the CPU seconds of as many requests to a bare ASGI app, of both sides."""
    program = (sys.executable, "-m", "benchmarks.bare_asgi")
    with (
        Hub.fresh(folder).serve(program) as server,
        Client(f"http://127.0.0.1:{server.port}", "none") as client,
    ):
        served, began = server.cpu_seconds() or 0, time.process_time()
        for step in range(steps):
            client.send(keys.batch("t", [{"op": "set", "key": "k", "value": step}]))
        return time.process_time() - began + (server.cpu_seconds() or 0) - served


def _write_sqlite(path: Path, runs: tuple[Run, ...]) -> tuple[float, int]:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        began = time.process_time()
        _write_all(saver, runs)
        cpu = time.process_time() - began
    return cpu, sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))


def _write_hub(
    folder: Path, runs: tuple[Run, ...], *, timeline: bool
) -> tuple[float, int]:
    hub = Hub.fresh(folder)
    key = hub.key()
    empty = hub.size()
    with (
        hub.serve() as server,
        Client(f"http://127.0.0.1:{server.port}", key) as ours,
    ):
        served, began = server.cpu_seconds() or 0, time.process_time()
        _write_all(MemoryHubSaver(ours, timeline=timeline), runs)
        cpu = time.process_time() - began + (server.cpu_seconds() or 0) - served
    return cpu, hub.size() - empty


def _write_all(saver: BaseCheckpointSaver[Any], runs: tuple[Run, ...]) -> None:
    for run in runs:
        config = RunnableConfig(
            configurable={"thread_id": run.name, "checkpoint_ns": ""}
        )
        for step in range(1, len(run.messages) + 1):
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": [*run.messages[:step]]}
            checkpoint["channel_versions"] = {"messages": step}
            told = CheckpointMetadata(source="loop", step=step, parents={})
            config = saver.put(config, checkpoint, told, {"messages": step})
