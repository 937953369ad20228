"""Clients of a soak: threads of one process, each on a connection that stays open.

`python -m benchmarks.soak_clients` reads the arguments of `SoakClient` as JSON, without
the client's number, and writes a line of JSON for each request.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from typing import Any

from tests.promises.journal.writers import build_slot, send_request

#: Requests until a client goes on in another thread of the hub, on its own server.
REQUESTS_A_THREAD = 200
#: What is later than this is not made up for: the rate falls instead.
LATE_SECONDS = 1.0
CLIENTS, TIMEOUT_SECONDS, BATCH = 6, 30, 5
WORDS = ("seat", "aisle", "window", "refund", "fare", "booking", "delay", "visa")
#: Of a hundred requests.
MIX = {"append": 45, "batch": 10, "slots": 18, "thread": 12, "search": 10, "turn": 5}
WRITTEN = {"append": 1, "batch": BATCH, "turn": 1}


class SoakClient:
    """Client that sends on time, and to the other server when its own is gone."""

    def __init__(
        self,
        client: int,
        *,
        process: int,
        ports: Sequence[int],
        key: str,
        rate: float,
        seconds: float,
    ) -> None:
        """`rate` requests a second are those of the whole process, for `seconds`."""
        self.number, self.ports, self.key, self.count = client, ports, key, 0
        self.pause, self.seconds = CLIENTS / rate, seconds
        self.name = f"{process}.{client}"
        self.chance = random.Random(self.name)
        self.connect(client)

    def connect(self, number: int) -> None:
        port = self.ports[number % len(self.ports)]
        self.line = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)

    def run(self) -> None:
        """Send until the time is over; a late request counts from when it was due."""
        began = time.time()
        due = began + self.pause * self.number / CLIENTS
        while time.time() < began + self.seconds:
            time.sleep(max(0.0, due - time.time()))
            # One write, so that no client beside tears the line.
            sys.stdout.write(json.dumps(self.send_one(due)) + "\n")
            due = max(due + self.pause, time.time() - LATE_SECONDS)
        self.line.close()

    def send_one(self, due: float) -> dict[str, Any]:
        (kind,) = self.chance.choices([*MIX], [*MIX.values()])
        if self.count % REQUESTS_A_THREAD == 0:
            self.line.close()
            self.connect(self.number)
            # A thread begins with its first message.
            kind = "append"
        thread = f"soak-{self.name}.{self.count // REQUESTS_A_THREAD}"
        self.count += 1
        said = [f"{self.name}.{self.count}.{n}" for n in range(WRITTEN.get(kind, 0))]
        status, answer = self.send(*self.build(kind, f"/threads/{thread}", said))
        note = {"kind": kind, "status": status, "seconds": time.time() - due}
        if not said:
            return note
        # A turn's answer tells no index.
        made = [each.get("index") for each in answer.get("items", [answer])]
        return {**note, "thread": thread, "said": said, "indexes": made}

    def build(self, kind: str, path: str, said: list[str]) -> tuple[str, str, Any]:
        """Return method, path and body of a request."""
        texts = [f"{each} {self.draw(self.chance.randrange(5, 60))}" for each in said]
        slots = [build_slot({"role": "user", "content": text}) for text in texts]
        return {
            "append": ("POST", f"{path}/slots", slots[0] if slots else None),
            "batch": ("POST", f"{path}/slots:batch", {"items": slots}),
            "turn": ("POST", f"{path}/turns", {"items": slots}),
            "slots": ("GET", f"{path}/slots?limit=20", None),
            "thread": ("GET", path, None),
            "search": ("POST", f"{path}/search", {"query": self.draw(2)}),
        }[kind]

    def draw(self, count: int) -> str:
        return " ".join(self.chance.choices(WORDS, k=count))

    def send(self, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        """Return status and answer; 0 where the server went away, whatever it did."""
        try:
            return send_request(self.line, self.key, method, path, body)
        except (OSError, HTTPException, ValueError):
            self.line.close()
            self.connect(self.number + 1)
            return 0, {}


def main() -> None:
    given = json.load(sys.stdin)
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda number: SoakClient(number, **given).run(), range(CLIENTS)))


if __name__ == "__main__":
    main()
