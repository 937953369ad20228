"""openai-agents' SQLiteSession takes the messages; runs in the peers' environment."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from agents import SQLiteSession  # type: ignore[import-not-found]  # a peer's


def main(source: str, database: str, group: str = "1") -> None:
    runs = json.loads(Path(source).read_text(encoding="utf-8"))
    cpu, start = time.process_time(), time.perf_counter()
    asyncio.run(write(runs, database, int(group)))
    seconds = time.perf_counter() - start
    cpu = time.process_time() - cpu
    count = sum(len(run["traj"]) for run in runs)
    told = {"messages": count, "seconds": seconds, "cpu_seconds": cpu}
    sys.stdout.write(json.dumps(told))


async def write(runs: list[dict[str, Any]], database: str, group: int) -> None:
    """Write a session per conversation, so many of its messages at a time."""
    for number, run in enumerate(runs):
        session = SQLiteSession(f"run-{number}", database)
        said = run["traj"]
        for start in range(0, len(said), group):
            await session.add_items(said[start : start + group])
        session.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
