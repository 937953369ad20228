"""Requests in four formats from slots of four: each valid for its server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.messages import writing
from memoryhub.kernel.messages.message import Vendor
from memoryhub.kernel.packing import requests
from memoryhub.kernel.paging.page_commands import BeginTurn
from memoryhub.kernel.state.paging_config import FORMATS
from tests.kernel.packing.test_talk import CONFIGS, STEPS, Talk, regular
from tests.oracles.loops import Loop, slot_of
from tests.validators import require_request

ARGUMENTS = '{"flight":"HAT001"}'
CHAT: list[Any] = [
    {"role": "user", "content": "Is it late?"},
    {
        "role": "assistant",
        "content": "Looking.",
        "tool_calls": [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": "look_up", "arguments": ARGUMENTS},
            }
            for call_id in ("c-1", "c-2")
        ],
    },
    {"role": "tool", "tool_call_id": "c-1", "content": "On time."},
    {"role": "tool", "tool_call_id": "c-2", "content": "Gate 4."},
    {"role": "assistant", "content": "It is on time."},
]
RESPONSES: list[Any] = [
    {"role": "user", "content": [{"type": "input_text", "text": "Is it late?"}]},
    # All that a model answered, as it came.
    [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Looking."}],
        },
        *(
            {
                "type": "function_call",
                "call_id": call_id,
                "name": "look_up",
                "arguments": ARGUMENTS,
            }
            for call_id in ("c-1", "c-2")
        ),
    ],
    {"type": "function_call_output", "call_id": "c-1", "output": "On time."},
    {"type": "function_call_output", "call_id": "c-2", "output": "Gate 4."},
    {"type": "message", "role": "assistant", "content": "It is on time."},
]
ANTHROPIC: list[Any] = [
    {"role": "user", "content": "Is it late?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "s"},
            {"type": "text", "text": "Looking."},
            *(
                {
                    "type": "tool_use",
                    "id": call_id,
                    "name": "look_up",
                    "input": json.loads(ARGUMENTS),
                }
                for call_id in ("c-1", "c-2")
            ),
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c-1", "content": "On time."},
            {
                "type": "tool_result",
                "tool_use_id": "c-2",
                "content": [{"type": "text", "text": "Gate 4."}],
            },
        ],
    },
    {"role": "assistant", "content": "It is on time."},
]
GEMINI: list[Any] = [
    {"role": "user", "parts": [{"text": "Is it late?"}]},
    {
        "role": "model",
        "parts": [
            {"text": "Hm.", "thought": True},
            {"text": "Looking."},
            *(
                {
                    "functionCall": {
                        "id": call_id,
                        "name": "look_up",
                        "args": json.loads(ARGUMENTS),
                    }
                }
                for call_id in ("c-1", "c-2")
            ),
        ],
    },
    {
        "role": "user",
        "parts": [
            {
                "functionResponse": {
                    "id": call_id,
                    "name": "look_up",
                    "response": {"output": told},
                }
            }
            for call_id, told in (("c-1", "On time."), ("c-2", "Gate 4."))
        ],
    },
    {"role": "model", "parts": [{"text": "It is on time."}]},
]
CAME = {"chat": CHAT, "responses": RESPONSES, "anthropic": ANTHROPIC}


@settings(deadline=None, max_examples=40)
@given(
    steps=STEPS,
    config=CONFIGS,
    shape=st.sampled_from([*FORMATS]),
    words=st.sampled_from([0, 10, 150]),
)
def test_request_is_valid_in_every_format(
    steps: list[tuple[str, Any]], config: tuple[int, int], shape: str, words: int
) -> None:
    """Each request of a talk, within its budget, as its API reads it."""
    budget, reserved = config
    talk = Talk(budget_tokens=budget, reserved_tokens=reserved, format=shape)
    talk.say("user", talk.build_text("user", 20))
    if words:
        # One that is called, and one that never is.
        talk.give("look_up", "stop", words=words)
    for what, how in regular(steps):
        talk.step(what, how)
        talk.do(BeginTurn())
        packed = talk.request()
        assert estimate_tokens(packed.request.decode()) == packed.tokens <= budget
        paging = talk.state.paging
        assert paging.used <= paging.settings.usable < budget - reserved + (not words)
        for other in writing.FORMATS:
            record = requests.convert_record(packed.record, other)
            again = requests.assemble(record, talk.texts, thread=talk.state.id)
            require_request(other, json.loads(again))
            assert other != shape or again == packed.request
        places = requests.list_ref_ranges(
            packed.record, talk.texts, thread=talk.state.id
        )
        assert all(0 < start <= end for start, end in places)
        assert places == sorted(places)


def build_request(came: list[Any], **config: Any) -> tuple[Loop, dict[str, Any]]:
    """Return the request after what was said and one more word of the user."""
    loop = Loop(mode="passive", **config)
    for content in came:
        loop.say(None, content)
    loop.do(BeginTurn(slots=(slot_of("user", "Thanks."),)))
    return loop, json.loads(loop.request().request)


@pytest.mark.parametrize("came", CAME)
def test_slots_of_any_shape_are_the_same_conversation(came: str) -> None:
    _, request = build_request(CAME[came])
    assert request["messages"] == [*CHAT, {"role": "user", "content": "Thanks."}]


@pytest.mark.parametrize("came", CAME)
def test_conversation_as_responses_take_it(came: str) -> None:
    _, request = build_request(CAME[came], format="responses")
    assert request["input"] == [
        {"role": "user", "content": "Is it late?"},
        {"role": "assistant", "content": "Looking."},
        *RESPONSES[1][2:],
        *RESPONSES[2:4],
        {"role": "assistant", "content": "It is on time."},
        {"role": "user", "content": "Thanks."},
    ]


@pytest.mark.parametrize("came", CAME)
def test_conversation_as_anthropic_takes_it(came: str) -> None:
    _, request = build_request(CAME[came], format="anthropic")
    text, *used = ANTHROPIC[1]["content"][1:]
    first, second = ANTHROPIC[2]["content"]
    assert request["messages"] == [
        ANTHROPIC[0],
        {"role": "assistant", "content": [text, *used]},
        {"role": "user", "content": [first, {**second, "content": "Gate 4."}]},
        ANTHROPIC[3],
        {"role": "user", "content": "Thanks."},
    ]
    (stub,) = request["tools"]
    assert stub["name"] == "look_up"


@pytest.mark.parametrize("came", [*CAME, "gemini"])
def test_conversation_as_gemini_takes_it(came: str) -> None:
    """A result that came from Gemini stays an object; other formats show its JSON."""
    _, request = build_request({**CAME, "gemini": GEMINI}[came], format="gemini")
    _, text, first, second = GEMINI[1]["parts"]
    signed = {**first, "thoughtSignature": "skip_thought_signature_validator"}
    assert request["contents"] == [
        GEMINI[0],
        {"role": "model", "parts": [text, signed, second]},
        *GEMINI[2:],
        {"role": "user", "parts": [{"text": "Thanks."}]},
    ]


@pytest.mark.parametrize("came", CAME)
def test_ids_that_a_server_refuses_are_others_on_both_sides(came: str) -> None:
    odd = json.loads(json.dumps(CAME[came]).replace("c-1", "call: ü/1"))
    _, request = build_request(odd, format="anthropic")
    assert "call: ü/1" not in json.dumps(request, ensure_ascii=False)
    used, answered = request["messages"][1:3]
    assert [block["id"] for block in used["content"][1:]] == [
        block["tool_use_id"] for block in answered["content"]
    ]


@pytest.mark.parametrize("shape", writing.FORMATS)
def test_pictures_are_said_as_each_api_says_them(shape: Vendor) -> None:
    data = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    url = "data:image/png;base64,aGk="
    parts = {
        "chat": {"type": "image_url", "image_url": {"url": url}},
        "responses": {"type": "input_image", "image_url": url, "detail": "auto"},
        "anthropic": {"type": "image", "source": data},
        "gemini": {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
    }
    for part in parts.values():
        came = {"role": "user", "content": [part]}
        _, request = build_request([came], format=shape)
        (message, *_) = request[writing.FORMATS[shape].field]
        assert message.get("content", message.get("parts")) == [parts[shape]]


def test_malformed_arguments_are_wrapped_in_an_object_for_anthropic() -> None:
    wrong = json.loads(json.dumps(CHAT).replace(json.dumps(ARGUMENTS), '"{oops"'))
    _, request = build_request(wrong, format="anthropic")
    used = request["messages"][1]["content"][1]
    assert used["input"] == {"input": "{oops"}
