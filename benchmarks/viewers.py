"""Many browsers that watch one working set while an agent pages in it."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from typing import Any

from websockets import Origin
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.figures import Figure, Goal, Pace
from benchmarks.hubs import MANAGE, PROJECT, Hub, Server, workplace
from benchmarks.rounds import Sample, Series, take_turns
from inspector import BUILD

Run = Callable[[Coroutine[Any, Any, Any]], Any]

VIEWERS, FEWER, PER_SECOND = 200, 50, 10
#: As many sockets as one session may have.
A_SESSION = 50
PAGES = 40
COOKIE, THREAD = "mh_session", "watched"
OURS, GROUPS = "ours", "a group message for each viewer"
#: The least that follows a thread, and what follows its pages.
PANELS = ("row", "working-set")
#: What happens to a page; each is an event.
ACTS = ("evict", "map", "pin", "unpin")
SILENT_SECONDS = 60


def measure(pace: Pace) -> list[Figure]:
    """Measure 200 viewers at ten events a second: delay, and cost of a frame."""
    panels = PANELS[-1:] if pace.quick else PANELS
    viewers = FEWER if pace.quick else VIEWERS
    return [
        figure for panel in panels for figure in _measured(panel, pace, viewers=viewers)
    ]


def _measured(panel: str, pace: Pace, *, viewers: int) -> list[Figure]:
    programs = {OURS: MANAGE, GROUPS: (sys.executable, "-m", "benchmarks.groups")}
    with ExitStack() as stack:
        folder = stack.enter_context(workplace())
        run = stack.enter_context(_loop())
        rooms = {
            name: stack.enter_context(
                _room(run, Hub.fresh(folder / name), program, panel, viewers=viewers)
            )
            for name, program in programs.items()
        }
        seconds = 2 * pace.turn_seconds
        turns = {
            name: partial(_turn, run, room, seconds) for name, room in rooms.items()
        }
        taken = take_turns(turns, rounds=pace.rounds)
        watched = f"{viewers} viewers of the {panel}, {PER_SECOND} events a second"
        return _figures(watched, taken, rooms[OURS].delays)


@contextmanager
def _loop() -> Iterator[Run]:
    """Loop in a thread of its own, so that pings are answered during a turn."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def _turn(run: Run, room: Room, seconds: float) -> Sample:
    sample: Sample = run(room.turn(int(seconds * PER_SECOND)))
    return sample


def _figures(
    watched: str, taken: dict[str, Series], delays: list[float]
) -> list[Figure]:
    ours, groups = taken[OURS], taken[GROUPS]
    late = sorted(delays)[len(delays) * 99 // 100]
    middle = sorted(delays)[len(delays) // 2]
    soon = Figure(
        question=f"{watched}: an event until it is shown, p99",
        value=late * 1_000,
        unit=" ms",
        goal=Goal(most=100),
        behind=f"p50 {middle * 1_000:.0f} ms; {ours.rate:,.0f} frames a second, "
        "viewers on the same machine",
        series=taken,
    )
    if ours.cpu_us is None or groups.cpu_us is None:
        return [soon]
    cost = Figure(
        question=f"{watched}: CPU of a frame ÷ with a group message for each viewer",
        value=ours.cpu_us / groups.cpu_us,
        goal=Goal(most=round(1 / 6, 3)),
        behind=f"{ours.described()} against {groups.described()}",
    )
    return [soon, cost]


class Viewer:
    """Page that shows a panel, and says so."""

    def __init__(self, line: ClientConnection) -> None:
        self.line = line
        self.shown: list[tuple[float, int]] = []
        self.moved = asyncio.Event()

    async def watch(self) -> None:
        async for text in self.line:
            assert isinstance(text, str)
            if text.startswith("{"):
                continue
            self.shown.append((time.perf_counter(), _number(text, 'data-seq="')))
            self.moved.set()
            number = _number(text, 'data-n="')
            await self.line.send(f'{{"t":"ack","n":{number}}}')

    async def await_seq(self, seq: int) -> None:
        while not self.shown or self.shown[-1][1] < seq:
            self.moved.clear()
            await asyncio.wait_for(self.moved.wait(), SILENT_SECONDS)


def _number(push: str, mark: str) -> int:
    at = push.index(mark) + len(mark)
    return int(push[at : push.index('"', at)])


class Room:
    """Server, an agent that pages on it, and all viewers."""

    def __init__(self, server: Server, key: str) -> None:
        self.server, self.key = server, key
        self.viewers: list[Viewer] = []
        self.delays: list[float] = []
        self._numbers = count()
        self._hearing: list[asyncio.Task[None]] = []
        self.seq = 0

    def prepare(self) -> str:
        """Make a working set of pages; return the thread's id."""
        config = {"config": {"auto_pin_turns": 0}}
        made: Any = self.server.send("PUT", f"/threads/{THREAD}", self.key, config)
        items = [_page(number) for number in range(PAGES)]
        self._post("/pages:batch", {"items": items})
        asked = {
            "content": "Go on.",
            "from": "user",
            "to": "agent",
            "type": "chat.user",
        }
        self.seq = self._post("/slots", asked)["seq"]
        return str(made["thread_id"])

    async def open(self, sessions: Sequence[str], hello: str) -> None:
        """Open a viewer for each session named; a session may be named repeatedly."""
        for session in sessions:
            cookie = f"{COOKIE}_{self.server.port}={session}"
            line = await connect(
                f"ws://127.0.0.1:{self.server.port}/ws/live/{PROJECT}",
                origin=Origin(f"http://127.0.0.1:{self.server.port}"),
                additional_headers={"Cookie": cookie},
                compression=None,
                proxy=None,
                ping_interval=None,
            )
            await line.send(hello)
            viewer = Viewer(line)
            self.viewers.append(viewer)
            self._hearing.append(asyncio.create_task(viewer.watch()))

    async def close(self) -> None:
        for viewer in self.viewers:
            await viewer.line.close()
        await asyncio.gather(*self._hearing)

    async def turn(self, events: int) -> Sample:
        """Page so many events at their pace, until all viewers have seen the last."""
        for viewer in self.viewers:
            viewer.shown = viewer.shown[-1:]
        cpu, begin, done = self.server.cpu_seconds(), time.perf_counter(), []
        for number in range(events):
            await asyncio.sleep(begin + number / PER_SECOND - time.perf_counter())
            await asyncio.to_thread(self._act, next(self._numbers))
            done.append((time.perf_counter(), self.seq))
        for viewer in self.viewers:
            await viewer.await_seq(self.seq)
        seconds, ended = time.perf_counter() - begin, self.server.cpu_seconds()
        self.delays += [
            max(0.0, next(at for at, shown in viewer.shown if shown >= seq) - since)
            for since, seq in done
            for viewer in self.viewers
        ]
        return Sample(
            requests=sum(len(viewer.shown) - 1 for viewer in self.viewers),
            seconds=seconds,
            cpu_seconds=None if cpu is None or ended is None else ended - cpu,
        )

    def _act(self, number: int) -> None:
        page = f"p-{number // len(ACTS) % PAGES}"
        self.seq = self._post(f"/pages/{page}/{ACTS[number % len(ACTS)]}", {})["seq"]

    def _post(self, path: str, body: object) -> Any:
        return self.server.post(f"/threads/{THREAD}{path}", self.key, body)


@contextmanager
def _room(
    run: Run, hub: Hub, program: Sequence[str], panel: str, *, viewers: int
) -> Iterator[Room]:
    key = hub.key()
    made = hub.call("benchmarks.groups:print_sessions", count=-(-viewers // A_SESSION))
    sessions = [each for each in made.split() for _ in range(A_SESSION)][:viewers]
    with hub.serve(program) as server:
        room = Room(server, key)
        want = f'{{"thread":"{room.prepare()}","panels":["{panel}"],"seq":0}}'
        hello = f'{{"t":"hello","v":1,"build":"{BUILD}","want":[{want}]}}'
        run(room.open(sessions, hello))
        try:
            yield room
        finally:
            run(room.close())


def _page(number: int) -> dict[str, object]:
    text = " ".join(f"word-{number}-{each}" for each in range(60))
    return {
        "page_id": f"p-{number}",
        "type": "artifact",
        "modality": "text",
        "content": {"text": text},
    }
