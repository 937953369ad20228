"""The same conversations in our hub and in other stores: disk and time.

Every store has the messages one by one and says that each is durable before the next of
that conversation. The others are libraries in the caller's process; ours is a server.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import load, messages, peers
from benchmarks.figures import Figure, Pace
from benchmarks.hubs import PROJECT, Hub, workplace
from benchmarks.peers import Stored
from benchmarks.rounds import Sample, Series, ratio, take_turns

PEERS = {
    "LangGraph's SqliteSaver": "peer_langgraph.py",
    "openai-agents' SQLiteSession": "peer_sessions.py",
}
OURS, ONE, IMPORT = "ours, 16 clients", "ours, 1 client", "ours, imported"


def measure(pace: Pace) -> list[Figure]:
    """Measure the sizes of the sample's messages elsewhere ÷ here."""
    if not peers.installed():
        return []
    sizes: dict[str, int] = {}
    with workplace() as folder:
        source = folder / "runs.json"
        source.write_text(messages.as_file(), encoding="utf-8")
        stores: dict[str, Callable[[], Stored]] = {
            name: partial(_peer, script, source) for name, script in PEERS.items()
        }
        stores[OURS] = partial(_served, load.CLIENTS)
        stores[ONE] = partial(_served, 1)
        stores[IMPORT] = partial(_imported, source)
        turns = {
            name: partial(_noted, sizes, name, store) for name, store in stores.items()
        }
        taken = take_turns(turns, rounds=pace.rounds)
    disk = [_disk(name, sizes) for name in PEERS]
    return disk + [_time(name, taken) for name in PEERS]


def _noted(sizes: dict[str, int], name: str, store: Callable[[], Stored]) -> Sample:
    stored = store()
    sizes[name] = stored.size
    return stored.sample


def _peer(script: str, source: Path) -> Stored:
    with workplace() as folder:
        return peers.store(script, source, folder / "peer.sqlite3")


def _served(clients: int) -> Stored:
    """Write into a fresh hub over HTTP, each conversation by one client."""
    with workplace() as folder:
        hub = Hub.fresh(folder)
        key = hub.key()
        with hub.serve() as server:
            sample = load.write_runs(server, key, clients=clients)
        return Stored(sample=sample, size=hub.size())


def _imported(source: Path) -> Stored:
    """Write into a fresh hub by `manage.py import`, its start included."""
    with workplace() as folder:
        hub = Hub.fresh(folder)
        hub.key()
        words = ("import", str(source), "--project", PROJECT, "--quiet")
        seconds = hub.timed(*words)
        count = len(messages.messages())
        return Stored(sample=Sample(requests=count, seconds=seconds), size=hub.size())


def _disk(name: str, sizes: dict[str, int]) -> Figure:
    content = sum(map(messages.size_of, messages.messages()))
    return Figure(
        question=f"bytes on disk for {_what()}: {name} ÷ ours",
        value=sizes[name] / sizes[OURS],
        behind=f"{sizes[name] / 1e6:.1f} MB ÷ {sizes[OURS] / 1e6:.1f} MB; "
        f"the content is {content / 1e6:.1f} MB",
    )


def _time(name: str, taken: dict[str, Series]) -> Figure:
    ours = [f"{each} {taken[each].described()}" for each in (OURS, ONE, IMPORT)]
    return Figure(
        question=f"time for {_what()}: {name} ÷ ours over HTTP",
        value=ratio(taken[OURS], taken[name]),
        behind=f"{taken[name].described()}; {'; '.join(ours)}",
        series={each: taken[each] for each in (name, OURS, ONE, IMPORT)},
    )


def _what() -> str:
    return f"{len(messages.messages()):,} {messages.source()} messages"
