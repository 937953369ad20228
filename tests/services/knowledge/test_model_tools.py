"""Memory tools of a model: recorded as the model's, where its thread allows them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memoryhub.errors import NotFoundError
from memoryhub.kernel.memory.key_events import KeySet
from memoryhub.kernel.memory.notes import NoteAdded
from memoryhub.models.events import Event
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge import blocks as reading
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.knowledge import blocks, model_tools
from memoryhub.services.knowledge.blocks import BlockDraft
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import NewTurn
from tests.cast import factories, forgetting
from tests.cast.factories import run

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(agent: Agent) -> Subject:
    factories.make_thread(agent, user_id="ann", model_tools=True)
    ann = forgetting.get_subject(agent, "ann")
    draft = BlockDraft(block="persona", text="Ann flies.")
    run(blocks.put_block(agent=agent, subject=ann, draft=draft))
    return ann


def call(agent: Agent, name: str, thread: str = "t-1", **given: Any) -> str:
    function = {"name": name, "arguments": json.dumps(given)}
    sent = {"id": "call_7", "type": "function", "function": function}
    message = run(model_tools.answer_call(agent=agent, thread=thread, sent=sent))
    assert message is not None
    assert (message["role"], message["tool_call_id"]) == ("tool", "call_7")
    return str(message["content"])


def test_model_writes_notes_keys_and_blocks(agent: Agent, ann: Subject) -> None:
    assert call(agent, "note_add", text="Ann hesitates.") == "Noted."
    assert call(agent, "key_set", key="seat", value={"row": 12}) == "The value is kept."
    assert json.loads(call(agent, "key_get", key="seat")) == {"row": 12}
    said = call(agent, "block_edit", block="persona", old="flies", new="sails")
    assert said == "The block is changed."
    call(agent, "block_edit", block="persona", new=" At night.")
    home = find_home(ann)
    assert reading.get_block(home, "persona").text == "Ann sails. At night."
    call(agent, "block_edit", block="boat", new="A sloop.")
    assert reading.get_block(home, "boat").text == "A sloop."
    kinds = (NoteAdded.event_type, KeySet.event_type, "page.updated")
    bodies = Event.objects.filter(type__in=kinds).values_list("body", flat=True)
    assert [json.loads(body)["by"] for body in bodies] == ["model"] * 4


def test_mistake_of_a_model_is_answered_in_words(agent: Agent, ann: Subject) -> None:
    before = Event.objects.count()
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("note_add", {}, "missing"),
        ("note_add", {"text": ""}, "1 to"),
        ("note_add", {"text": "x", "more": 1}, "Unknown"),
        ("key_get", {"key": "seat"}, "no value"),
        ("key_set", {"key": "a b", "value": 1}, "no name"),
        ("block_edit", {"block": "persona", "old": "x", "new": "y"}, "no such text"),
        ("block_edit", {"block": "persona", "old": "", "new": "y"}, "leave `old` out"),
        ("block_edit", {"block": "none", "old": "x", "new": "y"}, "no block"),
        ("block_edit", {"block": "persona", "new": "y" * 65_536}, "65536 bytes"),
        ("block_edit", {"block": "persona", "new": 7}, "is a text"),
    ]
    for name, given, word in wrong:
        assert word in call(agent, name, **given)
    broken = {"function": {"name": "note_add", "arguments": "{"}}
    message = run(model_tools.answer_call(agent=agent, thread="t-1", sent=broken))
    assert message is not None
    assert "JSON" in message["content"]
    assert Event.objects.count() == before


def test_model_tools_are_refused_where_the_thread_forbids_them(
    agent: Agent, ann: Subject
) -> None:
    factories.make_thread(agent, "t-2", user_id="ann")
    assert (
        call(agent, "note_add", "t-2", text="x") == "This thread does not allow that."
    )
    with pytest.raises(NotFoundError):
        call(agent, "note_add", "t-3", text="x")
    other = {"function": {"name": "page_fault"}}
    assert run(model_tools.answer_call(agent=agent, thread="t-2", sent=other)) is None


def test_thread_with_model_tools_offers_them(agent: Agent, ann: Subject) -> None:
    factories.make_thread(agent, "t-2", user_id="ann")
    offered = []
    for name in ("t-1", "t-2"):
        factories.append(agent, name, "hello")
        begun = run(turns.begin_turn(agent=agent, thread=name, new=NewTurn()))
        tools = json.loads(begun.request)["tools"]
        offered.append([each["function"]["name"] for each in tools])
    with_it, without = offered
    assert with_it == [*without, "note_add", "key_set", "key_get", "block_edit"]
