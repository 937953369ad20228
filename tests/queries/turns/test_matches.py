"""Messages that can hold no answer to a question."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.kernel.messages.reading import read
from memoryhub.kernel.state.events import Role
from memoryhub.queries.turns.matches import build_query, has_no_answer, has_same_form

CALL = {
    "id": "c-1",
    "type": "function",
    "function": {"name": "search_library", "arguments": '{"query": "silt, a weir"}'},
}


@pytest.mark.parametrize(
    ("content", "role", "expected"),
    [
        ("What do we know about silt behind a weir?", "user", True),
        ("A weir behind the silt.", "user", True),
        ("Who knows about coastlines, or v1.2?", "user", True),
        ("Silt? It lies behind 3 weirs.", "user", False),
        ("It lies behind the weir. Is it dry?", "assistant", False),
        (
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            "assistant",
            True,
        ),
        ("Silt behind a weir takes four percent.", "assistant", False),
        ({"role": "tool", "tool_call_id": "c-1", "content": "silt"}, "tool", False),
    ],
)
def test_message_has_no_answer_when_it_only_asks_or_repeats(
    content: Any, role: Role, *, expected: bool
) -> None:
    query = build_query("What do we know about silt behind a weir?")
    assert has_no_answer(read(content, role=role), query) == expected


def test_question_of_same_form_begins_and_ends_alike() -> None:
    asked = "Compare neap tides with what you found before."
    same = read("Compare silt with what you found before.", role="user")
    other = read("Compare them: neap tides were lower before.", role="user")
    assert has_same_form(same, asked)
    assert not has_same_form(other, asked)
    thanks = read("My door is 5 Dock Row, thank you very much", role="user")
    assert not has_same_form(thanks, "My bike is late, thank you very much")
    assert not has_same_form(read("Yes", role="user"), "Yes")
