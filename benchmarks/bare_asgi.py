"""A bare ASGI app that appends: one row and one commit of SQLite a request.

Nothing is parsed, checked, sealed, chained, counted or indexed. The server is started
like a hub: `python -m benchmarks.bare_asgi serve --port 8000`.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import uvicorn

_INSERT = "INSERT INTO message (thread, content) VALUES (?, ?)"
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"2")]


def serve(port: int) -> None:
    """Serve on the port, from a database in the folder that a hub would have."""
    path = Path(os.environ["MEMORYHUB_DATA"]) / "bare.sqlite3"
    database = sqlite3.connect(path, isolation_level=None)
    synchronous = os.environ.get("MEMORYHUB_SQLITE_SYNCHRONOUS", "FULL")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute(f"PRAGMA synchronous={synchronous}")
    database.execute(
        "CREATE TABLE message (id INTEGER PRIMARY KEY, thread TEXT, content BLOB)"
    )

    async def answer_request(scope: Any, receive: Any, send: Any) -> None:
        body, is_complete = b"", False
        while not is_complete:
            message = await receive()
            body += message.get("body", b"")
            is_complete = not message.get("more_body", False)
        if scope["method"] == "POST":
            # Without a transaction around it the statement is one of its own.
            database.execute(_INSERT, (scope["path"], body))
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": b"{}"})

    uvicorn.run(
        answer_request, port=port, lifespan="off", access_log=False, log_level="warning"
    )


if __name__ == "__main__":
    serve(int(sys.argv[-1]))
