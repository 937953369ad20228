"""The same messages by both doors: the API's slots and a file that is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memoryhub.kernel.messages.reading import read
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from tests.api.client import Client, run
from tests.cast.recordings import find, open_contents, take, write_lines

pytestmark = pytest.mark.django_db

_FUNCTION = {"name": "harbour/charts.search", "arguments": '{"n": 1e400}'}
_USE = {"type": "tool_use", "id": "u", "name": "find", "input": {}}
_PICTURE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
TALKS: dict[str, list[Any]] = {
    "chat": [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "Where?"}, _PICTURE]},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": _FUNCTION}]},
        {"role": "tool", "tool_call_id": "c", "content": "page 12"},
        {"role": "assistant", "content": None, "function_call": _FUNCTION},
        {"role": "function", "name": "harbour/charts.search", "content": "page 13"},
        {"role": "assistant", "content": None, "refusal": "I can't."},
    ],
    "responses": [
        {"type": "message", "role": "user", "content": "Where?"},
        {"type": "reasoning", "summary": [], "encrypted_content": "x"},
        {"type": "function_call", "call_id": "c", "id": "fc", **_FUNCTION},
        {"type": "function_call_output", "call_id": "c", "output": "page 12"},
    ],
    "anthropic": [
        {"role": "assistant", "content": [_USE]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "u"}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "u", "content": "page 12"},
                {"type": "text", "text": "Thanks."},
            ],
        },
    ],
    "others": [
        {"role": "developer", "content": "Be short."},
        {"role": "human", "content": "Where?"},
        {"role": "model", "parts": [{"functionCall": {"name": "find"}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "find"}}]},
        {"type": "ai", "content": "On page 12."},
    ],
}


def list_readings(thread: Thread) -> list[Any]:
    """Return the reading, role and tokens of each slot."""
    rows = [*thread.slots.order_by("index").values_list("role", "tokens")]
    readings = [read(each) for each in open_contents(thread)]
    return [*zip(readings, rows, strict=True)]


@pytest.mark.parametrize("shape", TALKS)
def test_import_equals_api(
    acme: Project, api: Client, tmp_path: Path, shape: str
) -> None:
    talk = TALKS[shape]
    for each in talk:
        slot = {"from": "x", "to": "y", "type": f"chat.{each.get('role')}"}
        run(api.post("/threads/sent/slots", {**slot, "content": each}))
    take(acme, write_lines(tmp_path, *talk, name="taken.jsonl"), form="chat")
    assert list_readings(find(acme, "taken")) == list_readings(find(acme, "sent"))
