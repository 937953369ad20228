"""Model on loopback: a chat-completions server that answers from a script.

The one double in these tests, for the one thing that is not ours.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: From a request to the message that the model answers with.
Answer = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(slots=True)
class Model:
    """Running server, and every request that it was sent."""

    answer: Answer
    port: int = 0
    requests: list[dict[str, Any]] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def complete(self, request: dict[str, Any]) -> dict[str, Any]:
        """Build the body of a chat completion."""
        self.requests.append(request)
        message = {"role": "assistant", "content": None, **self.answer(request)}
        called = "tool_calls" if message.get("tool_calls") else "stop"
        return {
            "id": f"completion-{len(self.requests)}",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": called}],
        }


def call(number: int, **arguments: Any) -> dict[str, Any]:
    """Build a message that calls page_fault."""
    function = {"name": "page_fault", "arguments": json.dumps(arguments)}
    return {
        "tool_calls": [
            {"id": f"call-{number}", "type": "function", "function": function}
        ]
    }


@contextmanager
def serving(answer: Answer) -> Iterator[Model]:
    """Run a model that answers so, on its own port, until the block ends."""
    model = Model(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            found = self.path == "/v1/chat/completions"
            body = model.complete(json.loads(sent)) if found else {}
            raw = json.dumps(body).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *args: Any) -> None:
            """Print nothing: people read the tests' output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        model.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()
