"""Spans of requests: HTTP server spans, and within them spans of memory operations.

Loaded only where MEMORYHUB_TRACES is on. Routes stand for addresses: a span has no
name, id, query, header, client address or content of a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import time_ns
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from memoryhub import __version__
from memoryhub.api.errors import InternalError
from memoryhub.api.http.gate import (
    ANSWER,
    Application,
    Gate,
    GateAnswer,
    Message,
    Receive,
    Scope,
    Send,
)
from memoryhub.api.http.request_counts import OTHER
from memoryhub.services import tracing

#: Path of the API, below which a route's own path begins.
PREFIX: Final = "/api/v1"
SCHEMA: Final = "https://opentelemetry.io/schemas/1.44.0"
#: Methods by RFC 9110 and RFC 5789; any other may be text of a client.
METHODS: Final = frozenset(
    {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}
)
#: Path of requests that reach no route: an address may be a name.
REDACTED: Final = "/REDACTED"

_BY_OPERATION: Final = {
    "search_memory": (
        *("POST /threads:search", "POST /threads/{thread}/search"),
        *("POST /subjects/{subject}/recall", "POST /threads/{thread}/recall"),
        *(
            "POST /subjects/{subject}/facts:search",
            "POST /subjects/{subject}/items:search",
        ),
    ),
    "create_memory": (
        *("POST /threads/{thread}/slots", "POST /threads/{thread}/slots:batch"),
        *("POST /threads/{thread}/pages", "POST /threads/{thread}/pages:batch"),
        *("POST /threads/{thread}/notes", "POST /threads/{thread}/notes:batch"),
        *("POST /subjects/{subject}/episodes", "POST /threads/{thread}/observations"),
        "POST /threads/{thread}/tool-calls:record",
    ),
    # The hub, not the caller, sees whether the record exists.
    "upsert_memory": (
        "POST /subjects/{subject}/episodes:consolidate",
        "POST /subjects/{subject}/episodes:consolidated",
        *("POST /subjects/{subject}/facts", "POST /subjects/{subject}/facts:batch"),
        *("POST /threads/{thread}/facts", "POST /threads/{thread}/facts:batch"),
        *("PUT /subjects/{subject}/blocks/{block}", "PUT /threads/{thread}/task"),
        "PUT /threads/{thread}/blocks/{block}",
        *("PUT /threads/{thread}/keys/{key}", "POST /threads/{thread}/keys:batch"),
        "PUT /threads/{thread}/pages/{page_id}",
        "PUT /subjects/{subject}/items/{namespace}/{key}",
    ),
    "update_memory": (
        "POST /subjects/{subject}/facts/{fact}:end",
        "POST /subjects/{subject}/facts/{fact}:retract",
        "POST /subjects/{subject}/blocks/{block}/append",
        "POST /subjects/{subject}/blocks/{block}/insert",
        "POST /subjects/{subject}/blocks/{block}/rename",
        "POST /subjects/{subject}/blocks/{block}/replace",
        "POST /subjects/{subject}/blocks/{block}/revert",
        "POST /threads/{thread}/blocks/{block}/append",
        "POST /threads/{thread}/blocks/{block}/insert",
        "POST /threads/{thread}/blocks/{block}/rename",
        "POST /threads/{thread}/blocks/{block}/replace",
        "POST /threads/{thread}/blocks/{block}/revert",
        "PATCH /threads/{thread}/keys/{key}",
        *("PATCH /threads/{thread}/pages/{page_id}", "PATCH /threads/{thread}/task"),
        "POST /threads/{thread}/slots:strike",
    ),
    "delete_memory": (
        "DELETE /subjects/{subject}/blocks/{block}",
        "DELETE /threads/{thread}/blocks/{block}",
        "DELETE /subjects/{subject}/items/{namespace}/{key}",
        *("DELETE /threads/{thread}/keys/{key}", "POST /threads/{thread}/keys:clear"),
        *("DELETE /threads/{thread}/pages/{page_id}", "DELETE /threads/{thread}/task"),
        *("POST /threads/{thread}/notes:clear", "POST /erasures/{erasure}:confirm"),
    ),
}
#: Memory operation of the GenAI conventions by route; other routes are none.
OPERATIONS: Final = {
    route: operation for operation, routes in _BY_OPERATION.items() for route in routes
}

_http = tracing.provider.get_tracer("memoryhub", __version__, schema_url=SCHEMA)
_propagator = TraceContextTextMapPropagator()


class TracedGate(Gate):
    """Gate whose requests have spans."""

    def __init__(self, application: Application) -> None:
        super().__init__(self._trace_operation)
        self._operate = application

    async def serve(self, scope: Scope, receive: Receive, answer: GateAnswer) -> None:
        with _trace_request(scope) as span:
            try:
                await super().serve(scope, receive, answer)
            finally:
                path = None
                if answer.route != OTHER:
                    path = PREFIX + answer.route.partition(" ")[2]
                _note_answer(span, path, answer.status, answer.code)

    async def _trace_operation(
        self, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Serve an admitted request; its span is made when its route is known."""
        answer: GateAnswer = scope[ANSWER]
        began, code = time_ns(), InternalError.code
        try:
            await self._operate(scope, receive, send)
            code = answer.code
        finally:
            if operation := OPERATIONS.get(answer.route):
                named = {"gen_ai.operation.name": operation}
                span = tracing.gen_ai.start_span(
                    operation, attributes=named, start_time=began
                )
                if code:
                    tracing.fail_span(span, code)
                span.end()


def trace_endpoint(
    application: Application, get_route: Callable[[Scope], str]
) -> Application:
    """Wrap an endpoint of another protocol, whose calls of the API become children."""

    async def serve_traced(scope: Scope, receive: Receive, send: Send) -> None:
        status = 0

        async def send_noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        with _trace_request(scope) as span:
            try:
                await application(scope, receive, send_noted)
            finally:
                _note_answer(span, get_route(scope), status, "")

    return serve_traced


@contextmanager
def _trace_request(scope: Scope) -> Iterator[Span]:
    method = scope["method"] if scope["method"] in METHODS else "_OTHER"
    with (
        _http.start_as_current_span(
            "HTTP" if method == "_OTHER" else method,
            context=_find_parent(scope),
            kind=SpanKind.SERVER,
            attributes={
                "http.request.method": method,
                "url.scheme": scope.get("scheme", "http"),
                "network.protocol.version": scope.get("http_version", "1.1"),
            },
            record_exception=False,
            set_status_on_exception=False,
        ) as span,
        tracing.note_failure(span),
    ):
        yield span


def _find_parent(scope: Scope) -> Context | None:
    """Return the caller's span; None: the span that is current here, if any.

    Of the caller's headers only ids and flags are read: `tracestate` may hold any text.
    """
    for name, value in scope["headers"]:
        if name == b"traceparent":
            return _propagator.extract({"traceparent": value.decode("latin-1")})
    return None


def _note_answer(span: Span, path: str | None, status: int, code: str) -> None:
    """Name the span by its route, and note what was answered; status 0: nothing."""
    if not span.is_recording():
        return
    span.set_attribute("url.path", path or REDACTED)
    if path:
        span.set_attribute("http.route", path)
        span.update_name(f"{span.name} {path}")  # type: ignore[attr-defined]  # of the SDK
    if status:
        span.set_attribute("http.response.status_code", status)
    if status >= 500:
        tracing.fail_span(span, code or str(status))
    elif code:
        # By the conventions a server's span does not fail with its client's error.
        span.set_attribute("error.type", code)
