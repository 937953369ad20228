"""HTTP client of the demo's agents, with the standard library only."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from dataclasses import dataclass
from typing import Any

TIMEOUT_SECONDS = 30


class ServerRefusedError(Exception):
    """An error answer of the server, with its status and code."""

    def __init__(self, status: int, code: str) -> None:
        self.status = status
        self.code = code
        super().__init__(f"{status} {code}")


@dataclass(slots=True, kw_only=True)
class DemoClient:
    """Connection settings and calls of one agent. Not shared between threads."""

    host: str
    port: int
    key: str
    #: Number of requests that the server accepted.
    accepted: int = 0

    def put_thread(self, thread: str, **body: Any) -> dict[str, Any]:
        """Create the thread, or return the existing one."""
        return self.request("PUT", f"/threads/{thread}", body)

    def append(
        self, thread: str, slot: dict[str, Any], *, request: str | None = None
    ) -> dict[str, Any]:
        """Append one slot; under a request key a repeat has no second effect."""
        return self.request("POST", f"/threads/{thread}/slots", slot, request=request)

    def append_batch(
        self, thread: str, slots: list[dict[str, Any]], *, request: str | None = None
    ) -> dict[str, Any]:
        body = {"items": slots}
        return self.request(
            "POST", f"/threads/{thread}/slots:batch", body, request=request
        )

    def act(self, thread: str, verb: str, /, **body: Any) -> dict[str, Any]:
        """Close, reopen or fork the thread: `verb` is `close`, `reopen` or `fork`."""
        return self.request("POST", f"/threads/{thread}:{verb}", body)

    def begin_turn(self, thread: str, slots: list[dict[str, Any]]) -> dict[str, Any]:
        """Append the slots and begin a turn, which packs the model's next request."""
        return self.request("POST", f"/threads/{thread}/turns", {"items": slots})

    def put_page(
        self, thread: str, page_id: str, *, text: str, **body: Any
    ) -> dict[str, Any]:
        """Write a page of text; an existing page gets a new version."""
        page = {"modality": "text", "content": {"text": text}, **body}
        return self.request("PUT", f"/threads/{thread}/pages/{page_id}", page)

    def act_on(
        self, thread: str, page_id: str, verb: str, **body: Any
    ) -> dict[str, Any]:
        """Act on a page: `verb` is `pin`, `unpin`, `reference` or `fault`."""
        path = f"/threads/{thread}/pages/{page_id}/{verb}"
        return self.request("POST", path, body)

    def call_tool(self, thread: str, call: dict[str, Any]) -> dict[str, Any]:
        """Send a model's tool call; return the message to answer the model with."""
        return self.request("POST", f"/threads/{thread}/tool-calls", call)

    def set_key(self, thread: str, key: str, value: Any, **expiry: int) -> None:
        """Set a key, without expiry or for `ttl_seconds`."""
        body = {"value": value, **expiry}
        self.request("PUT", f"/threads/{thread}/keys/{key}", body)

    def set_task(self, thread: str, **fields: Any) -> None:
        """Set the whole task."""
        self.request("PUT", f"/threads/{thread}/task", fields)

    def update_task(self, thread: str, **fields: Any) -> None:
        """Update the sent fields of the task; no fields are a heartbeat."""
        self.request("PATCH", f"/threads/{thread}/task", fields)

    def note(self, thread: str, text: str) -> None:
        """Add a line to the notes."""
        self.request("POST", f"/threads/{thread}/notes", {"text": text})

    def take_checkpoint(self, thread: str, **fields: str) -> int:
        """Take a checkpoint and return its number."""
        seq: int = self.request("POST", f"/threads/{thread}/checkpoints", fields)["seq"]
        return seq

    def restore(self, thread: str, checkpoint: str) -> None:
        """Restore working memory to the checkpoint."""
        path = f"/threads/{thread}/checkpoints/{checkpoint}:restore"
        self.request("POST", path, {})

    def put_block(self, thread: str, block: str, **body: Any) -> None:
        """Write a block, which is in every request about this person."""
        self.request("PUT", f"/threads/{thread}/blocks/{block}", body)

    def append_to_block(self, thread: str, block: str, text: str) -> None:
        body = {"text": text, "by": "tool"}
        self.request("POST", f"/threads/{thread}/blocks/{block}/append", body)

    def fetch_memory(self, subject: str) -> dict[str, Any]:
        """Fetch a person's memory: blocks, facts, episodes."""
        return self.request("GET", f"/subjects/{subject}/memory", None)

    def assert_fact(self, thread: str, **fact: Any) -> int:
        """Assert a fact of a person; return the seq of the assertion."""
        seq: int = self.request("POST", f"/threads/{thread}/facts", fact)["seq"]
        return seq

    def retract(self, subject: str, fact: int) -> None:
        """Retract a fact as wrong: no model can assert it again."""
        path = f"/subjects/{subject}/facts/{fact}:retract"
        self.request("POST", path, {"reason": "wrong"})

    def remember(self, subject: str, **exchange: Any) -> None:
        """Add an exchange that took place elsewhere."""
        self.request("POST", f"/subjects/{subject}/episodes", exchange)

    def request(
        self, method: str, path: str, body: Any, *, request: str | None = None
    ) -> dict[str, Any]:
        """Send a request; return the answer. Raises ServerRefusedError, or OSError."""
        headers, text = {"Authorization": f"Bearer {self.key}"}, None
        if body is not None:
            headers["Content-Type"], text = "application/json", json.dumps(body)
        if request is not None:
            headers["Idempotency-Key"] = request
        status, answer = self._send(method, path, text, headers)
        if status >= 300:
            raise ServerRefusedError(status, str(answer.get("code", "")))
        self.accepted += 1
        return answer

    def _send(
        self, method: str, path: str, body: str | None, headers: dict[str, str]
    ) -> tuple[int, dict[str, Any]]:
        # A kept connection would be closed by the server while the agent rests.
        line = http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT_SECONDS)
        with closing(line):
            try:
                line.request(method, f"/api/v1{path}", body, headers)
                response = line.getresponse()
                return response.status, json.loads(response.read() or b"{}")
            except http.client.HTTPException as failure:
                raise ConnectionError(type(failure).__name__) from None
