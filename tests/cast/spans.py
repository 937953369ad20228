"""Spans as exported, kept in memory and checked for what they must not have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import (
    error_attributes,
    http_attributes,
    network_attributes,
    server_attributes,
    url_attributes,
)

from memoryhub.services.tracing import provider

#: Word that tests put wherever a client, a model or an exception may say anything.
CANARY = "canary-4711"
#: Names of attributes by the semantic conventions.
NAMES = {
    value
    for module in (
        *(error_attributes, gen_ai_attributes, http_attributes),
        *(network_attributes, server_attributes, url_attributes),
    )
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str)
}


@cache
def _export_to_memory() -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


@contextmanager
def exporting() -> Iterator[InMemorySpanExporter]:
    """Yield an exporter without spans; check the spans that it has in the end."""
    exporter = _export_to_memory()
    exporter.clear()
    yield exporter
    for span in exporter.get_finished_spans():
        assert CANARY not in span.to_json().lower()
        assert set(span.attributes or ()) <= NAMES
