"""Agents' clients of a real server, as plain as can be: one connection, JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any, Self, TypeVar

Result = TypeVar("Result")

#: A server may hang up on a connection that has been idle for longer than 5 s.
IDLE_SECONDS = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    body: Any
    headers: dict[str, str]
    seconds: float
    raw: bytes = field(repr=False, default=b"")


class Client:
    """One keep-alive connection with one API key."""

    def __init__(self, port: int, key: str) -> None:
        self.line = HTTPConnection("127.0.0.1", port, timeout=30)
        self.headers = {"Authorization": f"Bearer {key}"}
        self.used = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.line.close()

    def get(self, path: str) -> Answer:
        return self.send("GET", path)

    def put(self, path: str, body: object) -> Answer:
        return self.send("PUT", path, body)

    def post(self, path: str, body: object, **headers: str) -> Answer:
        return self.send("POST", path, body, **headers)

    def append(self, thread: str, content: object, **headers: str) -> Answer:
        return self.post(f"/threads/{thread}/slots", build_slot(content), **headers)

    def send(
        self, method: str, path: str, body: object = None, **headers: str
    ) -> Answer:
        """Send a request; underscores in header names stand for dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = None if body is None else json.dumps(body).encode()
        if sent is not None:
            named["Content-Type"] = "application/json"
        return self.ask(method, f"/api/v1{path}", sent, {**self.headers, **named})

    def ask(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> Answer:
        """Send a request unchanged and return the server's answer."""
        began = time.monotonic()
        if began - self.used > IDLE_SECONDS:
            self.line.close()
        self.line.request(method, path, body=body, headers=headers)
        reply = self.line.getresponse()
        raw, self.used = reply.read(), time.monotonic()
        told = raw and "json" in reply.headers.get_content_type()
        return Answer(
            status=reply.status,
            body=json.loads(raw) if told else None,
            headers={name.lower(): value for name, value in reply.getheaders()},
            seconds=self.used - began,
            raw=raw,
        )


def build_slot(content: object, **fields: object) -> dict[str, object]:
    return {
        "from": "user",
        "to": "assistant",
        "type": "chat.user",
        "content": content,
        **fields,
    }


def at_once(
    work: Callable[[Client, int], Result],
    *,
    clients: int,
    key: str,
    port: int = 0,
    ports: Sequence[int] = (),
) -> list[Result]:
    """Do work on so many connections at the same time; return the results in order.

    All use one port, or each its own of `ports`.
    """

    def run_one(number: int) -> Result:
        with Client(ports[number] if ports else port, key) as client:
            return work(client, number)

    with ThreadPoolExecutor(clients) as pool:
        return list(pool.map(run_one, range(clients)))


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
