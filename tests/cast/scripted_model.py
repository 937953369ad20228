"""Model on loopback that answers from a script, and breaks as told.

A double for what is not ours: a chat-completions server of bare sockets, so that it can
reset, hang, drip and lie about what it sends.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from memoryhub.model_settings import ModelSettings

KEY = "sk-test-4711"


@dataclass(frozen=True)
class Reply:
    """Reply to one question."""

    body: bytes = b""
    status: int = 200
    headers: tuple[str, ...] = ()
    #: One of: reset, hang, drip, drip_head.
    deed: str = ""


def saying(text: Any, **usage: int) -> Reply:
    """Build a completion of this text."""
    message = {"role": "assistant", "content": text}
    found = {"choices": [{"index": 0, "message": message}], "usage": usage}
    return Reply(json.dumps(found).encode())


@dataclass
class ScriptedModel:
    """Running server: its script, and every question it was asked."""

    port: int
    script: list[Reply] = field(default_factory=list)
    #: Instead of a script: by the key that asks, and what it sends.
    replies: Callable[[str, dict[str, Any]], Reply] | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    #: Set when it is to let go of whoever hangs.
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def settings(self) -> ModelSettings:
        return ModelSettings(
            url=f"http://127.0.0.1:{self.port}/v1", name="small", key=KEY
        )

    def env(self, key: str = KEY) -> dict[str, str]:
        """Return the environment by which a process of ours finds this model."""
        parts = {"URL": self.settings.url, "NAME": "small", "KEY": key}
        return {f"MEMORYHUB_MODEL_{each}": parts[each] for each in parts}

    def answer(self, line: socket.socket) -> None:
        headers, body = _request(line)
        self.headers.append(headers)
        question = json.loads(body)
        self.asked.append(question)
        if self.replies is None:
            reply = self.script.pop(0)
        else:
            reply = self.replies(headers["authorization"].split()[1], question)
        if reply.deed == "reset":
            linger = struct.pack("ii", 1, 0)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            return
        if reply.deed == "hang":
            self.over.wait(30)
            return
        heads = [
            f"HTTP/1.1 {reply.status} Scripted",
            f"Content-Length: {len(reply.body)}",
            "Connection: close",
            *reply.headers,
        ]
        head = "\r\n".join([*heads, "", ""]).encode()
        slow = {"drip": reply.body, "drip_head": head + reply.body}
        if reply.deed != "drip_head":
            line.sendall(head)
        if reply.deed not in slow:
            line.sendall(reply.body)
        for each in slow.get(reply.deed, b""):
            line.sendall(bytes([each]))
            if self.over.wait(0.05):
                return


def _request(line: socket.socket) -> tuple[dict[str, str], bytes]:
    raw = b""
    while b"\r\n\r\n" not in raw:
        raw += _received(line)
    head, _, body = raw.partition(b"\r\n\r\n")
    lines = [each.decode().split(": ", 1) for each in head.split(b"\r\n")[1:]]
    headers = {name.lower(): value for name, value in lines}
    while len(body) < int(headers["content-length"]):
        body += _received(line)
    return headers, body


def _received(line: socket.socket) -> bytes:
    """Return received bytes; raise once none will come, as after the client's kill."""
    if part := line.recv(65_536):
        return part
    raise ConnectionAbortedError


@contextmanager
def running(*script: Reply) -> Iterator[ScriptedModel]:
    """Run a model on its own port, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        model = ScriptedModel(port=server.getsockname()[1], script=[*script])
        server.settimeout(0.05)

        def answer(line: socket.socket) -> None:
            line.settimeout(30)
            with line, suppress(OSError):
                model.answer(line)

        def serve() -> None:
            # Several may ask at once.
            with ThreadPoolExecutor(8) as threads:
                while not model.over.is_set():
                    with suppress(OSError):
                        threads.submit(answer, server.accept()[0])

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield model
        finally:
            model.over.set()
            thread.join()
