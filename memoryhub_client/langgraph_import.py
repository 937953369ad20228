"""Copies of checkpoints from LangGraph's SQLite saver, so that graphs go on from them.

    pip install './memoryhub_client[langgraph]' langgraph-checkpoint-sqlite
    MEMORYHUB_KEY=mh_live_… python -m memoryhub_client.langgraph_import graph.sqlite

The file is only read. As when a graph opens it, LangGraph builds the objects in it:
copy no file that a stranger may have written.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from memoryhub_client.client import Client
from memoryhub_client.extras import require_extra
from memoryhub_client.langgraph import MemoryHubSaver

with require_extra("langgraph", "langgraph-checkpoint-sqlite"):
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.sqlite import SqliteSaver

_PLACES = """SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints
    ORDER BY checkpoint_id"""
_WRITES = """SELECT * FROM writes
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?
    ORDER BY task_id, idx"""


@dataclass(slots=True)
class CopyCounts:
    """Numbers of checkpoints and of tasks' writes that were copied, or there before."""

    checkpoints: int = 0
    tasks: int = 0
    present: int = 0


@dataclass(slots=True)
class TaskWrites:
    """Writes of one task, in the order of their positions."""

    task_id: str
    task_path: str
    writes: list[tuple[str, Any]]


def copy_checkpoints(source: SqliteSaver, target: MemoryHubSaver) -> CopyCounts:
    """Copy each checkpoint and its writes, oldest first; those there already stay.

    Safe to repeat. With the target's `person_field` a thread belongs to the person whom
    that field of its first checkpoint's metadata names. Holds one checkpoint at a time.
    """
    counts = CopyCounts()
    with source.cursor(transaction=False) as cursor:
        places = cursor.execute(_PLACES).fetchall()
    for place in places:
        _copy_checkpoint(source, target, place, counts)
    return counts


def _copy_checkpoint(
    source: SqliteSaver,
    target: MemoryHubSaver,
    place: tuple[str, str, str],
    counts: CopyCounts,
) -> None:
    fields = dict(
        zip(("thread_id", "checkpoint_ns", "checkpoint_id"), place, strict=True)
    )
    config: RunnableConfig = {"configurable": fields}
    found, stored = source.get_tuple(config), target.get_tuple(config)
    if found is None:
        return
    if stored is None:
        parent = found.parent_config or {
            "configurable": {**fields, "checkpoint_id": None}
        }
        above: dict[str, Any] = {**parent["configurable"]}
        if target.person_field in found.metadata:
            above[target.person_field] = {**found.metadata}[target.person_field]
        versions = found.checkpoint["channel_versions"]
        target.put({"configurable": above}, found.checkpoint, found.metadata, versions)
        counts.checkpoints += 1
    else:
        counts.present += 1
    written = Counter(task for task, *_ in (stored and stored.pending_writes) or ())
    for task in _iter_tasks(source, place):
        if written[task.task_id] < len(task.writes):
            target.put_writes(config, task.writes, task.task_id, task.task_path)
            counts.tasks += 1


def _iter_tasks(
    source: SqliteSaver, place: tuple[str, str, str]
) -> Iterator[TaskWrites]:
    """Yield the tasks of a checkpoint with their paths, which no listing tells."""
    with source.cursor(transaction=False) as cursor:
        cursor.execute(_WRITES, place)
        names = [column[0] for column in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor]
    tasks: dict[str, TaskWrites] = {}
    for row in rows:
        task_id = row["task_id"]
        # Files of older savers have no column for the path.
        path = row.get("task_path", "")
        task = tasks.setdefault(task_id, TaskWrites(task_id, path, []))
        value = source.serde.loads_typed((row["type"], row["value"]))
        task.writes.append((row["channel"], value))
    yield from tasks.values()


def open_file(path: Path) -> sqlite3.Connection:
    """Open a saver's file for reading only."""
    uri = f"file:{quote(str(path.absolute()))}?mode=ro"
    return sqlite3.connect(uri, uri=True, check_same_thread=False)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m memoryhub_client.langgraph_import",
        description="Copy all checkpoints of a SQLite saver's file into MemoryHub, at "
        "MEMORYHUB_URL with the key in MEMORYHUB_KEY. Repeat it to go on.",
    )
    parser.add_argument("file", type=Path)
    about = "field of the metadata with the person whom a thread belongs to"
    parser.add_argument("--person-field", metavar="NAME", help=about)
    read = parser.parse_args(words)
    url = os.environ.get("MEMORYHUB_URL", "http://127.0.0.1:8000")
    with (
        closing(open_file(read.file)) as database,
        Client(url, os.environ["MEMORYHUB_KEY"]) as hub,
    ):
        target = MemoryHubSaver(hub, person_field=read.person_field)
        counts = copy_checkpoints(SqliteSaver(database), target)
    sys.stdout.write(
        f"{counts.checkpoints:,} checkpoints and the writes of {counts.tasks:,} tasks "
        f"copied; {counts.present:,} checkpoints were there already.\n"
    )


if __name__ == "__main__":
    main()
