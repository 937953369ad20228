"""The demo's own language model, on loopback: it answers by patterns.

The model answers requests of consolidation and observing over a real connection. It
uses nothing but the request.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, Final

from memoryhub.demo import concierge, observations
from memoryhub.kernel.observing import prompts
from memoryhub.model_settings import ModelSettings

NAME: Final = "demo-by-patterns"
#: API key of the model; no secret, since only this process listens there.
KEY: Final = "demo"
_USER = re.compile(r"^\| user: (.*)$", re.MULTILINE)
#: Numbers of the observer's requests since the start that get a useless answer: the
#: second run fails, and the same messages are sent once more.
USELESS: Final = (1, 2)
SORRY: Final = "I would rather talk about something else."


def build_environment() -> dict[str, str]:
    """Return the settings of a model at a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    names = {"URL": url, "NAME": NAME, "KEY": KEY}
    return {f"MEMORYHUB_MODEL_{name}": text for name, text in names.items()}


@contextmanager
def serve_model(model: ModelSettings | None) -> Iterator[None]:
    """Serve the model at the address of these settings, if they are the demo's own."""
    if model is None or model.name != NAME:
        yield
        return
    port = int(model.host.rpartition(":")[2])
    with ThreadingHTTPServer(("127.0.0.1", port), _ModelHandler) as server:
        thread = threading.Thread(target=server.serve_forever, name="demo-model")
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def find_claims(exchange: str) -> list[dict[str, Any]]:
    """Return the claims that an exchange makes of its user, in line order."""
    return [
        {"entity": "user", "predicate": predicate, "value": value, "confidence": 0.9}
        for line in _USER.findall(exchange)
        for pattern, predicate, worded in concierge.FACTS
        for found in re.finditer(pattern, line)
        if (value := found.expand(worded))
    ]


def answer(messages: list[dict[str, str]], observed: Iterator[int]) -> str:
    """Return the model's answer, by the role that the first message gives it.

    `observed` numbers the requests of observers.
    """
    role, *_, last = (each["content"] for each in messages)
    found: Any = find_claims(last)
    # A project's own instructions may follow the prompt.
    if role.startswith(prompts.PROMPTS[prompts.OBSERVER]):
        if next(observed) in USELESS:
            return SORRY
        found = observations.observe(messages[1]["content"])
    elif role.startswith(prompts.PROMPTS[prompts.REFLECTOR]):
        shorter = last == prompts.SHORTER
        found = observations.reflect(messages[1]["content"], shorter=shorter)
    return json.dumps(found, ensure_ascii=False)


class _ModelHandler(BaseHTTPRequestHandler):
    """Handler that answers each POST with one chat completion."""

    observed = count()

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        messages = json.loads(self.rfile.read(size))["messages"]
        text = answer(messages, self.observed)
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": size // 4, "completion_tokens": len(text) // 4}
        reply = {"choices": [{"index": 0, "message": message}], "usage": usage}
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name
        """Log nothing: the demo prints its own log."""
