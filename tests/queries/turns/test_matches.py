"""Messages that only repeat a question hold no answer."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.kernel.messages.reading import read
from memoryhub.queries.turns.matches import build_query, repeats_question

CALL = {
    "id": "c-1",
    "type": "function",
    "function": {"name": "search_library", "arguments": '{"query": "silt, a weir"}'},
}


@pytest.mark.parametrize(
    ("content", "role", "expected"),
    [
        ("What do we know about silt behind a weir?", "user", True),
        ("The weirs?", "user", True),
        (
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            "assistant",
            True,
        ),
        ("Silt behind a weir takes four percent.", "assistant", False),
        ({"role": "tool", "tool_call_id": "c-1", "content": "silt"}, "tool", False),
    ],
)
def test_message_repeats_a_question_when_it_says_nothing_else(
    content: Any, role: str, *, expected: bool
) -> None:
    query = build_query("What do we know about silt behind a weir?")
    assert repeats_question(read(content, role=role), query) == expected
