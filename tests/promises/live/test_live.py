"""P28: a view is at most five seconds old or says so; no gap is silent."""

from __future__ import annotations

import json
import random
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from channels.layers import InMemoryChannelLayer
from django.conf import settings
from websockets import Origin
from websockets.sync.client import ClientConnection, connect

from inspector import BUILD
from inspector.web.cookies import build_name
from memoryhub.api.http.streams import LOOK_SECONDS
from tests.harness import parts
from tests.harness.instances import UNLIMITED, Instance, Server
from tests.harness.instances import instance as fresh_instance
from tests.promises.journal.clients import Client, percentile

FRESH_SECONDS = 5.0


class Page:
    """Page's side of its socket, over a real connection."""

    def __init__(self, line: ClientConnection, thread: str) -> None:
        self.line = line
        want = {"thread": thread, "panels": ["events"], "seq": 0}
        self.say({"t": "hello", "v": 1, "build": BUILD, "want": [want]})
        self.mode = self.control("hello")["mode"]

    def say(self, message: dict[str, Any]) -> None:
        self.line.send(json.dumps(message))

    def hear(self) -> str:
        text = self.line.recv(timeout=FRESH_SECONDS)
        assert isinstance(text, str)
        return text

    def control(self, kind: str) -> dict[str, Any]:
        while True:
            text = self.hear()
            if text.startswith("{") and json.loads(text)["t"] == kind:
                said: dict[str, Any] = json.loads(text)
                return said

    def await_mode(self, mode: str) -> None:
        """Wait until the server names how it hears of commits, painting pushes."""
        while True:
            text = self.hear()
            if text.startswith("<"):
                self.paint(text)
            elif json.loads(text).get("mode") == mode:
                return

    def await_seq(self, seq: int) -> str:
        """Wait until the page shows that event; fail when nothing comes for 5 s."""
        while True:
            text = self.hear()
            if text.startswith("<") and self.paint(text) >= seq:
                return text

    def paint(self, push: str) -> int:
        """Acknowledge a push and return its seq."""
        self.say({"t": "ack", "n": int(require_match(r' data-n="(\d+)"', push))})
        return int(require_match(r'id="events"[^>]* data-seq="(\d+)"', push))


@contextmanager
def dial(server: Server, session: str) -> Iterator[ClientConnection]:
    name = build_name(settings.SESSION_COOKIE_NAME, server.url)
    line = connect(
        f"ws://127.0.0.1:{server.port}/ws/live/acme",
        origin=Origin(server.url),
        additional_headers={"Cookie": f"{name}={session}"},
        compression=None,
        proxy=None,
    )
    with line as opened:
        yield opened


def require_match(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None
    return match[1]


@contextmanager
def redis(program: str, place: Path) -> Iterator[ExitStack]:
    """Run a Redis of this test's own, which it may stop."""
    with ExitStack() as stack:
        stack.enter_context(parts.redis_server(program, place))
        yield stack


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "redis.sock"


@pytest.fixture
def program() -> str:
    found = shutil.which("redis-server", path=parts.search_path())
    assert found is not None, "grown tests run where there is a Redis"
    return found


@pytest.fixture
def pair(tmp_path: Path, place: Path) -> Iterator[Instance]:
    """Yield an instance for two servers, with a Redis of its own between them."""
    extra = {"REDIS_URL": f"unix://{place}", **UNLIMITED}
    with fresh_instance(tmp_path / "pair", **extra) as made:
        made.managed("create_project", "acme")
        yield made


def session_of(made: Instance) -> str:
    return made.call("tests.cast.sockets:print_session").strip()


def rate(server: Server, key: str, appends: int) -> tuple[float, int]:
    """Return the seconds of a typical append, and the last seq."""
    with Client(server.port, key) as client:
        answers = [client.append("t-1", f"message {each}") for each in range(appends)]
    assert {answer.status for answer in answers} == {201}
    last: int = answers[-1].body["seq"]
    return percentile((answer.seconds for answer in answers), 0.5), last


@pytest.mark.promise("P28", load="2 processes, a Redis that goes and comes")
@pytest.mark.grown
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_streams_of_two_processes_survive_a_lost_redis(
    pair: Instance, program: str, place: Path
) -> None:
    """An append through one server reaches a page of the other, Redis or not."""
    key = pair.managed("create_key", "acme").strip()
    with ExitStack() as stack:
        bell = stack.enter_context(redis(program, place))
        one = stack.enter_context(pair.serve())
        two = stack.enter_context(pair.serve())
        rate(one, key, 1)
        thread = pair.call("tests.cast.sockets:print_thread", "t-1").strip()
        page = Page(stack.enter_context(dial(two, session_of(pair))), thread)
        assert page.mode == "doorbell"
        before, last = rate(one, key, 100)
        page.await_seq(last)

        bell.close()
        without, last = rate(one, key, 100)
        # At full speed: a dead Redis is no part of a write.
        assert without < max(3 * before, 0.02)
        page.await_seq(last)
        page.await_mode("polling")
        _, last = rate(one, key, 1)
        page.await_seq(last)

        with redis(program, place):
            page.await_mode("doorbell")
            _, last = rate(one, key, 1)
            page.await_seq(last)
            assert two.stop() in (0, -15)
            assert one.stop() in (0, -15)
    pair.managed("verify", "--all")


@pytest.mark.grown
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_stream_is_rung_by_the_process_that_writes(
    pair: Instance, program: str, place: Path
) -> None:
    """Polls alone would deliver half of the events later."""
    key = pair.managed("create_key", "acme").strip()
    with redis(program, place), pair.serve() as one, pair.serve() as two:
        rate(one, key, 1)
        for server in (one, two):
            late = delays(server, one, key, events=15)
            assert percentile(late, 0.5) < LOOK_SECONDS / 4
        assert two.stop() in (0, -15)
        assert one.stop() in (0, -15)


def delays(follows: Server, writes: Server, key: str, *, events: int) -> list[float]:
    """Return the seconds from each append's answer to its event on a stream."""
    line = HTTPConnection("127.0.0.1", follows.port, timeout=30)
    headers = {"Authorization": f"Bearer {key}", "Accept": "text/event-stream"}
    line.request("GET", "/api/v1/threads/t-1/events?after=0", headers=headers)
    stream, found = line.getresponse(), []
    assert stream.status == 200
    for _ in range(events):
        _, last = rate(writes, key, 1)
        began = time.monotonic()
        while stream.readline().strip() != f"id: {last}".encode():
            assert not stream.closed
        found.append(time.monotonic() - began)
        # Anywhere between two looks.
        time.sleep(random.random() * LOOK_SECONDS / 3)
    line.close()
    return found


@pytest.mark.promise("P28", load="a doorbell that carries events", control=True)
async def test_doorbell_alone_would_lose_events() -> None:
    """This control sends events as messages of the layer, which loses most."""
    layer = InMemoryChannelLayer()
    channel = await layer.new_channel()
    await layer.group_add("thread.burst", channel)
    for seq in range(2000):
        await layer.group_send("thread.burst", {"type": "event", "seq": seq})
    arrived = layer.channels[channel].qsize()
    assert arrived < 1000
