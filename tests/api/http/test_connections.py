"""Rows 21 and 22 of the bad-input catalogue: lengths that lie, on real connections."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest

from memoryhub.api.http import gate
from tests.harness.instances import UNLIMITED, prepare_instance
from tests.promises.journal.clients import Client

pytestmark = pytest.mark.timeout(120)

BODY_SECONDS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """A server of its own, and a thread in it that requests try to write to."""

    port: int
    key: str

    def head(self, *headers: str, method: str = "POST") -> bytes:
        """Build the first lines of a request, up to its body."""
        lines = [
            f"{method} /api/v1/threads/t-1/slots HTTP/1.1",
            "Host: 127.0.0.1",
            f"Authorization: Bearer {self.key}",
            "Content-Type: application/json",
            *headers,
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def list_contents(self) -> list[object]:
        with Client(self.port, self.key) as client:
            listed = client.get("/threads/t-1/slots?limit=200").body["items"]
        return [item["content"] for item in listed]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with prepare_instance(tmp_path_factory.mktemp("connections") / "instance") as made:
        key = made.call("tests.promises.journal.appender:make_key").strip()
        with made.serve(**UNLIMITED) as server:
            with Client(server.port, key) as client:
                client.put("/threads/t-1", {})
            yield Hub(port=server.port, key=key)


def build_body(content: str) -> bytes:
    message = {"from": "a", "to": "b", "type": "x.y", "content": content}
    return json.dumps(message).encode()


def read_statuses(hub: Hub, *sent: bytes) -> list[int]:
    """Return the statuses of all answers until the server hangs up."""
    heard = b""
    line = socket.create_connection(("127.0.0.1", hub.port), timeout=30)
    # The server may hang up while we are still talking.
    with line, suppress(ConnectionError):
        for part in sent:
            line.sendall(part)
        while part := line.recv(65_536):
            heard += part
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", heard)]


def follow_up(hub: Hub) -> bytes:
    """Build the next request on the connection, which is the last."""
    text = build_body("next")
    return hub.head(f"Content-Length: {len(text)}", "Connection: close") + text


TEXT = build_body("first")
SIZE = len(TEXT)
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (SIZE, TEXT)

#: Headers under which no two servers would see the same body.
AMBIGUOUS: dict[str, tuple[str, ...]] = {
    "negative": (f"Content-Length: -{SIZE}",),
    "signed": (f"Content-Length: +{SIZE}",),
    "hex": (f"Content-Length: {SIZE:#x}",),
    "fraction": (f"Content-Length: {SIZE}.0",),
    "words": ("Content-Length: many",),
    "empty": ("Content-Length:",),
    "superscript": ("Content-Length: \u00b2",),
    "endless": (f"Content-Length: {'9' * 40}",),
    "listed": (f"Content-Length: {SIZE}, {SIZE}",),
    "twice": (f"Content-Length: {SIZE}",) * 2,
    "twice, differing": (f"Content-Length: {SIZE}", "Content-Length: 0"),
    "folded": ("Content-Length: 1\r\n 0",),
    "space before the colon": (f"Content-Length : {SIZE}",),
    "with chunked": (f"Content-Length: {SIZE}", "Transfer-Encoding: chunked"),
    "behind chunked": ("Transfer-Encoding: chunked", f"Content-Length: {SIZE}"),
    "chunked twice": ("Transfer-Encoding: chunked, chunked",),
    "chunked, then not": ("Transfer-Encoding: chunked, identity",),
    "nearly chunked": ("Transfer-Encoding: xchunked",),
}


@pytest.mark.parametrize("chunked", [False, True], ids=["plain", "in-chunks"])
@pytest.mark.parametrize("case", AMBIGUOUS)
def test_row_21_malformed_content_length_is_refused(
    hub: Hub, case: str, *, chunked: bool
) -> None:
    before = hub.list_contents()
    sent = CHUNKED if chunked else TEXT
    statuses = read_statuses(hub, hub.head(*AMBIGUOUS[case]) + sent + follow_up(hub))
    assert statuses in ([400], []), "closed, and the next request is not even looked at"
    assert hub.list_contents() == before


@pytest.mark.parametrize("missing", [1, SIZE // 2, SIZE])
def test_row_21_content_length_too_small_is_refused(hub: Hub, missing: int) -> None:
    """The bytes form no request, and the bytes behind them are none."""
    before = hub.list_contents()
    statuses = read_statuses(
        hub, hub.head(f"Content-Length: {SIZE - missing}") + TEXT + follow_up(hub)
    )
    assert statuses == [400]
    assert hub.list_contents() == before


def test_row_21_data_behind_a_whole_message_is_not_read_as_a_request(hub: Hub) -> None:
    """The message was whole and is answered as such, not with a 400."""
    before = hub.list_contents()
    garbage = b'"and more": true}'
    sent = hub.head(f"Content-Length: {SIZE}") + TEXT + garbage + follow_up(hub)
    assert read_statuses(hub, sent) == [201]
    assert hub.list_contents() == [*before, "first"]


@pytest.mark.parametrize("more", [1, 20])
def test_row_21_content_length_too_big_is_refused(hub: Hub, more: int) -> None:
    """The server takes the next request as the rest of the body."""
    before = hub.list_contents()
    head = hub.head(f"Content-Length: {SIZE + more}")
    assert read_statuses(hub, head + TEXT + follow_up(hub)) == [400]
    assert hub.list_contents() == before


def test_row_21_content_length_that_covers_the_next_request_is_refused(
    hub: Hub,
) -> None:
    """The bytes behind the swallowed request are a request again."""
    before, swallowed = hub.list_contents(), follow_up(hub)
    head = hub.head(f"Content-Length: {SIZE + len(swallowed)}")
    last = hub.head("Connection: close", method="GET")
    assert read_statuses(hub, head + TEXT + swallowed + last) == [400, 200]
    assert hub.list_contents() == before


def test_row_21_client_that_leaves_in_the_middle_writes_nothing(hub: Hub) -> None:
    before = hub.list_contents()
    with socket.create_connection(("127.0.0.1", hub.port), timeout=30) as line:
        line.sendall(hub.head(f"Content-Length: {SIZE + 1}") + TEXT)
    assert hub.list_contents() == before


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_row_23_unwanted_body_is_not_read_as_a_request(hub: Hub, method: str) -> None:
    before, hidden = hub.list_contents(), follow_up(hub)
    statuses = read_statuses(
        hub,
        hub.head(f"Content-Length: {len(hidden)}", method=method)
        + hidden
        + hub.head("Connection: close", method="GET"),
    )
    assert statuses == ([405, 200] if method == "DELETE" else [200, 200])
    assert hub.list_contents() == before


def test_client_that_sends_on_hears_why_it_is_refused(hub: Hub) -> None:
    """The client's body is above the cap, and it reads only after sending all."""
    piece = b" " * 262_144
    with socket.create_connection(("127.0.0.1", hub.port), timeout=10) as line:
        line.sendall(hub.head(f"Content-Length: {8 * len(piece)}"))
        for _ in range(8):
            time.sleep(0.02)
            line.sendall(piece)
        assert line.recv(65_536).startswith(b"HTTP/1.1 413 ")


@pytest.mark.slow
@pytest.mark.parametrize("chunked", [False, True], ids=["plain", "in-chunks"])
def test_slow_body_is_closed(hub: Hub, *, chunked: bool) -> None:
    """Row 22: a byte a second."""
    assert gate.BODY_SECONDS < BODY_SECONDS
    before, heard = hub.list_contents(), b""
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {SIZE}"
    with socket.create_connection(("127.0.0.1", hub.port), timeout=1) as line:
        began = time.monotonic()
        line.sendall(hub.head(length))
        for byte in TEXT:
            line.sendall(b"1\r\n%c\r\n" % byte if chunked else b"%c" % byte)
            # A second in which the server may say something.
            try:
                heard = line.recv(65_536)
                break
            except TimeoutError:
                continue
        line.settimeout(10)
        with suppress(ConnectionError):
            while part := line.recv(65_536):
                heard += part
        seconds = time.monotonic() - began
    assert heard.startswith(b"HTTP/1.1 400 ")
    assert seconds <= BODY_SECONDS
    assert hub.list_contents() == before
