"""Browsers that watch a working set while an agent pages, and what they saw."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from websockets import Origin
from websockets.asyncio.client import ClientConnection, connect

from inspector import BUILD
from inspector.web.cookies import build_name
from memoryhub.services.access import operators
from tests.cast.sockets import number_of, sign_in
from tests.harness.instances import Instance, Server
from tests.promises.journal.appender import make_key, tell
from tests.promises.journal.clients import Client

#: As `test_live` has it: what is on screen is that old at most, or says so.
FRESH_SECONDS = 5.0
THREAD, PAGES, WORDS = "paged", 40, 60
#: Everything fits, nothing is pinned by a rule, and no fault is refused.
ROOMY = {
    "auto_pin_turns": 0,
    "max_faults_per_turn": 1_000,
    "max_fault_tokens_per_turn": 2_000_000,
}
#: Acts on a page, in order; each is an event or two.
ACTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("evict", {}),
    ("fault", {"level": 0}),
    ("pin", {}),
    ("unpin", {}),
)


class Browser:
    """Page that shows a working set: it paints each push and says so, or never."""

    def __init__(self, line: ClientConnection, *, paints: bool, seen: Seen) -> None:
        self.line, self.paints, self.seen = line, paints, seen
        #: When which event was on screen first.
        self.shown: list[tuple[float, int]] = []
        self.number = 0
        #: Lag that the server tells.
        self.head = 0
        self._moved = asyncio.Event()

    @property
    def seq(self) -> int:
        return self.shown[-1][1] if self.shown else 0

    async def hello(self, thread: UUID) -> None:
        want = {"thread": str(thread), "panels": ["working-set"], "seq": 0}
        said = {"t": "hello", "v": 1, "build": BUILD, "want": [want]}
        await self.line.send(json.dumps(said))

    async def watch(self) -> None:
        """Read until the line is closed."""
        async for text in self.line:
            assert isinstance(text, str)
            if text.startswith("{"):
                heads = json.loads(text).get("heads", {})
                self.head = max([self.head, *heads.values()])
            else:
                self._paint(text)
                if self.paints:
                    await self.ack()
            self._moved.set()

    async def ack(self) -> None:
        await self.line.send(json.dumps({"t": "ack", "n": self.number}))

    async def await_seq(self, seq: int) -> None:
        """Wait until that event is on screen; fail when nothing comes for 5 s."""
        while self.seq < seq:
            self._moved.clear()
            await asyncio.wait_for(self._moved.wait(), FRESH_SECONDS)

    def _paint(self, push: str) -> None:
        found = re.search(r'id="working-set"[^>]* data-seq="(\d+)"', push)
        assert found is not None
        seq, self.number = int(found[1]), number_of(push)
        assert seq > self.seq
        self.shown.append((time.monotonic(), seq))
        self.seen.note(seq, push)

    def seconds_behind(self, seq: int, since: float) -> float:
        """Return the seconds from then until this event, or a later one, was shown."""
        return max(0.0, next(at for at, shown in self.shown if shown >= seq) - since)


@dataclass(slots=True)
class Seen:
    """Texts pushed to the browsers of one server, by event."""

    texts: dict[int, set[bytes]] = field(default_factory=dict)

    def note(self, seq: int, push: str) -> None:
        # Each push begins with a mark of its own.
        shared = push.partition("</output>")[2].encode()
        self.texts.setdefault(seq, set()).add(hashlib.sha256(shared).digest())


@asynccontextmanager
async def watching(
    server: Server,
    sessions: list[str],
    thread: UUID,
    *,
    seen: Seen,
    paints: bool = True,
) -> AsyncIterator[list[Browser]]:
    """Open a browser for each session; all of them hear until the block ends."""
    browsers: list[Browser] = []
    hearing: list[asyncio.Task[None]] = []

    async def wait_for_end() -> None:
        await asyncio.gather(*hearing)

    async with AsyncExitStack() as stack:
        # The last of all: once their lines are closed.
        stack.push_async_callback(wait_for_end)
        for session in sessions:
            cookie = f"{build_name(settings.SESSION_COOKIE_NAME, server.url)}={session}"
            line = await connect(
                f"ws://127.0.0.1:{server.port}/ws/live/acme",
                origin=Origin(server.url),
                additional_headers={"Cookie": cookie},
                compression=None,
                proxy=None,
            )
            stack.push_async_callback(line.close)
            browsers.append(Browser(line, paints=paints, seen=seen))
            hearing.append(asyncio.create_task(browsers[-1].watch()))
            await browsers[-1].hello(thread)
        yield browsers


@dataclass(slots=True, kw_only=True)
class Pager:
    """Agent that pages at a steady rate, and notes when each command was durable."""

    client: Client
    thread: UUID
    seq: int
    #: When which event was answered for.
    done: list[tuple[float, int]] = field(default_factory=list)
    _began: float = 0.0

    @classmethod
    def begin(cls, client: Client) -> Pager:
        """Make a thread with a working set of pages."""
        made = client.put(f"/threads/{THREAD}", {"config": ROOMY})
        assert made.status in (200, 201), made.body
        items = [_build_page(number) for number in range(PAGES)]
        asked = client.post(f"/threads/{THREAD}/pages:batch", {"items": items})
        assert asked.status == 201, asked.body
        # What was made since the last message of the user's could not leave.
        said = client.append(THREAD, "Go on.")
        assert said.status == 201, said.body
        thread = UUID(made.body["thread_id"])
        return cls(client=client, thread=thread, seq=said.body["seq"])

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._began

    async def page_steadily(self, times: int, *, per_second: float) -> None:
        """Page at a steady pace; slow commands are made up for."""
        self._began = self._began or time.monotonic()
        for number in range(len(self.done), len(self.done) + times):
            # The load itself, and nothing that is waited for.
            await asyncio.sleep(number / per_second - self.seconds)
            await asyncio.to_thread(self._act, number)

    def _act(self, number: int) -> None:
        verb, body = ACTS[number % len(ACTS)]
        page = f"p-{number // len(ACTS) % PAGES}"
        answer = self.client.post(f"/threads/{THREAD}/pages/{page}/{verb}", body)
        assert answer.status == 200, answer.body
        self.seq += 1
        self.done.append((time.monotonic(), self.seq))


def _build_page(number: int) -> dict[str, Any]:
    text = " ".join(f"word-{number}-{n}" for n in range(WORDS))
    return {
        "page_id": f"p-{number}",
        "type": "artifact",
        "modality": "text",
        "content": {"text": text},
    }


def fetch_figures(server: Server, session: str) -> dict[str, int]:
    """Return the hub's figures from the server's health page."""
    line = HTTPConnection("127.0.0.1", server.port, timeout=30)
    cookie = f"{build_name(settings.SESSION_COOKIE_NAME, server.url)}={session}"
    try:
        line.request("GET", "/p/acme/health", headers={"Cookie": cookie})
        answer = line.getresponse()
        page = answer.read().decode()
    finally:
        line.close()
    assert answer.status == 200, page
    return dict(
        _parse_figures(page.partition('<li id="live">')[2].partition("</li>")[0])
    )


def _parse_figures(card: str) -> Iterator[tuple[str, int]]:
    for name, value in re.findall(r"<span>([a-z ]+) ([\d,]+)</span>", card):
        yield name.replace(" ", "_"), int(value.replace(",", ""))


async def await_figures(server: Server, session: str, **wanted: int) -> None:
    """Wait until the hub has these figures, within its own time limits."""
    async with asyncio.timeout(60):
        while wanted.items() - (await ask(server, session)).items():
            pass


async def ask(server: Server, session: str) -> dict[str, int]:
    return await asyncio.to_thread(fetch_figures, server, session)


def resident_bytes(server: Server) -> int:
    pages = Path(f"/proc/{server.process.pid}/statm").read_text(encoding="ascii")
    return int(pages.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def prepare_sessions(instance: Instance, sessions: int) -> tuple[str, list[str]]:
    """Return a key of acme, and operators' sessions."""
    key, *keys = instance.call("tests.promises.live.watchers:prepare", sessions).split()
    return key, keys


# Run in a process of its own, see tests.harness.instances


def prepare(sessions: int) -> None:
    make_key()
    operator = operators.ensure_default()
    for _ in range(sessions):
        tell(sign_in(operator))
