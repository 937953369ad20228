"""Spans of a server, as a collector gets them: a good one, and one that hangs."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from memoryhub.services.tracing import STOP_SECONDS
from tests.harness.instances import Instance, Server
from tests.mcp.test_tools import call, connect
from tests.promises.conftest import MAKE_KEY
from tests.promises.journal.clients import Client

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLED = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
CANARY = "canary-4711"
#: A queue that soon is full.
SMALL = {"OTEL_BSP_MAX_QUEUE_SIZE": "16", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "8"}


class Collector(ThreadingHTTPServer):
    """Collector of OpenTelemetry on loopback; it may keep its clients waiting."""

    daemon_threads = True

    def __init__(self, *, hangs: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Take)
        self.hangs, self.over = hangs, threading.Event()
        self.bodies: list[bytes] = []

    @property
    def env(self) -> dict[str, str]:
        return {
            "MEMORYHUB_TRACES": "1",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.server_port}",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }

    def list_spans(self) -> list[Span]:
        requests = map(ExportTraceServiceRequest.FromString, self.bodies)
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class _Take(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        self.server.bodies.append(self.rfile.read(size))
        if self.server.hangs:
            self.server.over.wait(60)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextmanager
def collecting(*, hangs: bool = False) -> Iterator[Collector]:
    with Collector(hangs=hangs) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        yield collector
        collector.over.set()
        collector.shutdown()


def _search_as_mem0(server: Server, key: str) -> int:
    """Search as mem0's client does; return the status."""
    line = HTTPConnection("127.0.0.1", server.port, timeout=20)
    body = orjson.dumps({"query": CANARY, "filters": {"user_id": CANARY}})
    headers = {"Authorization": f"Token {key}", "Content-Type": "application/json"}
    line.request("POST", "/compat/mem0/v3/memories/search/", body, headers | CALLED)
    status = line.getresponse().status
    line.close()
    return status


async def _recall_by_mcp(server: Server, key: str) -> Any:
    async with connect(server, key, memoryhub_person=CANARY, **CALLED) as client:
        return await call(client, "recall", query=CANARY)


def test_server_exports_spans_of_its_protocols(instance: Instance) -> None:
    key = instance.call(MAKE_KEY).strip()
    with collecting() as collector, instance.serve(**collector.env) as server:
        with Client(server.port, key) as agent:
            assert agent.append(CANARY, CANARY, **CALLED).status == 201
            query = {"query": CANARY}
            found = agent.post(f"/threads/{CANARY}/search", query, **CALLED)
            assert found.status == 200
        assert _search_as_mem0(server, key) == 200
        assert asyncio.run(_recall_by_mcp(server, key)) is not None
        # Spans of the last moment leave with the server.
        assert server.stop() == -signal.SIGTERM
    sent = b"".join(collector.bodies)
    assert CANARY.encode() not in sent
    assert b"memoryhub" in sent
    spans = collector.list_spans()
    assert {"create_memory", "search_memory"} <= {span.name for span in spans}
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    for name in ("POST /compat/mem0/{path}", "POST /mcp"):
        outer = {span.span_id for span in spans if span.name == name}
        assert outer
        # The API's requests on behalf of these clients are children of theirs.
        assert outer & {span.parent_span_id for span in spans}


def test_collector_that_hangs_delays_no_answer_and_no_stop(instance: Instance) -> None:
    key = instance.call(MAKE_KEY).strip()
    with (
        collecting(hangs=True) as collector,
        instance.serve(**collector.env, **SMALL) as server,
    ):
        with Client(server.port, key) as agent:
            answers = [agent.append("t-1", "a") for _ in range(60)]
        # The queue of 16 is full; spans that have no room are dropped.
        assert collector.bodies
        assert {each.status for each in answers} == {201}
        assert sum(each.seconds for each in answers) < 10
        began = time.monotonic()
        assert server.stop() == -signal.SIGTERM
        assert time.monotonic() - began < STOP_SECONDS + 10


def test_start_is_refused_without_the_extra() -> None:
    code = """
import sys
sys.modules["opentelemetry.exporter"] = None
import memoryhub.settings
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"MEMORYHUB_TRACES": "1"},
    )
    assert done.returncode == 2
    assert "--extra otel" in done.stderr
