"""Waits of users and costs of servers: goals 30 to 38, by whole requests over HTTP.

Each build has a hub of its own with data of its own, written over HTTP. With `--before`
another checkout serves a hub as well, and the sides take turns. Goal 38 is measured by
`starting`.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from sqlite3 import Connection

from benchmarks import load, peers
from benchmarks.disk import weigh
from benchmarks.figures import Figure, Goal, Pace, Turn
from benchmarks.hubs import PROJECT, ROOT, Hub, Server, workplace
from benchmarks.load import Writers, build_request, send_all
from benchmarks.messages import CHARACTERS, build_message, build_text, build_vocabulary
from benchmarks.rounds import Sample, Series, take_turns
from benchmarks.searching import open_fts5
from benchmarks.viewers import COOKIE

BATCH, COMMON = 200, 100
NARROW, WIDE = 16_000, 128_000
SHORT, LONG, SEEK_EVENTS, HEAVY = 2_600, 20_000, 100_000, 190_000
SEARCHES, SEEKS = 50, 100
OURS, BEFORE, BARE, PEER = "ours", "before", "bare ASGI", "openai-agents"
_FTS5 = "SELECT x FROM t WHERE t MATCH ? ORDER BY bm25(t), rowid DESC LIMIT 5"
#: CPU seconds a second of a server whose workers have nothing left to do.
_IDLE = 0.03


def measure(pace: Pace) -> list[Figure]:
    """Measure appends, turns, searches, pages, disk, memory: goals 30 to 37."""
    figures: list[Figure] = []
    with ExitStack() as stack:
        builds = {OURS: ROOT} | ({BEFORE: pace.before} if pace.before else {})
        sides = {
            name: stack.enter_context(_serve_hub(root)) for name, root in builds.items()
        }
        bare = stack.enter_context(_serve_bare())
        parts: tuple[Iterator[Figure], ...] = (
            _measure_appends(sides, bare, pace),
            _measure_batches(sides, pace),
            _measure_turns(sides, pace),
            _measure_searches(sides[OURS], pace),
            _measure_first_search(sides, pace),
            _measure_turn_page(sides[OURS], pace),
            _measure_seeks(sides, pace),
            _measure_disk(pace),
            _measure_memory(pace),
        )
        for figure in chain.from_iterable(parts):
            # All of it takes long, and the table stands at its end.
            took = f"{time.strftime('%X')} {figure.value:.3g}{figure.unit}"
            print(f"  {took} {figure.question}: {figure.behind}", flush=True)
            figures.append(figure)
    return figures


# Hubs and what they are asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Hub of one build while it serves, as an agent and an operator use it."""

    server: Server
    key: str
    session: str = ""

    def make_thread(self, name: str, total: int, *, budget: int = NARROW) -> None:
        """Make a thread of messages; its subject is its own, for searches share one."""
        limits = {"budget_tokens": budget, "reserved_tokens": 1_000}
        body = {"user_id": name, "config": {**limits, "max_slots": 1_000_000}}
        self.server.send("PUT", f"/threads/{name}", self.key, body)
        self.write(name, total)

    def write(self, thread: str, total: int) -> None:
        """Append so many messages in batches."""
        self.send(self.build_batches(thread, total))

    def build_batches(self, thread: str, total: int) -> list[bytes]:
        slots = (load.slot(build_message(number)) for number in range(total))
        path = f"/threads/{thread}/slots:batch"
        batches = iter(lambda: [*islice(slots, BATCH)], [])
        return [build_request(path, self.key, {"items": each}) for each in batches]

    def take_turns(self, thread: str, numbers: Iterator[int], times: int) -> Sample:
        """Begin so many turns, each with a message of the user."""
        said = (build_message(2 * number) for number in islice(numbers, times))
        return self.send([load.turn_request(thread, self.key, each) for each in said])

    def search(self, thread: str, queries: Iterator[list[str]]) -> Sample:
        path = f"/threads/{thread}/search"
        bodies = ({"query": " ".join(words)} for words in islice(queries, SEARCHES))
        return self.send([build_request(path, self.key, body) for body in bodies])

    def seek(self, thread: str, seqs: Iterator[int], times: int) -> Sample:
        """Ask for the working set at any event, as replay does at rest."""
        path = f"threads/{thread}/panels/moment?at_seq="
        return self.read_pages([f"{path}{seq}" for seq in islice(seqs, times)])

    def read_pages(self, paths: list[str]) -> Sample:
        """Ask for pages of the project in the inspector."""
        cookie = f"Host: 127.0.0.1\r\nCookie: {COOKIE}={self.session}\r\n\r\n"
        return self.send(
            [f"GET /p/{PROJECT}/{path} HTTP/1.1\r\n{cookie}".encode() for path in paths]
        )

    def send(self, requests: list[bytes]) -> Sample:
        return send_all(self.server, requests)

    def await_idle(self) -> None:
        """Wait until the workers in the server have finished the writes' work."""
        for _ in range(60):
            before = self.server.cpu_seconds() or 0
            time.sleep(1)
            if (self.server.cpu_seconds() or 0) - before < _IDLE:
                return


@contextmanager
def _serve_hub(root: Path = ROOT) -> Iterator[Side]:
    with workplace() as folder:
        hub = Hub.fresh(folder, root=root)
        key = hub.key()
        session = hub.call("benchmarks.groups:print_sessions", count=1).strip()
        with hub.serve() as server:
            yield Side(server=server, key=key, session=session)


@contextmanager
def _serve_bare() -> Iterator[Side]:
    with workplace() as folder:
        program = (sys.executable, "-m", "benchmarks.bare_asgi")
        with Hub.fresh(folder).serve(program) as server:
            yield Side(server=server, key="none")


def build_queries(total: int) -> Iterator[list[str]]:
    """Yield three words of one of so many messages, none too common to tell."""
    chance, common = random.Random(11), {*build_vocabulary()[0][:COMMON]}
    while True:
        # The last word of a text may be cut off.
        words = build_text(chance.randrange(total)).split()[:-1]
        yield chance.sample(sorted({*words} - common), 3)


# Figures


def _compare_cpu(
    question: str, one: Series, other: Series, most: float | None = None
) -> Iterator[Figure]:
    """Compare the CPU of a request, where the system tells."""
    if one.cpu_us is not None and other.cpu_us is not None:
        yield _divide(question, one.cpu_us, other.cpu_us, most)


def _compare_time(
    question: str, one: Series, other: Series, most: float | None, share: int = 50
) -> Figure:
    """Compare the time that so many in a hundred requests took at most."""
    ours, theirs = (each.percentile(share) * 1e6 for each in (one, other))
    return _divide(f"{question}, p{share}", ours, theirs, most)


def _divide(question: str, ours: float, theirs: float, most: float | None) -> Figure:
    return Figure(
        question=question,
        value=ours / theirs,
        goal=None if most is None else Goal(most=most),
        behind=f"{ours:,.0f} µs ÷ {theirs:,.0f} µs",
    )


def _measure_appends(
    sides: Mapping[str, Side], bare: Side, pace: Pace
) -> Iterator[Figure]:
    things = {
        f"{name} {clients}": _append(side, clients, pace)
        for name, side in {**sides, BARE: bare}.items()
        for clients in (load.CLIENTS, 1)
    }
    taken = take_turns(things, rounds=pace.rounds)
    what = f"30: CPU of an append of {CHARACTERS} characters"
    for clients, goal in ((load.CLIENTS, 4), (1, 5)):
        ours = taken[f"{OURS} {clients}"]
        for name, most in ((BARE, goal), (BEFORE, None)):
            if other := taken.get(f"{name} {clients}"):
                asked = f"{what}, clients: {clients} ÷ {name}"
                yield from _compare_cpu(asked, ours, other, most)
    many, one = taken[f"{OURS} {load.CLIENTS}"], taken[f"{OURS} 1"]
    yield from _compare_cpu(f"{what}, 1 client ÷ {load.CLIENTS}", one, many, 1.4)


def _append(side: Side, clients: int, pace: Pace) -> Turn:
    writers = Writers(
        server=side.server,
        key=side.key,
        threads=[f"append-{clients}-{number}" for number in range(clients)],
        clients=clients,
        said=[build_message(number) for number in range(1_000)],
    )
    return partial(writers.turn, pace.turn_seconds)


def _measure_batches(sides: Mapping[str, Side], pace: Pace) -> Iterator[Figure]:
    total = pace.scale(40 * BATCH)

    def add_items(source: Path) -> Sample:
        with workplace() as folder:
            path = folder / "peer.sqlite3"
            stored = peers.store("peer_sessions.py", source, path, str(BATCH)).sample
        # Counted in batches, as requests are.
        return replace(stored, requests=stored.requests // BATCH)

    with workplace() as folder:
        source = folder / "runs.json"
        said = [build_message(number) for number in range(total)]
        source.write_text(json.dumps([{"traj": said}]), encoding="utf-8")
        things: dict[str, Turn] = {
            name: partial(each.send, each.build_batches("batches", total))
            for name, each in sides.items()
        }
        if peers.installed():
            things[PEER] = partial(add_items, source)
        taken = take_turns(things, rounds=pace.rounds)
    what = f"31: CPU of a batch of {BATCH} messages ÷"
    if BEFORE in taken:
        yield from _compare_cpu(f"{what} before", taken[OURS], taken[BEFORE], 0.25)
    if PEER in taken:
        asked = f"{what} openai-agents' add_items({BATCH})"
        yield from _compare_cpu(asked, taken[OURS], taken[PEER], 14)


def _measure_turns(sides: Mapping[str, Side], pace: Pace) -> Iterator[Figure]:
    short, long = pace.scale(SHORT), pace.scale(LONG)
    threads = {"narrow": (short, NARROW), "long": (long, NARROW), "wide": (short, WIDE)}
    things = {"append": _append(sides[OURS], 1, pace)}
    for name, side in sides.items():
        for thread, (total, budget) in threads.items():
            if name == OURS or thread == "wide":
                side.make_thread(thread, total, budget=budget)
                turn = partial(side.take_turns, thread, count(total), pace.scale(100))
                things[f"{name} {thread}"] = turn
        side.await_idle()
    taken = take_turns(things, rounds=pace.rounds)
    narrow, wide = taken[f"{OURS} narrow"], taken[f"{OURS} wide"]
    what = f"32: CPU of a turn under {NARROW:,} tokens at"
    asked = f"{what} {short:,} messages ÷ an append"
    yield from _compare_cpu(asked, narrow, taken["append"], 5)
    asked = f"{what} {long:,} messages ÷ at {short:,}"
    yield from _compare_cpu(asked, taken[f"{OURS} long"], narrow, 1.15)
    what = f"of a turn under {WIDE:,} tokens at {short:,} messages"
    if BEFORE in sides:
        asked = f"32: CPU {what} ÷ before"
        yield from _compare_cpu(asked, wide, taken[f"{BEFORE} wide"], 0.4)
    slow, middle = (wide.percentile(share) * 1e6 for share in (99, 50))
    yield _divide(f"32: time {what}, p99 ÷ p50", slow, middle, 2)


def _measure_searches(side: Side, pace: Pace) -> Iterator[Figure]:
    for total, most in ((pace.scale(SHORT), 4), (pace.scale(LONG), 1.2)):
        thread = f"searched-{total}"
        side.make_thread(thread, total)
        side.await_idle()
        with closing(
            open_fts5([build_text(number) for number in range(total)])
        ) as peer:
            things = {
                OURS: partial(side.search, thread, build_queries(total)),
                "FTS5": partial(_search_fts5, peer, build_queries(total)),
            }
            taken = take_turns(things, rounds=pace.rounds)
        asked = f"33: search of a thread of {total:,} messages by 3 words ÷ FTS5 in RAM"
        yield _compare_time(asked, taken[OURS], taken["FTS5"], most)


def _search_fts5(peer: Connection, queries: Iterator[list[str]]) -> Sample:
    times = []
    for words in islice(queries, SEARCHES):
        start = time.perf_counter()
        peer.execute(_FTS5, (" OR ".join(words),)).fetchall()
        times.append(time.perf_counter() - start)
    return Sample(requests=len(times), seconds=sum(times), times=tuple(times))


def _measure_first_search(sides: Mapping[str, Side], pace: Pace) -> Iterator[Figure]:
    total, numbers = pace.scale(LONG), count()

    def search_new_thread(side: Side) -> Sample:
        thread = f"new-{next(numbers)}"
        side.make_thread(thread, total)
        return side.search(thread, islice(build_queries(total), 1))

    things = {name: partial(search_new_thread, side) for name, side in sides.items()}
    taken = take_turns(things, rounds=3)
    asked = f"33: first search after {total:,} messages were written"
    if BEFORE in taken:
        yield _compare_time(f"{asked} ÷ before", taken[OURS], taken[BEFORE], 0.1)
    else:
        seconds = taken[OURS].percentile(50)
        yield Figure(question=asked, value=seconds, unit=" s")


def _measure_turn_page(side: Side, pace: Pace) -> Iterator[Figure]:
    path, times = "threads/wide/turns/2", pace.scale(100)
    things = {
        "turn": partial(side.read_pages, [path] * times),
        "overview": partial(side.read_pages, [""] * times),
    }
    taken = take_turns(things, rounds=pace.rounds)
    asked = f"34: time of the page of a turn under {WIDE:,} tokens ÷ the overview"
    yield _compare_time(asked, taken["turn"], taken["overview"], 2.2)


def _measure_seeks(sides: Mapping[str, Side], pace: Pace) -> Iterator[Figure]:
    if BEFORE not in sides:
        return
    events, things = pace.scale(SEEK_EVENTS), dict[str, Turn]()
    for name, side in sides.items():
        side.make_thread("sought", 0)
        for number in range(events // BATCH):
            side.write("sought", BATCH)
            side.take_turns("sought", count(number), 1)
        side.await_idle()
        seqs = iter(partial(random.Random(7).randrange, 1, events), 0)
        things[name] = partial(side.seek, "sought", seqs, pace.scale(SEEKS))
    taken = take_turns(things, rounds=pace.rounds)
    asked = f"35: time of a seek in a thread of {events:,} events ÷ before"
    for share in (50, 99):
        yield _compare_time(asked, taken[OURS], taken[BEFORE], 0.25, share)


def _measure_disk(pace: Pace) -> Iterator[Figure]:
    total = pace.scale(LONG)

    def fill(hub: Hub, key: str) -> None:
        with hub.serve() as server:
            side = Side(server=server, key=key)
            side.make_thread("t", total)
            # What a search keeps for the next counts as well.
            side.search("t", islice(build_queries(total), 1))
            side.await_idle()

    asked = f"36: bytes on disk for messages of {CHARACTERS} characters ÷ content"
    yield weigh(asked, fill, count=total, size=CHARACTERS)


def _measure_memory(pace: Pace) -> Iterator[Figure]:
    """Measure the server's memory after work, and after as much in other threads."""
    total, sizes = pace.scale(HEAVY), list[int]()
    with _serve_hub() as side:
        for first in (0, 10):
            for thread in (f"t-{number}" for number in range(first, first + 10)):
                side.make_thread(thread, total // 10, budget=WIDE)
                side.take_turns(thread, count(total), pace.scale(20))
                side.search(thread, islice(build_queries(total // 10), pace.scale(20)))
                page = f"threads/{thread}/turns/2"
                side.read_pages([page, "", f"threads/{thread}"][: pace.scale(10)] * 4)
            side.await_idle()
            sizes.append(side.server.memory_bytes() or 0)
    asked = f"37: memory of the server after {total:,} messages, turns, searches, pages"
    if all(sizes):
        value = sizes[0] / 1e6
        yield Figure(question=asked, value=value, unit=" MB", goal=Goal(most=250))
        asked = "37: memory of the server after as much again ÷ before that"
        yield Figure(question=asked, value=sizes[1] / sizes[0])
