"""A model that needs no network: it answers by what its request shows, from a script.

It speaks chat completions, so the loop beside it can't tell it from another; `serve`
serves any model.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_WAITING = "The train is late again, and nobody at the counter can say why. " * 30
#: Of the user, where none are given.
MESSAGES = [
    (
        "I have left my bag in the locker at the station. It is the green one beside "
        "the stairs, and its door sticks a little, so lift it. Its code is 4-17-22."
    ),
    *(f"Note {number}. {_WAITING}" for number in range(1, 5)),
    "What was the code of the locker?",
]
_CODE = re.compile(r"code is ([\d-]+)")


class RefusedError(Exception):
    """The model's server takes no such request."""


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> str:
    """Start a model on a free port of this machine, and return its base URL."""

    class Handler(_Handler):
        def answer(self, request: dict[str, Any]) -> dict[str, Any]:
            return (answer or _complete)(request)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


def _complete(request: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": reply(request["messages"])}]}


def reply(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the assistant's message."""
    question = next(m for m in messages[::-1] if m["role"] == "user")
    if "?" not in question["content"]:
        return {"role": "assistant", "content": "Noted."}
    shown = [message for message in messages if message["role"] != "system"]
    if found := _CODE.search(json.dumps(shown)):
        return {"role": "assistant", "content": f"The code is {found[1]}."}
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": "I could not find it."}
    return _fetch(messages)


def _fetch(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Ask for the page whose hint speaks of a locker; memory lists what it has."""
    for message in messages:
        if message["role"] == "tool" and "available_pages" in message["content"]:
            for page in json.loads(message["content"])["available_pages"]:
                if "locker" in page["hint"]:
                    return _call({"page_id": page["page_id"], "target_level": 0})
    return {"role": "assistant", "content": "I know of no locker."}


def _call(arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": "page_fault", "arguments": json.dumps(arguments)}
    call = {"id": "call_1", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


class _Handler(BaseHTTPRequestHandler):
    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            status, body = 200, self.answer(request)
        except RefusedError as refused:
            error = {"type": "invalid_request_error", "message": str(refused)}
            status, body = 400, {"type": "error", "error": error}
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args: Any) -> None:
        """Log nothing: the loop prints the messages."""
