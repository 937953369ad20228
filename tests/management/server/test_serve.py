"""The server as a process: its output, answers, files and connections."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from memoryhub.services.access.api_keys import KEY_PATTERN
from tests.harness.forks import MANAGE, ROOT
from tests.harness.instances import Instance, Server, free_port

SECRET = "p4ssword-" * 12
#: Packages that an append does not need, and the inspector's pages and live panels.
LATE = {"allauth", "fido2", "httpx2", "mcp", "numpy", "tiktoken"}
LATE |= {"inspector.access.sign_in", "inspector.live.hub"}
LINK = re.compile(r"http://127\.0\.0\.1:\d+/sign-in/([A-Za-z0-9_-]{43})\b")


def ask(
    server: Server, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, bytes]:
    """Return status and body of one request."""
    line = HTTPConnection("127.0.0.1", server.port, timeout=20)
    try:
        sent = None if body is None else json.dumps(body)
        names = {name.replace("_", "-"): text for name, text in headers.items()}
        line.request(method, path, sent, names)
        response = line.getresponse()
        return response.status, response.read()
    finally:
        line.close()


def make_key(instance: Instance) -> str:
    instance.managed("create_project", "acme")
    return instance.managed("create_key", "acme").strip()


def append(server: Server, key: str, thread: str, content: Any) -> int:
    body = {"from": "user", "to": "assistant", "type": "chat.user", "content": content}
    status, _ = ask(
        server,
        "POST",
        f"/api/v1/threads/{thread}/slots",
        body,
        Authorization=f"Bearer {key}",
        Content_Type="application/json",
    )
    return status


def test_first_start_of_the_server_serves(empty: Instance) -> None:
    with empty.serve() as server:
        status, body = ask(server, "GET", "/health/ready")
        assert status == 200, body
        ready = json.loads(body)
        parts = {"clock", "expiry", "journal", "keys", "writer", "live", "worker"}
        parts |= {"erasures"}
        assert set(ready["parts"]) == parts
        # The server's workers write at the start: a queued write may be theirs.
        assert ready["parts"]["writer"].keys() == {"state", "waiting"}
        assert ready["parts"]["writer"]["state"] == "ok"
        assert ask(server, "GET", "/health/live") == (200, b'{"status": "ok"}')
        assert ask(server, "HEAD", "/health/ready") == (200, b"")
        static = "/static/vendor/htmx.org-2.0.11/htmx.min.js"
        assert ask(server, "GET", static)[0] == 200
        assert ask(server, "GET", "/health/live", Host="evil.example")[0] == 400
    log = empty.log.read_text()
    assert f"MemoryHub listens on {server.url}" in log
    assert len(LINK.findall(log)) == 1
    assert "keys backup" in log


def test_each_start_prints_a_new_sign_in_link(instance: Instance) -> None:
    for _ in range(2):
        with instance.serve() as server:
            assert server.stop() in (0, -15)
    links = LINK.findall(instance.log.read_text())
    assert len(set(links)) == 2


def test_graceful_stop_leaves_no_log_beside_the_database(empty: Instance) -> None:
    key = make_key(empty)
    with empty.serve() as server:
        assert append(server, key, "t-1", "hello") == 201
        assert ask(server, "GET", "/health/ready")[0] == 200
        assert server.stop() in (0, -15)
    assert not [path for path in empty.data.iterdir() if "sqlite3-" in path.name]


def test_server_imports_what_pages_and_sdks_need_when_they_are_asked_for(
    empty: Instance,
) -> None:
    def list_late_imports() -> set[str]:
        return LATE & {line.split()[-1] for line in empty.log.read_text().splitlines()}

    key = make_key(empty)
    with empty.serve(PYTHONPROFILEIMPORTTIME="1") as server:
        assert append(server, key, "t-1", "hello") == 201
        assert ask(server, "GET", "/metrics")[0] == 200
        assert not list_late_imports()
        assert ask(server, "GET", "/sign-in")[0] == 200
        pages = {"inspector.access.sign_in", "inspector.live.hub"}
        assert list_late_imports() == {"fido2", *pages}


def test_no_sign_in_link_is_printed_off_loopback(instance: Instance) -> None:
    with instance.serve("--host", "0.0.0.0", MEMORYHUB_SECRET_KEY=SECRET) as server:
        assert ask(server, "GET", "/health/live")[0] == 200
    log = instance.log.read_text()
    assert "manage.py signin" in log
    assert "/sign-in/" not in log
    assert SECRET not in log


def test_printed_key_writes_until_it_is_revoked(
    empty: Instance,
) -> None:
    key = make_key(empty)
    with empty.serve() as server:
        assert append(server, key, "t-1", "hello") == 201
        prefix = KEY_PATTERN.fullmatch(key)
        assert prefix is not None
        empty.managed("revoke_key", prefix[1])
        # The server caches a key for a second.
        for _ in range(2_000):
            if append(server, key, "t-1", "again") == 401:
                break
        else:
            pytest.fail("a revoked key still writes")


def test_sign_in_link_from_the_command_line_opens_the_inspector(
    instance: Instance,
) -> None:
    with instance.serve() as server:
        made = instance.managed("signin", "--origin", server.url).strip()
        assert LINK.fullmatch(made)
        status, page = ask(server, "GET", made.removeprefix(server.url))
        assert status == 200, page
        status, _ = ask(server, "GET", made.removeprefix(server.url))
        assert status == 200, "looking at a link must not use it up"


def test_no_content_in_logs(empty: Instance) -> None:
    """Put a canary into every part of a request, and into failing requests."""
    canary = "canary-9b1e"
    key = make_key(empty)
    with empty.serve() as server:
        good = {"Authorization": f"Bearer {key}", "Content_Type": "application/json"}
        assert append(server, key, canary, {"text": canary}) == 201
        tried = [
            ("GET", f"/{canary}", None, {}),
            ("GET", f"/health/live?{canary}", None, {"Referer": canary}),
            ("GET", f"/api/v1/threads/{canary}-absent", None, good),
            ("GET", f"/api/v1/threads?{canary}=1", None, good),
            ("POST", "/api/v1/threads/t/slots", {canary: canary}, good),
            ("POST", f"/api/v1/threads/{canary}%00/slots", {}, good),
            ("GET", "/api/v1/threads", None, {"Authorization": f"Bearer {canary}"}),
            ("GET", f"/api/v1/threads?key={key}", None, {}),
            ("GET", "/health/live", None, {"Host": f"{canary}.example"}),
            ("GET", f"/p/acme/threads/{canary}", None, {"Cookie": f"a={canary}"}),
            ("POST", "/sign-in", {"username": canary, "password": canary}, {}),
        ]
        for method, path, body, headers in tried:
            assert ask(server, method, path, body, **headers)[0] < 500, path
        raw(server, f"NONSENSE {canary}\r\n\r\n")
        assert server.stop() in (0, -15)
    log = empty.log.read_text()
    assert canary not in log
    assert key not in log
    json_lines = [line for line in log.splitlines() if line.startswith("{")]
    assert json_lines
    assert all(
        {"time", "level", "event"} <= json.loads(text).keys() for text in json_lines
    )


def raw(server: Server, text: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as line:
        line.sendall(text.encode())
        while line.recv(4096):
            pass


def test_killed_server_starts_again_without_repair(empty: Instance) -> None:
    key = make_key(empty)
    port = free_port()
    for n in range(3):
        with empty.serve(port=port) as server:
            assert append(server, key, "t-1", n) == 201
            server.kill()
    empty.managed("verify", "--all")


def test_server_connects_to_loopback_only(empty: Instance, tmp_path: Path) -> None:
    """No process of the server connects a socket beyond this machine."""
    tracer = shutil.which("strace")
    if tracer is None and os.environ.get("MEMORYHUB_TEST_ALL") == "1":
        pytest.fail("strace is missing")
    if tracer is None:
        pytest.skip("strace is missing")
    key = make_key(empty)
    trace = tmp_path / "trace"
    port = free_port()
    with serve_traced(empty, tracer, trace, port) as server:
        assert append(server, key, "t-1", "hello") == 201
        assert ask(server, "GET", "/")[0] in (200, 302)
        assert ask(server, "GET", "/api/v1/openapi.json")[0] == 200
        server.stop()
    calls = trace.read_text()
    assert "bind(" in calls, "the trace saw nothing"
    assert list_foreign_calls(calls) == []


@contextmanager
def serve_traced(
    instance: Instance, tracer: str, trace: Path, port: int
) -> Iterator[Server]:
    """Serve as `instance.serve` does, and record each network call of its processes."""
    # -D: the tracer is the grandchild, so that signals reach the server itself.
    words = [tracer, "-D", "-f", "-e", "trace=%network", "-o", str(trace)]
    with instance.log.open("ab") as log:
        process = subprocess.Popen(
            [*words, sys.executable, MANAGE, "serve", "--port", str(port)],
            cwd=ROOT,
            env=instance.env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            text=True,
        )
    server = Server(process, port=port)
    try:
        server.await_health(instance.log)
        yield server
    finally:
        if process.poll() is None:
            server.kill()


@pytest.mark.parametrize(
    ("call", "alarm"),
    [
        ('connect(3, {sa_family=AF_INET, sin_addr=inet_addr("8.8.8.8")}, 16) = 0', 1),
        ('connect(3, {sa_family=AF_INET6, inet_pton(AF_INET6, "2600::1")}, 28)', 1),
        ('sendto(3, "x", 1, 0, {sa_family=AF_INET, inet_addr("1.1.1.1")}, 16)', 1),
        ('connect(3, {sa_family=AF_INET, sin_addr=inet_addr("127.0.0.1")}, 16) = 0', 0),
        ('connect(3, {sa_family=AF_UNIX, sun_path="/run/s"}, 110) = 0', 0),
    ],
)
def test_connection_beyond_loopback_would_be_seen(call: str, alarm: int) -> None:
    assert len(list_foreign_calls(call)) == alarm


def list_foreign_calls(calls: str) -> list[str]:
    """Return the lines that connect or send to an address outside loopback."""
    ours = re.compile(r"inet_addr\(\"127\.|\"::1\"|sa_family=AF_(UNIX|NETLINK)")
    sends = re.compile(r"\b(connect|sendto|sendmsg)\(.*sa_family=")
    return [
        line
        for line in calls.splitlines()
        if sends.search(line) and not ours.search(line)
    ]
