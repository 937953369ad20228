"""LangGraph's SQLite saver takes the messages; runs in the peers' environment.

A checkpoint per message, as a graph writes one per step at least. Its `messages`
channel holds the conversation so far, for that is what the saver stores.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointMetadata, empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver


def main(source: str, database: str) -> None:
    runs = json.loads(Path(source).read_text(encoding="utf-8"))
    with SqliteSaver.from_conn_string(database) as saver:
        saver.setup()
        cpu, start = time.process_time(), time.perf_counter()
        for number, run in enumerate(runs):
            put(saver, f"run-{number}", run["traj"])
        seconds = time.perf_counter() - start
        cpu = time.process_time() - cpu
    count = sum(len(run["traj"]) for run in runs)
    told = {"messages": count, "seconds": seconds, "cpu_seconds": cpu}
    sys.stdout.write(json.dumps(told))


def put(saver: SqliteSaver, thread: str, messages: list[dict[str, Any]]) -> None:
    config = RunnableConfig(configurable={"thread_id": thread, "checkpoint_ns": ""})
    for step in range(1, len(messages) + 1):
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": messages[:step]}
        checkpoint["channel_versions"] = {"messages": step}
        told = CheckpointMetadata(source="loop", step=step, parents={})
        config = saver.put(config, checkpoint, told, {"messages": step})


if __name__ == "__main__":
    main(*sys.argv[1:])
