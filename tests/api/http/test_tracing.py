"""Spans of requests and of their memory operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.asgi import get_asgi_application
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from memoryhub.api.application import api as agent_api
from memoryhub.api.handler import build_application
from memoryhub.api.http import gate, tracing
from memoryhub.api.http.operations import StrictOperation
from tests.api.client import Client
from tests.cast.spans import CANARY, exporting

pytestmark = pytest.mark.django_db

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLED = ("traceparent", f"00-{TRACE}-{CALLER}-01")
MEMORY_OPERATIONS = {
    *("create_memory", "update_memory", "upsert_memory"),
    *("delete_memory", "search_memory"),
}
SLOT = {"type": "chat.Message", "from": "user", "to": "bot", "content": CANARY}


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    with exporting() as exporter:
        yield exporter


@pytest.fixture(params=[True, False], ids=["lean", "django"])
def traced(api: Client, settings: Any, request: pytest.FixtureRequest) -> Client:
    settings.TRACES, settings.LEAN_API = True, request.param
    django: Any = get_asgi_application()
    return Client(key=api.key, app=build_application(django))


async def test_append_has_a_span_of_its_route_and_one_of_its_operation(
    traced: Client, exported: InMemorySpanExporter
) -> None:
    answer = await traced.post(f"/threads/{CANARY}/slots", SLOT, headers=[CALLED])
    assert answer.status == 201
    memory, served = exported.get_finished_spans()
    route = "/api/v1/threads/{thread}/slots"
    assert (served.name, served.kind) == (f"POST {route}", SpanKind.SERVER)
    assert dict(served.attributes or {}) == {
        "http.request.method": "POST",
        "http.response.status_code": 201,
        "http.route": route,
        "network.protocol.version": "1.1",
        "url.path": route,
        "url.scheme": "http",
    }
    assert served.parent is not None
    assert served.parent.span_id == int(CALLER, 16)
    assert served.context.trace_id == memory.context.trace_id == int(TRACE, 16)
    assert (memory.name, memory.kind) == ("create_memory", SpanKind.INTERNAL)
    assert dict(memory.attributes or {}) == {"gen_ai.operation.name": "create_memory"}
    assert memory.parent == served.context
    assert served.status.is_unset
    assert memory.status.is_unset


async def test_refusal_is_named_by_its_code(
    traced: Client, exported: InMemorySpanExporter
) -> None:
    await traced.post(f"/threads/{CANARY}/search", {"query": CANARY})
    await traced.send(CANARY.upper(), f"/{CANARY}?{CANARY}", headers=[("x-c", CANARY)])
    stranger = Client(key=CANARY, app=traced.app)
    said = [CALLED, ("tracestate", f"a={CANARY}"), ("user-agent", CANARY)]
    await stranger.get(f"/threads/{CANARY}", headers=said)
    memory, served, lost, strange = exported.get_finished_spans()
    for span in (memory, served):
        assert (span.attributes or {})["error.type"] == "not_found"
    assert memory.name == "search_memory"
    # A client's error is no failure of the server, but one of the operation.
    assert served.status.is_unset
    assert memory.status.status_code == StatusCode.ERROR
    assert memory.status.description is None
    assert (lost.name, (lost.attributes or {})["url.path"]) == ("HTTP", "/REDACTED")
    assert (strange.attributes or {})["error.type"] == "unauthorized"


async def test_failure_is_an_error_without_its_text(
    api: Client, exported: InMemorySpanExporter
) -> None:
    async def fail(scope: Any, receive: Any, send: Any) -> None:
        scope[gate.ANSWER].route = "POST /threads/{thread}/notes"
        if late:
            start = {"type": "http.response.start", "status": 200, "headers": []}
            await send(start)
        raise RuntimeError(CANARY)

    client, late = Client(key=api.key, app=tracing.TracedGate(fail)), False
    assert (await client.post("/threads/t-1/notes", {"text": "a"})).status == 500
    late = True
    with pytest.raises(RuntimeError):
        await client.post("/threads/t-1/notes", {"text": "a"})
    spans = exported.get_finished_spans()
    errors = [(span.attributes or {})["error.type"] for span in spans]
    assert errors == ["internal", "internal", "internal", "RuntimeError"]
    for span in spans:
        assert span.status.status_code == StatusCode.ERROR
        assert (span.status.description, span.events) == (None, ())


def test_operations_are_those_of_the_conventions_and_of_routes() -> None:
    routes = {
        operation.route
        for _, router in agent_api._routers
        for view in router.path_operations.values()
        for operation in view.operations
        if isinstance(operation, StrictOperation)
    }
    assert tracing.OPERATIONS.keys() <= routes
    assert set(tracing.OPERATIONS.values()) == MEMORY_OPERATIONS
