"""Pins: those that are set, those that are computed, and the share they have."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.errors import PinBudgetError, PinnedError
from memoryhub.kernel.commands import AppendSlots
from memoryhub.kernel.paging.eviction import pins
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    CreatePages,
    EvictPage,
    FaultPage,
    MapPage,
    NewPage,
    PinPage,
    UnpinPage,
)
from memoryhub.kernel.state.page_events import PageEvicted, PageMapped, PagePinned
from tests.oracles.paging import (
    BARE,
    SMALL,
    Bench,
    build_levels,
    build_page,
    build_slot,
    list_of_kind,
    make,
    rewrite,
)

#: 960 tokens of 1,600 may be pinned.


def append(bench: Bench, *sizes: int, role: str = "assistant") -> list[Any]:
    return bench.do(AppendSlots(slots=tuple(build_slot(size, role) for size in sizes)))


def rules(bench: Bench) -> dict[str, str]:
    return pins.list_pinned(bench.state)


def prompt(tokens: int) -> NewPage:
    return build_page("system-prompt", tokens, type="procedure", role="system")


def put_prompt(bench: Bench, tokens: int) -> list[Any]:
    return bench.do(CreatePages(pages=(prompt(tokens),), replace=True))


def test_pinned_claim_is_never_victim() -> None:
    bench = Bench(**SMALL)
    make(
        bench,
        build_page("theirs", 100, type="claim"),
        build_page("ours", 100, type="claim"),
    )
    bench.do(PinPage(page_id="theirs"))
    for _ in range(40):
        bench.do(BeginTurn(slots=(build_slot(200, "assistant"),)))
    assert {"theirs", "ours"} <= {*bench.mapped}
    assert rules(bench)["theirs"] == "explicit"
    assert rules(bench)["ours"] == "claim"
    for page_id in ("theirs", "ours"):
        with pytest.raises(PinnedError):
            bench.do(EvictPage(page_id=page_id))
    bench.do(UnpinPage(page_id="theirs"))
    assert rules(bench)["theirs"] == "claim"


def test_summaries_do_not_pile_up_as_pins() -> None:
    bench = Bench(**SMALL)
    make(bench, *(build_page(f"s{n}", 60, type="summary") for n in range(10)))
    for _ in range(3):
        bench.do(BeginTurn())
    assert len(bench.mapped) == 10
    assert rules(bench) == {}


def test_pins_beyond_their_share_are_refused() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 500), build_page("b", 460), build_page("c", 90))
    bench.do(PinPage(page_id="a"))
    bench.do(PinPage(page_id="b"))
    before = bench.state
    with pytest.raises(PinBudgetError) as refusal:
        bench.do(PinPage(page_id="c"))
    assert refusal.value.detail == {"pinned_tokens": 1_050, "allowed_tokens": 960}
    assert bench.state is before


def test_pinning_maps_first_and_a_repeat_tells_nothing() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", map=False))
    events = bench.do(PinPage(page_id="a"))
    assert [*map(type, events)] == [PageMapped, PagePinned]
    # One command names the page once, so it is looked up once.
    assert [event.lookup for event in list_of_kind(events, PageMapped)] == ["hit"]
    assert [event.lookup for event in list_of_kind(events, PagePinned)] == [None]
    assert bench.do(PinPage(page_id="a")) == []
    assert len(bench.do(UnpinPage(page_id="a"))) == 1
    assert bench.do(UnpinPage(page_id="a")) == []


def test_pinned_page_grows_within_the_share_only() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 100), build_page("b", 400))
    bench.do(PinPage(page_id="a"))
    bench.do(PinPage(page_id="b"))
    with pytest.raises(PinBudgetError):
        bench.do(rewrite("a", 561))
    # More than a page that is not pinned could have at all.
    bench.do(rewrite("b", 700))
    assert bench.frame("b").tokens == 700
    with pytest.raises(PinBudgetError):
        bench.do(rewrite("a", 261))
    bench.do(rewrite("a", 260))
    assert pins.count_pinned_tokens(bench.paging) == 960


def test_pinned_page_that_grows_displaces_computed_pins() -> None:
    bench = Bench(**SMALL)
    make(bench, build_page("a", 100), build_page("b", 300), build_page("c", 500))
    bench.do(PinPage(page_id="a"))
    assert {*rules(bench)} == {"a", "c", "b"}
    bench.do(rewrite("a", 900))
    assert bench.frame("a").tokens == 900
    assert bench.mapped == ["a"]


def test_page_that_outgrows_a_computed_pin_is_let_go() -> None:
    bench = Bench(**SMALL)
    make(bench, build_page("a", 100))
    assert rules(bench) == {"a": "recent"}
    events = bench.do(rewrite("a", 700))
    assert [event.page_id for event in list_of_kind(events, PageEvicted)] == ["a"]
    assert bench.hot("a").entry.version == 2


def test_pinned_level_grows_within_the_share_only() -> None:
    bench = Bench(**BARE)
    make(bench, build_page("a", 600, map=False), build_page("b", 500))
    bench.do(PinPage(page_id="b"))
    bench.do(MapPage(page_id="a", level=1, made=build_levels("a", 100)))
    bench.do(PinPage(page_id="a"))
    with pytest.raises(PinBudgetError):
        bench.do(MapPage(page_id="a", level=0))
    (fault,) = bench.do(FaultPage(page_id="a", level=0))
    assert fault.refusal == "no_room"
    assert bench.frame("a").level == 1


def test_system_prompt_has_the_share_of_pins() -> None:
    bench = Bench(**SMALL)
    append(bench, 300, 300, 300, role="system")
    assert {*rules(bench).values()} == {"system"}
    with pytest.raises(PinBudgetError):
        put_prompt(bench, 961)
    # Its own page comes before slots of role system, however old they are.
    put_prompt(bench, 800)
    assert rules(bench) == {"system-prompt": "system"}
    with pytest.raises(PinBudgetError):
        put_prompt(bench, 961)
    with pytest.raises(PinnedError):
        bench.do(EvictPage(page_id="system-prompt"))
    append(bench, 600, 600)
    assert "system-prompt" in bench.mapped


def test_system_prompt_is_a_page_like_others_when_it_is_not_pinned() -> None:
    bench = Bench(**BARE, auto_pin_system=False)
    put_prompt(bench, 100)
    assert rules(bench) == {}
    bench.do(EvictPage(page_id="system-prompt"))
    # A page that is written again is meant to be seen.
    put_prompt(bench, 200)
    assert bench.mapped == ["system-prompt"]


def test_computed_pins_take_what_is_left_in_their_order() -> None:
    bench = Bench(**{**SMALL, "claim_share": 0.1})
    make(
        bench,
        build_page("low", 100, type="claim", importance=0.1),
        build_page("high", 100, type="claim", importance=0.9),
        build_page("newer", 100, type="claim", importance=0.1),
    )
    for _ in range(3):
        bench.do(BeginTurn())
    # A tenth of the usable tokens: one claim, the most important.
    assert rules(bench) == {"high": "claim"}
    append(bench, 100, role="user")
    append(bench, 100)
    assert rules(bench) == {
        "high": "claim",
        "slot-0": "exchange",
        "slot-1": "exchange",
    }
    append(bench, 100, role="user")
    assert rules(bench)["slot-2"] == "exchange"
    assert rules(bench)["slot-1"] == "recent"


def test_users_message_comes_first_in_its_exchange() -> None:
    bench = Bench(**BARE)
    append(bench, 300, role="user")
    append(bench, 400, 400, role="tool")
    assert rules(bench) == {"slot-0": "exchange", "slot-2": "exchange"}


def test_recent_pages_are_pinned_for_so_many_turns() -> None:
    bench = Bench(**{**SMALL, "auto_pin_turns": 2})
    make(bench, build_page("a", 100))
    for expected in ({"a": "recent"}, {"a": "recent"}, {}):
        assert rules(bench) == expected
        bench.do(BeginTurn())
