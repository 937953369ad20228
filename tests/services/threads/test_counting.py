from __future__ import annotations

import json
from typing import Any

import pytest

from memoryhub.errors import TokensRequiredError
from memoryhub.journal import KeyedRequest
from memoryhub.journal.texts import texts
from memoryhub.kernel.commands import NewSlot
from memoryhub.kernel.context.opened import get_body
from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.messages.words import render_content_words
from memoryhub.kernel.paging.page_commands import MapPage
from memoryhub.kernel.state.page_events import PageCompressed
from memoryhub.kernel.state.pages import PageEntry
from memoryhub.queries.paging import pages
from memoryhub.queries.replay import tokenizers
from memoryhub.queries.turns import contexts, envelopes, manifests
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.paging import pages as writing
from memoryhub.services.paging.pages import PageChange
from memoryhub.services.threads import slots
from memoryhub.services.turns import turns
from memoryhub.services.turns.turns import BegunTurn, NewTurn
from tests.cast import factories
from tests.cast.factories import get_thread, make_slot, make_thread, run
from tests.services.acts import state_of

pytestmark = pytest.mark.django_db

O200K = "o200k_base"
LONG = "Seat 12A costs 45.50 EUR; bag no. 7734-X is included. Ask again!\n" * 400


@pytest.fixture(autouse=True)
def exact(agent: Agent) -> None:
    make_thread(agent, tokenizer=O200K)


def count(text: str) -> int:
    return tokenizers.get_nearest(O200K).count(text)


def uncounted(content: Any = "hello", **fields: Any) -> NewSlot:
    """Build a message whose agent has not counted, as the API hands it on."""
    return make_slot(content, counted_by="est/1", **fields)


def append(agent: Agent, *new: NewSlot, **terms: Any) -> Any:
    return run(slots.append(agent=agent, thread="t-1", slots=new, **terms))


def begin(agent: Agent, *new: NewSlot, **terms: Any) -> BegunTurn:
    turn = NewTurn(slots=new, **terms)
    return run(turns.begin_turn(agent=agent, thread="t-1", new=turn))


def entry_of(agent: Agent, page_id: str) -> PageEntry:
    entry = pages.find_current_entry(get_thread(agent), page_id)
    assert entry is not None
    return entry


def assert_exact(agent: Agent, page_id: str) -> PageEntry:
    """Check that each level of the page has the tokens of its text."""
    entry, row = entry_of(agent, page_id), get_thread(agent)
    for level, held in enumerate(entry.levels):
        if held is not None:
            shown = envelopes.open_level(row, entry, level)
            text = get_body(shown, level=level)
            plain = text if isinstance(text, str) else render_content_words(text)
            assert held.tokens == count(plain), level
    return entry


def test_message_is_counted_exactly(agent: Agent) -> None:
    assert count(LONG) != estimate_tokens(LONG)
    call = {"name": "find", "arguments": '{"id": "BK1"}'}
    calling = {"role": "assistant", "content": "Let me see.", "tool_calls": [call]}
    receipt = append(
        agent, uncounted(LONG), uncounted(calling), uncounted({"x": [1, 2, 3.5]})
    )
    assert [entry_of(agent, f"slot-{n}").full.tokens for n in range(3)] == [
        each.event.tokens for each in receipt.events
    ]
    for n in range(3):
        entry = assert_exact(agent, f"slot-{n}")
        assert entry.full.cost > entry.full.tokens
    words = (LONG, 'Let me see.\nfind({"id": "BK1"})', '{"x":[1,2,3.5]}')
    assert get_thread(agent).token_count == sum(map(count, words))


def test_token_count_of_the_agent_stands(agent: Agent) -> None:
    append(agent, make_slot(LONG, tokens=99), uncounted(LONG))
    assert entry_of(agent, "slot-0").full.tokens == 99
    assert entry_of(agent, "slot-1").full.tokens == count(LONG)


def test_page_and_each_version_are_counted_exactly(agent: Agent) -> None:
    factories.make_page(agent, "a", text=LONG)
    assert assert_exact(agent, "a").full.tokens == count(LONG)
    row, change = get_thread(agent), PageChange(content={"text": "Row 12, seat A."})
    entry = entry_of(agent, "a")
    run(writing.amend_page(agent=agent, thread=row, entry=entry, change=change))
    assert assert_exact(agent, "a").full.tokens == count("Row 12, seat A.")


def test_levels_are_counted_exactly(agent: Agent) -> None:
    factories.make_page(agent, "a", text=LONG, map=False)
    command = MapPage(page_id="a", level=2)
    run(writing.map_page(agent=agent, thread="t-1", command=command))
    entry = assert_exact(agent, "a")
    assert all(entry.levels)
    whole = entry.full.tokens
    assert entry.require_level(1).tokens <= whole // 2
    assert entry.require_level(2).tokens <= 200
    assert entry.require_level(3).tokens <= 50


def test_message_too_large_to_be_shown_whole_has_exact_levels(agent: Agent) -> None:
    make_thread(agent, "t-2", tokenizer=O200K, budget_tokens=8_000)
    new = uncounted(LONG, role="user")
    receipt = run(slots.append(agent=agent, thread="t-2", slots=[new]))
    (made,) = receipt.list_events(PageCompressed)
    assert made.page_id == "slot-0"
    row = get_thread(agent, "t-2")
    entry = pages.find_current_entry(row, "slot-0")
    assert entry is not None
    for level in made.levels:
        text = envelopes.open_level(row, entry, level.level).content
        assert level.tokens == count(text)


def test_request_is_counted_exactly_and_within_its_budget(agent: Agent) -> None:
    for n in range(12):
        append(
            agent,
            uncounted(f"{n}: {LONG}", role="user"),
            uncounted(LONG, role="assistant"),
        )
    for budget in (900, 1_500, 2_222, 7_777, 30_000):
        begun = begin(agent, uncounted("And now?", role="user"), token_budget=budget)
        assert begun.tokens == count(begun.request.decode()) <= budget
        assert begun.tokens > budget * 0.5
        assert begun.tokenizer == O200K
        assert "And now?" in begun.request.decode()
    record = contexts.get_recorded_turn(get_thread(agent), 5).record
    assert record.tokenizer == O200K
    for section in record.sections:
        assert 0 < section.tokens <= record.tokens
    manifest = manifests.get_manifest(get_thread(agent), state_of(get_thread(agent)))
    assert manifest["tokenizer"] == O200K


def test_common_request_prefix_is_counted_exactly(
    agent: Agent,
) -> None:
    append(agent, uncounted(LONG, role="system"))
    first = begin(
        agent, uncounted("One?", role="user"), mode="passive"
    ).request.decode()
    begun = begin(agent, uncounted("Two?", role="user"), mode="passive")
    packed = contexts.get_recorded_turn(get_thread(agent), begun.turn).event
    shared = LONG.splitlines()[0]
    assert shared in first
    assert packed.prefix_tokens is not None
    assert count(LONG) * 0.9 < packed.prefix_tokens <= begun.tokens


def test_repeated_append_is_answered_as_before(agent: Agent) -> None:
    request = KeyedRequest(key="k", fingerprint=b"x")
    first = append(agent, uncounted(LONG), request=request)
    again = append(agent, uncounted(LONG), request=request)
    assert (again.seq, again.replayed) == (first.seq, True)
    assert get_thread(agent).slot_count == 1


def test_agent_must_count_when_the_tokenizer_is_missing(
    agent: Agent, not_run_here: str
) -> None:
    with pytest.raises(TokensRequiredError, match="tokens_required") as refusal:
        append(agent, uncounted(LONG))
    assert "its extra `tokens`" in refusal.value.message
    with pytest.raises(TokensRequiredError):
        factories.make_page(agent, "a", text=LONG)
    assert get_thread(agent).head_seq == 1
    append(agent, make_slot(LONG, tokens=7_000))
    begun = begin(agent, make_slot("And now?", role="user", tokens=3))
    assert begun.tokenizer == "est/1"
    assert begun.tokens == estimate_tokens(begun.request.decode())


def test_recorded_context_needs_no_tokenizer(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(agent, uncounted(LONG))
    begun = begin(agent, uncounted("And now?", role="user"), token_budget=3_000)
    assert begun.cut or begun.omitted
    monkeypatch.setattr(tokenizers, "_held", {O200K: None})
    texts.clear()
    row = get_thread(agent)
    whole = contexts.reassemble_request(
        row, contexts.get_recorded_turn(row, begun.turn)
    )
    assert whole.verified
    assert whole.request == begun.request
    assert json.loads(begun.request)["messages"]
