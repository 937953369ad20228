"""Citations and ratings as stored: histories of pages, and the quality of memory."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.kernel.paging.page_commands import EvictPage, RateTurn
from memoryhub.models.events import Event
from memoryhub.queries.paging import eviction_runs, page_views
from memoryhub.queries.replay import replay
from memoryhub.queries.turns import turns
from memoryhub.queries.turns.qualities import PagingQuality, get_quality
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import slots
from tests.cast.factories import get_thread, make_page, make_slot, make_thread, run
from tests.oracles.page_acts import act
from tests.services.acts import fork
from tests.services.turns.test_recall import ASKED, talk
from tests.services.turns.test_turns import begin

pytestmark = pytest.mark.django_db


def answer(agent: Agent, text: str, thread: str = "t-1") -> Any:
    slot = make_slot(text, type="chat.assistant")
    return run(slots.append(agent=agent, thread=thread, slots=[slot]))


def measure(agent: Agent, thread: str = "t-1") -> PagingQuality:
    row = get_thread(agent, thread)
    return get_quality(row, replay.load_state_at(row, row.head_seq).state)


def test_quality_has_no_samples_without_citations_and_ratings(agent: Agent) -> None:
    begin(agent, "Hello.")
    answer(agent, "Good day.")
    found = measure(agent)
    assert (found.recall_success, found.effective_tokens) == (None, None)
    assert (found.citations, found.unknown_citations) == (0, 0)


def test_effective_tokens_count_each_cited_page_of_a_turn_once(agent: Agent) -> None:
    make_page(agent, "fares", text="Class Q can be changed once. " * 20)
    begun = begin(agent, "What of fares?")
    answer(agent, "Once [ref: fares, made-up].")
    answer(agent, "I repeat: once [ref: fares].")
    act(agent, RateTurn(turn=1, cited=("fares",)))
    tokens = (
        replay.load_state_at((row := get_thread(agent, "t-1")), row.head_seq)
        .state.paging.frames["fares"]
        .tokens
    )
    found = measure(agent)
    assert (found.cited_tokens, found.packed_tokens) == (tokens, begun.tokens)
    assert (found.citations, found.unknown_citations) == (3, 1)


def test_recall_succeeds_unless_the_last_rating_says_corrected(agent: Agent) -> None:
    talk(agent)
    begin(agent, ASKED)
    answer(agent, "Behind the boathouse [ref: slot-1].")
    act(agent, RateTurn(turn=1, corrected=True))
    assert measure(agent).recall_success == 0.0
    act(agent, RateTurn(turn=1, corrected=False))
    assert measure(agent).recall_success == 1.0
    act(agent, RateTurn(turn=1))
    assert measure(agent).recall_success is None
    shown = turns.get_context(get_thread(agent, "t-1"), 1)
    assert shown is not None
    assert [each.used for each in shown.used if each.source] == [True]


def test_rating_of_a_turn_without_recall_is_no_sample(agent: Agent) -> None:
    begin(agent, "Hello.")
    act(agent, RateTurn(turn=1, corrected=True))
    assert measure(agent).recalls == 0


def test_fork_continues_the_quality_of_its_parent(agent: Agent) -> None:
    make_page(agent, "fares")
    begin(agent, "What of fares?")
    answer(agent, "Once [ref: fares].")
    before = measure(agent)
    fork(agent, "t-1", "t-2")
    assert measure(agent, "t-2") == before
    answer(agent, "Twice [ref: fares, none].", "t-2")
    assert measure(agent, "t-2").unknown_citations == 1


def test_history_of_a_page_shows_its_citation_and_last_eviction(agent: Agent) -> None:
    make_thread(agent, auto_pin_turns=0)
    make_page(agent, "fares")
    make_page(agent, "seats")
    begin(agent, "What of fares?")
    act(agent, EvictPage(page_id="fares"))
    answer(agent, "Once [ref: fares, seats].")
    row = get_thread(agent, "t-1")
    history = page_views.get_page(row, "fares", seq=row.head_seq).history
    cited, evicted = history[0], history[1]
    assert (cited.type, cited.body["page_id"]) == ("pages.cited", "fares")
    assert evicted.type == "page.evicted"
    steps = eviction_runs.find_last_steps(row, ["fares", "seats"], up_to=row.head_seq)
    assert [*steps] == ["fares"]


def test_unknown_ids_stand_in_no_event(agent: Agent) -> None:
    begin(agent, "Hello.")
    answer(agent, "So it is [ref: made-up-name].")
    bodies = Event.objects.filter(thread__name="t-1").values_list("body", flat=True)
    assert not any("made-up-name" in body for body in bodies)
