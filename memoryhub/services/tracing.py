"""Spans of OpenTelemetry: their export, and spans of questions to the model.

Loaded only where MEMORYHUB_TRACES is on. No span has a text, a name or an id of a
request. The provider is not the global one, so libraries' spans are never exported.
Names are those of the semantic conventions: core 1.44, GenAI of 2026.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode

from memoryhub import __version__
from memoryhub.errors.trouble import ModelError
from memoryhub.model_settings import ModelSettings
from memoryhub.services.model_calls import Ask, Message, ModelReply

#: Seconds that the last export may delay a stop.
STOP_SECONDS: Final = 5.0
_PORTS: Final = {"http": 80, "https": 443}


def _build_resource() -> Resource:
    """Describe this process; variables of OpenTelemetry override our own words."""
    ours = {"service.name": "memoryhub", "service.version": __version__}
    return Resource.create({**ours, **OTELResourceDetector().detect().attributes})


#: Without `start_export` its spans are dropped.
provider: Final = TracerProvider(resource=_build_resource(), shutdown_on_exit=False)
#: Tracer of GenAI spans, whose conventions have no schema of their own yet.
gen_ai: Final = provider.get_tracer("memoryhub", __version__)


def start_export() -> None:
    """Export spans from now on, in batches, from a thread that no request waits for."""
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))


def stop_export() -> None:
    """Export the last spans, and give up after STOP_SECONDS."""
    last = threading.Thread(target=provider.shutdown, name="last-spans", daemon=True)
    last.start()
    last.join(STOP_SECONDS)


def fail_span(span: Span, error: str) -> None:
    """Mark a span as failed, by the code of its error and no other text."""
    span.set_attribute("error.type", error)
    span.set_status(StatusCode.ERROR)


@contextmanager
def note_failure(span: Span) -> Iterator[None]:
    """Mark the span as failed by the type of an exception, whose text may be private.

    A span must be started with neither `record_exception` nor
    `set_status_on_exception`.
    """
    try:
        yield
    except ModelError as failure:
        fail_span(span, failure.reason)
        raise
    except Exception as failure:
        fail_span(span, type(failure).__name__)
        raise


def trace_calls(ask: Ask, model: ModelSettings) -> Ask:
    """Wrap `ask`, so that each question has a span: model and tokens, no messages."""
    address = urlsplit(model.url)
    attributes: dict[str, str | int] = {
        "gen_ai.operation.name": "chat",
        # The API's format; who serves the model there is not known.
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": model.name,
        "server.address": address.hostname or "",
        "server.port": address.port or _PORTS[address.scheme],
    }

    def ask_traced(messages: Sequence[Message]) -> ModelReply:
        with (
            gen_ai.start_as_current_span(
                f"chat {model.name}",
                # A question is due to messages of many requests.
                context=Context(),
                kind=SpanKind.CLIENT,
                attributes=attributes,
                record_exception=False,
                set_status_on_exception=False,
            ) as span,
            note_failure(span),
        ):
            reply = ask(messages)
            span.set_attribute("gen_ai.usage.input_tokens", reply.tokens_in)
            span.set_attribute("gen_ai.usage.output_tokens", reply.tokens_out)
            return reply

    return ask_traced
