from __future__ import annotations

from typing import Any

import pytest

from memoryhub.errors import (
    NoRoomError,
    NotFoundError,
    PageErasedError,
    PageUnknownError,
    PartsUnseenError,
)
from memoryhub.kernel.paging.page_commands import DeletePage, EvictPage, FaultPage
from memoryhub.kernel.state.page_events import PageFaulted
from memoryhub.models.events import Event
from memoryhub.queries.paging import pages
from memoryhub.queries.replay import states
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import page_faults
from memoryhub.services.paging import pages as writing
from memoryhub.services.paging.page_faults import FetchedPage, RequestedPart
from memoryhub.services.turns.turns import NewTurn, begin_turn
from tests.cast import factories
from tests.cast.factories import run
from tests.oracles.paging import LOOSE, build_prose
from tests.services.acts import paging

pytestmark = pytest.mark.django_db

UNKNOWN = " ".join((PageUnknownError.__doc__ or "").split())


@pytest.fixture(autouse=True)
def thread(agent: Agent) -> None:
    """Make a page of 900 tokens, away from the working set."""
    factories.make_thread(agent, **LOOSE)
    factories.make_page(agent, "a", text=build_prose(900), map=False)


def fault(
    agent: Agent,
    page_id: str,
    level: int = 2,
    part: RequestedPart | None = None,
    **fields: Any,
) -> FetchedPage:
    command = FaultPage(page_id=page_id, level=level, **fields)
    work = page_faults.fault_page(agent=agent, thread="t-1", command=command, part=part)
    return run(work)


def call(agent: Agent, arguments: Any, name: str = "page_fault") -> str:
    sent = {
        "id": "call_1",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
    message = run(page_faults.answer_call(agent=agent, thread="t-1", sent=sent))
    assert (message["role"], message["tool_call_id"]) == ("tool", "call_1")
    return str(message["content"])


def evict(agent: Agent, page_id: str) -> None:
    run(writing.submit_command(agent, "t-1", EvictPage(page_id=page_id)))


def user_speaks(agent: Agent) -> None:
    new = NewTurn(slots=[factories.make_slot("And now?")])
    run(begin_turn(agent=agent, thread="t-1", new=new))


def test_fault_serves_a_level_and_charges_its_true_tokens(agent: Agent) -> None:
    found = fault(agent, "a", 2)
    assert found.envelope.level == 2
    assert found.envelope.source_tier == "L1"
    assert found.envelope.tier == "L0"
    event = found.receipt.get_event(PageFaulted)
    assert (
        event.tokens
        == found.tokens
        == pages.find_entry(states.load_state(factories.get_thread(agent)), "a")
        .require_level(2)
        .tokens
    )
    assert found.faults_left == 2
    assert found.fault_tokens_left == 8_192 - found.tokens


def test_second_part_without_a_turn_is_told_to_wait_for_one(agent: Agent) -> None:
    factories.make_page(agent, "big", text=build_prose(7_500))
    first = fault(agent, "big", 0, part=RequestedPart(0, None)).part
    assert first is not None
    assert first.next_offset is not None
    rest = RequestedPart(first.next_offset, None)
    with pytest.raises(PartsUnseenError) as refused:
        fault(agent, "big", 0, part=rest)
    assert "Begin the next turn first" in refused.value.sentence
    assert "fits_level" not in refused.value.sentence
    user_speaks(agent)
    assert fault(agent, "big", 0, part=rest).promoted


def test_refused_fault_names_what_fits(agent: Agent) -> None:
    """Refuse a page that no request can show whole, and charge nothing."""
    factories.make_page(agent, "big", text=build_prose(7_500))
    with pytest.raises(NoRoomError) as refused:
        fault(agent, "big", 0)
    detail: dict[str, Any] = refused.value.detail
    level, tokens = detail["fits_level"], detail["fits_tokens"]
    assert paging(agent).spent.faults == 0
    part = fault(agent, "big", 0, part=RequestedPart(0, tokens))
    assert part.promoted
    assert part.part is not None
    assert part.tokens == tokens
    assert 3_400 < tokens <= 3_600
    assert part.text == build_prose(7_500)[: part.part.end]
    evict(agent, "big")
    found = fault(agent, "big", level)
    assert (found.promoted, found.envelope.level, found.envelope.tier) == (
        True,
        1,
        "L0",
    )
    assert "big" in paging(agent).frames


def test_deleted_page_is_gone_and_a_repeat_answers_the_same(agent: Agent) -> None:
    run(writing.submit_command(agent, "t-1", DeletePage(page_id="a")))
    for _ in range(12):
        with pytest.raises(PageErasedError):
            fault(agent, "a")


def test_page_fault_call_is_answered_by_a_head_line_and_the_text(
    agent: Agent,
) -> None:
    head, _, text = call(agent, '{"page_id": "a", "target_level": 0}').partition("\n\n")
    assert head == "page a · artifact · full · 565 tokens · 2 faults left"
    assert text == build_prose(900)
    again = call(agent, {"page_id": "a"})
    assert again == "page a · artifact · full · in your context already · 2 faults left"
    assert Event.objects.filter(type="page.faulted", body__contains='"by":"model"')


def test_repeated_call_id_serves_parts_not_in_the_context_yet(agent: Agent) -> None:
    """Fetch parts, then the whole; some models number their calls anew each time."""
    first, second = ({"page_id": "a", "offset": n, "limit": 64} for n in (0, 64))
    _, _, text = call(agent, first).partition("\n\n")
    _, _, more = call(agent, second).partition("\n\n")
    assert more
    assert build_prose(900).startswith(text + more)
    assert "in your context already" in call(agent, first)
    assert call(agent, {"page_id": "a", "target_level": 0}).endswith(build_prose(900))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("{", "expected JSON text"),
        ('{"page_id": 7}', "page_id: expected a string"),
        ({"page_id": "a", "target_level": 4}, "target_level: expected 0 to 3"),
        ({"page_id": "a", "target_level": True}, "expected an integer"),
        ({"page_id": "a", "x": 1}, "unknown field"),
        ({"page_id": "a", "limit": 63}, "limit: expected 64 to"),
        ({"page_id": "a", "target_level": 1, "offset": 0}, "of target_level 0"),
        (
            {"page_id": "a", "offset": 901},
            "offset takes 0 to 564, where the page ends.",
        ),
        ({"page_id": "nowhere"}, UNKNOWN),
        ({"page_id": "nowhere", "offset": 9}, UNKNOWN),
        ({"page_id": "ü" * 4_000}, UNKNOWN),
        ({"page_id": "slot-" + "9" * 5_000}, UNKNOWN),
        ({"page_id": "a'; DROP TABLE page--"}, UNKNOWN),
        ({"page_id": ""}, UNKNOWN),
    ],
)
def test_invalid_page_fault_call_is_answered_by_a_sentence(
    agent: Agent, arguments: Any, sentence: str
) -> None:
    content = call(agent, arguments)
    assert sentence in content
    assert "\n" not in content
    assert "9999" not in content
    assert "DROP" not in content


def test_unknown_tool_is_answered_with_the_known_tools(agent: Agent) -> None:
    assert "the tools are page_fault and page_search" in call(agent, {}, name="rm")


def test_page_fault_call_in_an_unknown_thread_is_not_found(agent: Agent) -> None:
    for sent in ({}, {"function": {"name": "page_fault", "arguments": "{}"}}):
        with pytest.raises(NotFoundError):
            run(page_faults.answer_call(agent=agent, thread="absent", sent=sent))


def test_page_is_read_whole_in_successive_parts(agent: Agent) -> None:
    """Follow each answer's `next_offset`, as a model does."""
    text = " ".join(f"row {n}," for n in range(2_000))
    factories.make_page(agent, "rows", text=text, map=False)
    read, offset = "", 0
    while True:
        user_speaks(agent)
        arguments = {"page_id": "rows", "offset": offset, "limit": 1_500}
        head, _, part = call(agent, arguments).partition("\n\n")
        read += part
        if "to the end" in head:
            break
        offset = int(head.partition("next_offset ")[2].partition(" ")[0])
    assert read == text
