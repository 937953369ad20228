"""Receiver of webhooks on loopback that answers as told, and checks signatures.

A double for what is not ours. The check is written from the specification of Standard
Webhooks and shares no code with the server.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class WebhookReceiver:
    """Running server, and the messages that it was sent."""

    url: str = ""
    #: Takes a message; returns the status of the reply: 0 hangs, 1 trickles.
    reply: Callable[[dict[str, Any]], int] = lambda _: 204
    messages: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        message = json.loads(body)
        self.messages.append(message)
        self.bodies.append(body)
        self.headers.append({name.lower(): v for name, v in handler.headers.items()})
        self.paths.append(handler.path)
        status = self.reply(message)
        if not status:
            self.over.wait(30)
            return
        handler.send_response(200 if status == 1 else status)
        handler.send_header("Content-Length", str(1_000 if status == 1 else 0))
        handler.send_header("Location", f"{self.url}elsewhere")
        handler.end_headers()
        while status == 1 and not self.over.wait(0.05):
            handler.wfile.write(b".")

    def is_signed(self, secret: str, at: int = -1) -> bool:
        """Return whether a request is signed with the secret, and of this minute."""
        head = self.headers[at]
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        stamp = head["webhook-timestamp"]
        signed = b".".join((head["webhook-id"].encode(), stamp.encode()))
        mac = hmac.new(key, signed + b"." + self.bodies[at], hashlib.sha256)
        wanted = "v1," + base64.b64encode(mac.digest()).decode()
        fresh = abs(time.time() - int(stamp)) < 60
        return fresh and wanted in head["webhook-signature"].split(" ")

    @property
    def seqs(self) -> dict[str, list[int]]:
        """Seqs by thread, in the order of arrival."""
        found: dict[str, list[int]] = {}
        for each in self.messages:
            found.setdefault(each["data"]["thread_id"], []).append(each["data"]["seq"])
        return found


@contextmanager
def receiving() -> Iterator[WebhookReceiver]:
    """Run a receiver on a free port."""
    receiver = WebhookReceiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            receiver.answer(self)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_port}/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield receiver
    finally:
        receiver.over.set()
        server.shutdown()
        server.server_close()
