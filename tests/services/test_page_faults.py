from __future__ import annotations

import json
from typing import Any

import pytest

from memoryhub.errors import (
    FaultBudgetError,
    FaultConfidenceError,
    NotFoundError,
    PageErasedError,
    PageUnknownError,
)
from memoryhub.kernel.page_commands import DeletePage, EvictPage, FaultPage
from memoryhub.kernel.page_events import FaultRefused, PageFaulted, PageReferenced
from memoryhub.models.events import Event
from memoryhub.queries import pages, states
from memoryhub.services import page_faults
from memoryhub.services import pages as writing
from memoryhub.services.api_keys import Agent
from memoryhub.services.page_faults import Faulted
from memoryhub.services.turns import NewTurn, begin
from tests import factories
from tests.factories import run
from tests.paging import LOOSE, prose
from tests.services.acts import paging

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def thread(agent: Agent) -> None:
    """A page of 900 tokens, away from the working set."""
    factories.make_thread(agent, **LOOSE)
    factories.make_page(agent, "a", text=prose(900), map=False)


def fault(agent: Agent, page_id: str, level: int = 2, **said: Any) -> Faulted:
    command = FaultPage(page_id=page_id, level=level, **said)
    return run(page_faults.fault(agent=agent, thread="t-1", command=command))


def call(agent: Agent, arguments: Any, name: str = "page_fault") -> dict[str, Any]:
    sent = {
        "id": "call_1",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
    message = run(page_faults.call(agent=agent, thread="t-1", sent=sent))
    assert (message["role"], message["tool_call_id"]) == ("tool", "call_1")
    content: dict[str, Any] = json.loads(message["content"])
    return content


def evict(agent: Agent, page_id: str) -> None:
    run(writing.apply(agent, "t-1", EvictPage(page_id=page_id)))


def user_speaks(agent: Agent) -> None:
    new = NewTurn(slots=[factories.make_slot("And now?")])
    run(begin(agent=agent, thread="t-1", new=new))


def test_a_fault_serves_a_level_and_charges_its_true_tokens(agent: Agent) -> None:
    found = fault(agent, "a", 2)
    assert found.envelope.level == 2
    assert found.envelope.source_tier == "L1"
    assert found.envelope.tier == "L0"
    event = found.receipt.one(PageFaulted)
    assert (
        event.tokens
        == found.tokens
        == pages.find_entry(states.state_of(factories.get_thread(agent)), "a")
        .at(2)
        .tokens
    )
    assert found.faults_left == 2
    assert found.fault_tokens_left == 8_192 - found.tokens


def test_fault_of_mapped_is_free(agent: Agent) -> None:
    fault(agent, "a", 1)
    for level in (1, 2, 3):
        found = fault(agent, "a", level)
        assert found.envelope.level == 1
        assert found.receipt.one(PageReferenced).how == "fault"
        assert found.faults_left == 2
    assert paging(agent).spent.faults == 1


def test_going_more_faithful_is_a_fault_too(agent: Agent) -> None:
    fault(agent, "a", 2)
    found = fault(agent, "a", 0)
    event = found.receipt.one(PageFaulted)
    assert (event.level_before, event.level, event.cause) == (2, 0, "upgrade")
    assert found.faults_left == 1


def test_true_tokens_against_cap(agent: Agent) -> None:
    """A page of 100,000 tokens is refused at FULL by what it really weighs."""
    factories.make_page(agent, "huge", text=prose(160_000))
    weight = pages.find_entry(
        states.state_of(factories.get_thread(agent)), "huge"
    ).full.tokens
    assert weight > 100_000
    with pytest.raises(FaultBudgetError) as refused:
        fault(agent, "huge", 0)
    assert refused.value.detail == {
        "faults_left": 3,
        "fault_tokens_left": 8_192,
        "tokens": weight,
        "cheaper_levels": (3, 2),
    }
    found = fault(agent, "huge", 2)
    assert found.envelope.level == 2
    assert 0 < found.tokens <= 200
    assert paging(agent).spent.faults == 1


def test_promotion_is_told_truthfully(agent: Agent) -> None:
    """A page that can't be mapped is served all the same, and said to be elsewhere."""
    factories.make_page(agent, "big", text=prose(3_500))
    found = fault(agent, "big", 0)
    assert not found.promoted
    assert found.envelope.tier == "L1"
    assert "big" not in paging(agent).frames
    assert "big" in paging(agent).hot
    assert found.tokens > 2_000
    small = fault(agent, "a", 2)
    assert small.promoted
    assert "a" in paging(agent).frames


def test_refusals_counted_and_bounded(agent: Agent) -> None:
    for n in range(15):
        with pytest.raises(PageUnknownError):
            fault(agent, f"guess-{n}")
    kept = Event.objects.filter(type=FaultRefused.event_type)
    assert kept.count() == 10
    assert all("guess" not in event.body for event in kept)
    assert paging(agent).spent.faults == 0
    assert paging(agent).counts["refused.page_unknown"] == 10


def test_tool_loop_does_not_renew_budget(agent: Agent) -> None:
    user_speaks(agent)
    for n in range(3):
        factories.make_page(agent, f"p{n}", map=False)
        fault(agent, f"p{n}")
    run(begin(agent=agent, thread="t-1", new=NewTurn()))
    with pytest.raises(FaultBudgetError) as refused:
        fault(agent, "a")
    assert refused.value.detail["faults_left"] == 0
    assert refused.value.detail["cheaper_levels"] == ()
    user_speaks(agent)
    assert fault(agent, "a").faults_left == 2


def test_reason_and_by_recorded(agent: Agent) -> None:
    found = fault(agent, "a", reason="user_requested_recall", by="model")
    event = found.receipt.one(PageFaulted)
    assert (event.reason, event.by) == ("user_requested_recall", "model")
    evict(agent, "a")
    with pytest.raises(FaultConfidenceError):
        fault(agent, "a", reason="speculative")
    assert paging(agent).spent.faults == 1


def test_a_deleted_page_is_gone_and_a_repeat_answers_the_same(agent: Agent) -> None:
    run(writing.apply(agent, "t-1", DeletePage(page_id="a")))
    for _ in range(12):
        with pytest.raises(PageErasedError):
            fault(agent, "a")


def test_a_models_call_is_answered_with_an_envelope(agent: Agent) -> None:
    content = call(agent, '{"page_id": "a", "target_level": 1}')
    assert content["page"]["level"] == 1
    assert content["effects"]["faults_left"] == 2
    assert Event.objects.filter(type="page.faulted", body__contains='"by":"model"')


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("{", "arguments_json"),
        ('{"page_id": 7}', "arguments"),
        ({"page_id": "a", "target_level": 4}, "arguments"),
        ({"page_id": "a", "target_level": True}, "arguments"),
        ({"page_id": "a", "x": 1}, "arguments"),
        ({"page_id": "nowhere"}, "page_unknown"),
        ({"page_id": "ü" * 4_000}, "page_unknown"),
        ({"page_id": "slot-" + "9" * 5_000}, "page_unknown"),
        ({"page_id": "a'; DROP TABLE page--"}, "page_unknown"),
        ({"page_id": ""}, "page_unknown"),
    ],
)
def test_what_a_model_gets_wrong_is_told_to_it(
    agent: Agent, arguments: Any, error: str
) -> None:
    content = call(agent, arguments)
    assert content["error"] == error
    assert content["detail"]
    assert "page" not in content


def test_a_tool_that_is_not_ours_is_named_to_the_model(agent: Agent) -> None:
    assert call(agent, {}, name="rm")["error"] == "tool_unknown"


def test_a_call_in_no_thread_is_no_mistake_of_the_model(agent: Agent) -> None:
    for sent in ({}, {"function": {"name": "page_fault", "arguments": "{}"}}):
        with pytest.raises(NotFoundError):
            run(page_faults.call(agent=agent, thread="absent", sent=sent))
