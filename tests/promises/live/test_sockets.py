"""Sockets of a real server, whose peers flood, freeze or lose their key."""

from __future__ import annotations

import json
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

import pytest
from django.conf import settings
from websockets import Origin
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.sync.client import ClientConnection, connect

from inspector import BUILD
from inspector.web.cookies import build_name
from tests.cast.sockets import number_of
from tests.harness.instances import UNLIMITED, Instance, Server
from tests.promises.conftest import Own
from tests.promises.journal.clients import Client

MIB = 1_048_576
#: Bytes that a peer may cost the server.
MEMORY_BYTES = 50 * MIB
#: A ping after 20 s, and 20 s for its answer; the rest is a busy machine's.
PINGED_SECONDS, SLACK_SECONDS = 40, 5
#: Within which a socket ends with its key.
REVOKED_SECONDS = 5
#: Sockets of each kind that say nothing while others flood.
IDLE = 20
PATIENCE = 20

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs /proc"
)

Address = tuple[str, dict[str, str]]


def agents(server: Server, key: str) -> Address:
    return "/ws/v1/agent", {"Authorization": f"Bearer {key}"}


def browsers(server: Server, session: str) -> Address:
    cookie = f"{build_name(settings.SESSION_COOKIE_NAME, server.url)}={session}"
    return "/ws/live/acme", {"Cookie": cookie, "Origin": server.url}


@contextmanager
def dial(server: Server, address: Address) -> Iterator[ClientConnection]:
    path, headers = address
    given = dict(headers)
    origin = given.pop("Origin", None)
    line = connect(
        f"ws://127.0.0.1:{server.port}{path}",
        origin=Origin(origin) if origin else None,
        additional_headers=given,
        compression=None,
        proxy=None,
        max_size=None,
    )
    with line as opened:
        yield opened


def say(line: ClientConnection, **message: Any) -> None:
    line.send(json.dumps(message))


def hear(line: ClientConnection, seconds: float = PATIENCE) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(line.recv(timeout=seconds))
    return said


def code_of(line: ClientConnection) -> int:
    """Return the server's closing code, whatever it sends before."""
    with suppress(ConnectionClosed):
        while True:
            line.recv(timeout=PATIENCE)
    assert line.protocol.close_code is not None
    return line.protocol.close_code


class Frozen:
    """Peer below all libraries: it answers no ping, and reads when told."""

    def __init__(self, server: Server, address: Address) -> None:
        path, headers = address
        upgrade = {
            "Host": f"127.0.0.1:{server.port}",
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        }
        self.line = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
        lines = [f"{name}: {text}" for name, text in {**upgrade, **headers}.items()]
        self.line.sendall(
            "\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]).encode()
        )
        assert self.line.recv(12) == b"HTTP/1.1 101"
        self.began = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.line.close()

    def say(self, **message: Any) -> None:
        frame = Frame(Opcode.TEXT, json.dumps(message).encode())
        self.line.sendall(frame.serialize(mask=True))

    def measure_lifetime(self) -> float:
        """Return the seconds from the handshake until the server hung up."""
        self.line.settimeout(PINGED_SECONDS + PATIENCE)
        try:
            while self.line.recv(65_536):
                pass
        except ConnectionResetError:
            pass
        return time.monotonic() - self.began


def memory(server: Server, *, peak: bool = False) -> int:
    """Return the resident bytes of the server; with `peak` the most there ever were."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(rf"{'VmHWM' if peak else 'VmRSS'}:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def session_of(instance: Instance, operator: str = "") -> str:
    return instance.call("tests.cast.sockets:print_session", operator).strip()


def append(server: Server, key: str, *contents: str) -> int:
    """Append to a thread and return the last seq."""
    with Client(server.port, key) as client:
        answers = [client.append("t-1", content) for content in contents]
    assert {answer.status for answer in answers} == {201}
    last: int = answers[-1].body["seq"]
    return last


@needs_proc
@pytest.mark.slow
@pytest.mark.promise("P19", load="sockets flooded by size, by parts and by number")
def test_socket_memory_is_bounded_under_a_flood(instance: Instance, key: str) -> None:
    """The flood is 17 MB in one message, in endless parts, or in small messages.

    Both kinds of socket are flooded, while others do nothing at all.
    """
    session = session_of(instance)
    with instance.serve() as server:
        append(server, key, "x")
        addresses = [agents(server, key), browsers(server, session)]
        for address in addresses:
            # A first time, so that what every socket needs is there.
            with dial(server, address) as line:
                line.send("[]")
                assert code_of(line) == 4400
        before = memory(server)
        with ExitStack() as idle:
            for address in addresses * IDLE:
                idle.enter_context(dial(server, address))
            for address in addresses:
                with dial(server, address) as line:
                    assert send_parts(line, ["x" * 17_000_000]) == 1009
                with dial(server, address) as line:
                    assert send_parts(line, "x" * 17_000_000) == 1009
                with dial(server, address) as line:
                    assert send_parts(line, ("" for _ in range(200_000))) == 1009
                with dial(server, address) as line:
                    assert flood_socket(line, address[0]) == 4429
            assert memory(server, peak=True) - before < MEMORY_BYTES
            append(server, key, "y")


def send_parts(line: ClientConnection, parts: Iterable[str]) -> int:
    """Send one message in parts; return the closing code."""
    with suppress(ConnectionClosed):
        line.send(parts)
    return code_of(line)


def flood_socket(line: ClientConnection, path: str) -> int:
    """Repeat a valid message on either kind of socket; return the outcome."""
    with suppress(ConnectionClosed):
        if path.startswith("/ws/live"):
            say(line, t="hello", v=1, build=BUILD, want=[])
            while True:
                say(line, t="ack", n=1)
        while True:
            say(line, t="unfollow", thread="t-1")
    return code_of(line)


@needs_proc
@pytest.mark.slow
def test_reader_that_never_reads_costs_no_memory(instance: Instance, key: str) -> None:
    """The reader follows 40 growing MB; others hear of each append meanwhile."""
    chunk = [secrets.token_hex(450_000) for _ in range(44)]
    with instance.serve(**UNLIMITED) as server:
        address = agents(server, key)
        append(server, key, *chunk[:2])
        with dial(server, address) as line:
            hear(line)
            say(line, t="follow", thread="t-1", after=0)
            for _ in range(3):
                hear(line)
            append(server, key, *chunk[2:40])
            for _ in chunk[2:40]:
                hear(line)
            before = memory(server)
            with Frozen(server, address) as frozen:
                frozen.say(t="follow", thread="t-1", after=0)
                last = append(server, key, *chunk[40:])
                while hear(line)["seq"] < last:
                    pass
                assert memory(server, peak=True) - before < MEMORY_BYTES


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_half_open_peers_are_closed_by_ping(instance: Instance, key: str) -> None:
    """A peer that is sent more than it takes is closed too and frees its place."""
    other = instance.managed("create_key", "acme").strip()
    session = session_of(instance)
    env = {**UNLIMITED, "MEMORYHUB_KEY_STREAMS": "1"}
    with instance.serve(**env) as server, ExitStack() as stack:
        append(server, other, *(secrets.token_hex(450_000) for _ in range(20)))
        stuck = stack.enter_context(Frozen(server, agents(server, other)))
        stuck.say(t="follow", thread="t-1", after=0)
        agent = stack.enter_context(Frozen(server, agents(server, key)))
        page = stack.enter_context(Frozen(server, browsers(server, session)))
        page.say(t="hello", v=1, build=BUILD, want=[])
        for frozen in (agent, page):
            seconds = frozen.measure_lifetime()
            assert PINGED_SECONDS / 2 < seconds < PINGED_SECONDS + SLACK_SECONDS
        while not has_room(server, other):
            since = time.monotonic() - stuck.began
            assert since < PINGED_SECONDS + SLACK_SECONDS


def has_room(server: Server, key: str) -> bool:
    with dial(server, agents(server, key)) as line:
        with suppress(ConnectionClosed):
            return hear(line) == {"t": "hello", "v": 1}
        assert code_of(line) == 4429
        return False


@pytest.mark.promise("P26", load="a socket that follows a thread under writes")
def test_socket_dies_with_its_key(own: Own) -> None:
    key, served = own.key, own.server
    other = own.instance.managed("create_key", own.project).strip()
    with writing(served, other):
        with dial(served, agents(served, key)) as line:
            assert hear(line) == {"t": "hello", "v": 1}
            say(line, t="follow", thread="t-1")
            assert [hear(line)["seq"] for _ in range(5)] == [1, 2, 3, 4, 5]
            with own.instance.begin("revoke_key", key.split("_")[2]) as revoking:
                done, last, code = time_events(line, until=lambda: revoking.poll() == 0)
            assert code == 4401
            assert last - done < REVOKED_SECONDS
        with dial(served, agents(served, other)) as line:
            assert hear(line) == {"t": "hello", "v": 1}


def test_socket_dies_with_session(instance: Instance, key: str) -> None:
    """The session ends by sign-out, or when another process disables the operator."""
    instance.managed("add_operator", "olga", "--project", "acme")
    session, olgas = session_of(instance), session_of(instance, "olga")
    with instance.serve(**UNLIMITED) as server, writing(server, key):
        thread = instance.call("tests.cast.sockets:print_thread", "t-1")
        with watching(server, session, thread) as line:
            sign_out(server, session)
            assert_ended(line, until=lambda: True)
        with (
            watching(server, olgas, thread) as line,
            instance.begin("disable_operator", "olga") as disabling,
        ):
            assert_ended(line, until=lambda: disabling.poll() == 0)
        with dial(server, browsers(server, session)) as line:
            assert code_of(line) == 4401


@contextmanager
def watching(server: Server, session: str, thread: str) -> Iterator[ClientConnection]:
    """Open a page that follows a thread."""
    want = {"thread": thread, "panels": ["head"], "seq": 0}
    with dial(server, browsers(server, session)) as line:
        say(line, t="hello", v=1, build=BUILD, want=[want])
        while not paint(line):
            pass
        yield line


def paint(line: ClientConnection) -> bool:
    """Take the next message as a page does; return whether it was a push."""
    text = str(line.recv(timeout=PATIENCE))
    if shown := not text.startswith("{"):
        say(line, t="ack", n=number_of(text))
    return shown


def sign_out(server: Server, session: str) -> None:
    """Sign out by the page's form, whose token is in a cookie as well."""
    token = secrets.token_hex(16)
    _, headers = browsers(server, session)
    name = build_name(settings.CSRF_COOKIE_NAME, server.url)
    headers["Cookie"] += f"; {name}={token}"
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    line = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    line.request("POST", "/sign-out", f"csrfmiddlewaretoken={token}", headers)
    assert line.getresponse().status == 302
    line.close()


def assert_ended(line: ClientConnection, *, until: Callable[[], bool]) -> None:
    done, last, code = time_events(line, until=until, hear=paint)
    assert code == 4401
    assert last - done < REVOKED_SECONDS + SLACK_SECONDS


def time_events(
    line: ClientConnection,
    *,
    until: Callable[[], bool],
    hear: Callable[[ClientConnection], object] = hear,
) -> tuple[float, float, int]:
    """Return when that event came, when the last one did, and the closing code."""
    done, last = 0.0, time.monotonic()
    with suppress(ConnectionClosed):
        while True:
            hear(line)
            last = time.monotonic()
            done = done or (last if until() else 0.0)
    return done or last, last, code_of(line)


@contextmanager
def writing(server: Server, key: str) -> Iterator[None]:
    """Append all the while."""
    stop, begun = Event(), Event()

    def write() -> None:
        with Client(server.port, key) as client:
            while not stop.is_set():
                assert client.append("t-1", "x").status == 201
                begun.set()

    thread = Thread(target=write)
    thread.start()
    try:
        assert begun.wait(PATIENCE)
        yield
    finally:
        stop.set()
        thread.join()


def test_key_in_the_address_is_refused_and_not_logged(
    instance: Instance, key: str
) -> None:
    with instance.serve() as server:
        for query in (f"key={key}", f"token={key.replace('_', '%5f')}"):
            with dial(server, (f"/ws/v1/agent?{query}", {})) as line:
                assert code_of(line) == 4401
        with dial(server, ("/ws/v1/agent", {"Origin": "http://evil.example"})) as line:
            say(line, t="hello", key=key)
            assert hear(line) == {"t": "hello", "v": 1}
        assert server.stop() in (0, -15)
    said = instance.log.read_text()
    assert '"code": 4401' in said
    assert key.rsplit("_", maxsplit=1)[-1] not in said


def test_stop_sends_sockets_away_to_come_back(instance: Instance, key: str) -> None:
    with instance.serve() as server:
        append(server, key, *"ab")
        with dial(server, agents(server, key)) as line:
            hear(line)
            say(line, t="follow", thread="t-1", after=2)
            assert hear(line)["seq"] == 3
            stopping = Thread(target=server.stop)
            stopping.start()
            assert code_of(line) == 1012
            stopping.join()
        assert server.process.returncode in (0, -15)
