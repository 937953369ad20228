"""Names of the threads that are sessions of OpenAI's Agents SDK."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.kernel.text import names
from memoryhub_client.openai_agents import MemoryHubSession

NAMED = [
    ("talk", "talk"),
    ("a.b", "a.b"),
    ("a\nb/c", "a@0ab@2fc"),
    ("../..", "openai:..@2f.."),
    ("", "openai:"),
    (".", "openai:."),
    ("mh.home.x", "openai:mh.home.x"),
    ("openai:.", "openai@3a."),
    ("\u65e5", "openai:@e6@97@a5"),
]


@pytest.mark.parametrize(("session_id", "thread"), NAMED)
def test_session_id_is_escaped_to_a_thread_name(session_id: str, thread: str) -> None:
    hub: Any = None
    made = MemoryHubSession(hub, session_id).thread
    assert made == thread
    assert names.is_valid(made)
    assert not names.is_reserved(made)
