"""Citations: what a message that cites pages changes, and what a rating records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memoryhub.errors import NotFoundError
from memoryhub.kernel.commands import AppendSlots
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    DeletePage,
    EvictPage,
    RateTurn,
)
from memoryhub.kernel.state.events import SlotAppended
from memoryhub.kernel.state.page_events import PagesCited, TurnRated
from tests.oracles.paging import Bench, build_page, build_slot, list_of_kind, make


def cite(bench: Bench, *cites: str) -> PagesCited:
    """Append a message of the model that cites these ids; return the citations."""
    answer = replace(build_slot(10, "assistant"), cites=cites)
    cited, *_, appended = bench.do(AppendSlots(slots=(answer,)))
    assert isinstance(appended, SlotAppended)
    assert isinstance(cited, PagesCited)
    assert cited.slot == appended.index
    return cited


@pytest.fixture
def bench() -> Bench:
    bench = Bench(auto_pin_turns=0)
    make(bench, build_page("a", 120), build_page("b"), build_page("gone"))
    bench.do(DeletePage(page_id="gone"))
    bench.do(BeginTurn())
    return bench


def test_message_references_all_its_pages_in_one_event(bench: Bench) -> None:
    bench.do(EvictPage(page_id="b"))
    before, tlb = bench.state.paging.counts, bench.state.paging.tlb
    event = cite(bench, "a", "b", "gone", "not a name", "slot-0")
    assert (event.by, event.turn) == ("model", 1)
    assert (event.page_ids, event.tokens, event.unknown) == (["a", "b"], [120, 0], 3)
    paging = bench.state.paging
    assert paging.frames["a"].references == 2
    assert paging.frames["a"].referenced_turn == 1
    assert paging.hot["b"].references == 2
    changed = {k: n - before.get(k, 0) for k, n in dict(paging.counts).items()}
    del changed["evicted"], changed["evicted.command"]
    assert changed == {"referenced": 2, "cited": 2, "cited_unknown": 3}
    assert (paging.tlb.hits, paging.tlb.misses) == (tlb.hits, tlb.misses)


def test_message_without_citations_has_no_event(bench: Bench) -> None:
    assert not list_of_kind(
        bench.do(AppendSlots(slots=(build_slot(9, "assistant"),))), PagesCited
    )


def test_cited_page_is_kept_when_the_message_needs_room() -> None:
    bench = Bench(
        budget_tokens=2_000, reserved_tokens=800, auto_pin_turns=0, policy="lru"
    )
    make(bench, build_page("a", 300), build_page("b", 300), build_page("c", 300))
    answer = replace(build_slot(300, "assistant"), cites=("a",))
    bench.do(AppendSlots(slots=(answer,)))
    assert "a" in bench.state.paging.frames
    assert "b" not in bench.state.paging.frames


def test_rating_references_pages_and_counts_no_citation(bench: Bench) -> None:
    (event,) = bench.do(RateTurn(turn=1, corrected=True, cited=("a", "a", "x")))
    assert isinstance(event, TurnRated)
    assert (event.rated, event.corrected) == (1, True)
    assert (event.page_ids, event.unknown) == (["a"], 1)
    assert bench.state.paging.frames["a"].references == 2
    assert "cited" not in dict(bench.state.paging.counts)
    for turn in (0, 2):
        with pytest.raises(NotFoundError):
            bench.do(RateTurn(turn=turn))
