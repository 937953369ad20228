"""Writers over HTTP that remember acknowledged appends."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any

READ_AT_ONCE = 200
#: Slow machines are shared; a writer that waits longer has found a bug.
PATIENCE_SECONDS = 60


def ask(
    port: int, key: str, method: str, path: str, body: Any = None
) -> tuple[int, dict[str, Any]]:
    """Send one request on its own connection; return status and JSON."""
    line = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        return send_request(line, key, method, path, body)
    finally:
        line.close()


def send_request(
    line: HTTPConnection, key: str, method: str, path: str, body: Any = None
) -> tuple[int, dict[str, Any]]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    sent = None if body is None else json.dumps(body)
    line.request(method, f"/api/v1{path}", sent, headers)
    response = line.getresponse()
    return response.status, json.loads(response.read())


def build_slot(content: Any) -> dict[str, Any]:
    return {"from": "user", "to": "agent", "type": "chat.user", "content": content}


def list_stored_slots(port: int, key: str, thread: str) -> list[dict[str, Any]]:
    """Return all slots of the thread, by index."""
    slots: list[dict[str, Any]] = []
    after = ""
    while True:
        path = f"/threads/{thread}/slots?limit={READ_AT_ONCE}{after}"
        status, batch = ask(port, key, "GET", path)
        assert status == 200, batch
        slots += batch["items"]
        if batch["next"] is None:
            return slots
        after = f"&after={batch['next']}"


@dataclass(slots=True, kw_only=True)
class Writers:
    """Eight writers that append to a few threads until the server is gone."""

    key: str
    threads: list[str]
    count: int = 8
    #: Appends acknowledged with a 201, by thread and index.
    promised: dict[str, dict[int, Any]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    #: Statuses other than 201.
    refused: list[int] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _running: list[threading.Thread] = field(default_factory=list)
    _round: int = 0

    @property
    def total(self) -> int:
        return sum(len(indices) for indices in self.promised.values())

    def start(self, port: int) -> None:
        self._round += 1
        for number in range(self.count):
            thread = threading.Thread(target=self._write, args=[port, number])
            self._running.append(thread)
            thread.start()

    def await_more(self, promises: int) -> None:
        """Wait until so many more appends were acknowledged."""
        with self._changed:
            goal = self.total + promises
            reached = self._changed.wait_for(
                lambda: self.total >= goal, timeout=PATIENCE_SECONDS
            )
        assert reached, f"{self.total} of {goal} appends; refused: {self.refused[:9]}"

    def join(self) -> None:
        """Wait for all writers; they end when the server does."""
        for thread in self._running:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()
        self._running.clear()

    def _write(self, port: int, number: int) -> None:
        name = self.threads[number % len(self.threads)]
        line, count = HTTPConnection("127.0.0.1", port, timeout=30), 0
        try:
            while True:
                count += 1
                said = {"round": self._round, "writer": number, "count": count}
                status, answer = send_request(
                    line, self.key, "POST", f"/threads/{name}/slots", build_slot(said)
                )
                self._note(name, said, status, answer)
        except (OSError, HTTPException, ValueError):
            pass  # the server is gone, perhaps in the middle of an answer
        finally:
            line.close()

    def _note(
        self, name: str, said: dict[str, int], status: int, answer: dict[str, Any]
    ) -> None:
        with self._changed:
            if status == 201:
                assert answer["index"] not in self.promised[name]
                self.promised[name][answer["index"]] = said
            else:
                self.refused.append(status)
            self._changed.notify_all()
