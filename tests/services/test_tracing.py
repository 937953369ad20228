"""Spans of questions to the model."""

from __future__ import annotations

import pytest
from opentelemetry.semconv._incubating.attributes.gen_ai_attributes import (
    GenAiOperationNameValues,
    GenAiProviderNameValues,
)
from opentelemetry.trace import SpanKind

from memoryhub.errors.trouble import ModelError
from memoryhub.services.model_client import ModelClient
from memoryhub.services.tracing import trace_calls
from tests.cast.scripted_model import Reply, running, saying
from tests.cast.spans import CANARY, exporting


def test_question_has_its_model_and_tokens() -> None:
    told = [{"role": "user", "content": CANARY}]
    said = saying(CANARY, prompt_tokens=7, completion_tokens=1)
    refusal = Reply(CANARY.encode(), 401)
    with exporting() as exported, running(said, refusal) as model:
        ask = trace_calls(ModelClient(model.settings).ask, model.settings)
        assert ask(told).text == CANARY
        with pytest.raises(ModelError):
            ask(told)
        asked, refused = exported.get_finished_spans()
    assert (asked.name, asked.kind) == ("chat small", SpanKind.CLIENT)
    assert dict(asked.attributes or {}) == {
        "gen_ai.operation.name": GenAiOperationNameValues.CHAT.value,
        "gen_ai.provider.name": GenAiProviderNameValues.OPENAI.value,
        "gen_ai.request.model": "small",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 1,
        "server.address": "127.0.0.1",
        "server.port": model.port,
    }
    assert (refused.attributes or {})["error.type"] == "refused"
    assert refused.status.description is None
