"""Prefetch: what `GET prefetch` foresees is what the next turn brings."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest

from memoryhub.errors import PinnedError
from memoryhub.journal.log import thread_terms
from memoryhub.kernel.paging.page_commands import (
    DeletePage,
    EvictPage,
    FaultPage,
    ReferencePages,
    WriteLevels,
)
from memoryhub.kernel.state.page_events import PageFaulted
from memoryhub.queries.replay import states
from memoryhub.queries.turns import contexts
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.turns import foresights
from tests.cast.factories import append, get_thread, make_thread
from tests.oracles.page_acts import act, levels_of, make_pages, new_page
from tests.services.acts import fork, state_of
from tests.services.turns.test_recall import FILLER, call_tool
from tests.services.turns.test_turns import begin, reassemble_request

pytestmark = pytest.mark.django_db

UNPINNED: dict[str, Any] = {"auto_pin_turns": 0, "auto_pin_claims": False}
PREFETCHED = ("summary", "claim", "prerequisite")


def foresee(agent: Agent, name: str = "t-1") -> dict[str, Any]:
    row = get_thread(agent, name)
    return foresights.get_prefetch(row, state_of(row), name=name)


def list_brought(agent: Agent, turn: int, name: str = "t-1") -> list[dict[str, Any]]:
    """List the pages that a turn has prefetched, from its record."""
    record = contexts.get_recorded_turn(get_thread(agent, name), turn).record
    if record.recall is None or record.recall.turn != turn:
        return []
    refs = record.get_refs("recall")
    found = zip(record.recall.pages, record.recall.sources, refs, strict=True)
    return [
        {"page_id": page, "why": source, "level": ref.level}
        for page, source, ref in found
        if source in PREFETCHED
    ]


def settle(agent: Agent, name: str = "t-1") -> None:
    """Evict the pages that are no messages one tier down, unless they are pinned."""
    paging = state_of(get_thread(agent, name)).paging
    for page_id in [*paging.frames, *paging.hot]:
        if not page_id.startswith("slot-"):
            with suppress(PinnedError):
                act(agent, EvictPage(page_id=page_id), name)


@pytest.mark.parametrize("seed", range(6))
def test_next_turn_brings_what_was_foreseen(agent: Agent, seed: int) -> None:
    """Compare random threads, with a message that waits and with an empty one."""
    dice = Random(seed)
    settings: dict[str, Any] = {
        "budget_tokens": dice.choice([3_000, 4_500, 9_000]),
        "reserved_tokens": 800,
        "auto_pin_turns": dice.choice([0, 3]),
        "auto_pin_claims": dice.random() < 0.3,
        "recall": dice.choice(["thread", "thread", "subject", "off"]),
        "recall_tokens": dice.choice([None, None, 400, 1_500]),
        "tlb_entries": dice.choice([0, 4, 512]),
        "observe": seed == 5,
        "l1_pages": dice.choice([2, 100]),
    }
    make_thread(agent, user_id="ann", **settings)
    begin(agent, "Good morning.")
    pages, seen = list[str](), 0
    for step in range(6):
        kind = dice.choice(["claim", "claim", "summary", "artifact"])
        words = dice.choice([3, 30, 150, 600])
        pages.append(f"p-{step}")
        make_pages(agent, new_page(pages[-1], f"{step} it is. " * words, type=kind))
        for page_id in dice.sample(pages, min(3, len(pages))):
            act(agent, ReferencePages(page_ids=(page_id,)))
        if dice.random() < 0.5:
            made = levels_of(pages[-1], {2: f"{step} it is."})
            act(agent, WriteLevels(made=made))
        call_tool(agent, "refund", step)
        append(agent, "t-1", *(f"{n} {FILLER}" for n in range(dice.choice([1, 12]))))
        if dice.random() < 0.7:
            settle(agent)
        if dice.random() < 0.2:
            act(agent, DeletePage(page_id=pages.pop(0)))
        begun = begin(agent, "")
        told = dice.choice(["As we said, go on.", "It is what?", FILLER * 4])
        append(agent, "t-1", told)
        for given in ((), ("",)):
            coming = foresee(agent)["coming"]
            begun = begin(agent, *given)
            assert coming == list_brought(agent, begun.turn)
            assert reassemble_request(agent, begun.turn) == begun.request
            seen += len(coming)
    assert seen or settings["recall"] == "off"
    row = get_thread(agent)
    assert states.load_state(row).paging.claims == state_of(row).paging.claims


def test_turn_without_words_is_foreseen_without_a_search(agent: Agent) -> None:
    append(agent, "t-1", "The code is zfa04y.")
    begin(agent)
    thread_terms.indexes.clear()
    foresee(agent)
    row = get_thread(agent, "t-1")
    key = (row.subject_id, row.subject.epoch, row.id)
    assert thread_terms.indexes.get(key) is None


def test_pages_of_any_tier_come(agent: Agent) -> None:
    """Bring the newest summary and the most used claims after they have gone home."""
    sizes: dict[str, Any] = {"budget_tokens": 9_000, "reserved_tokens": 800}
    make_thread(agent, **sizes, **UNPINNED, tlb_entries=0)
    begin(agent, "Good morning.")
    for name in ("older", "newer"):
        make_pages(agent, new_page(name, f"{name} summary.", type="summary"))
    for number in range(5):
        make_pages(agent, new_page(f"c-{number}", f"Claim {number}.", type="claim"))
        for _ in range(number):
            act(agent, ReferencePages(page_ids=(f"c-{number}",)))
    begin(agent, "Thank you.")
    settle(agent)
    settle(agent)
    state = state_of(get_thread(agent)).paging
    assert state.find_tier("newer") is state.find_tier("c-4") is None
    found = foresee(agent)
    names = [each["page_id"] for each in found["coming"]]
    assert sorted(names) == ["c-2", "c-3", "c-4", "newer"]
    assert [each for each in found["staying"] if each["reason"] == "limit"] == [
        {"page_id": "c-1", "why": "claim", "reason": "limit"}
    ]
    fork(agent, "t-1", "child", **sizes, **UNPINNED)
    assert foresee(agent, "child")["coming"] == found["coming"]
    act(agent, DeletePage(page_id="newer"), "child")
    act(agent, DeletePage(page_id="c-4"), "child")
    names = [each["page_id"] for each in foresee(agent, "child")["coming"]]
    assert sorted(names) == ["c-1", "c-2", "c-3", "older"]
    assert list_brought(agent, begin(agent, "").turn) == found["coming"]


def test_usual_page_comes_at_a_lower_level_if_it_is_too_large(agent: Agent) -> None:
    make_thread(agent, budget_tokens=8_000, reserved_tokens=1_000, auto_pin_turns=0)
    begin(agent, "Good morning.")
    make_pages(agent, new_page("fares", "Fares are refunded. " * 300))
    for number in range(3):
        act(agent, ReferencePages(page_ids=("fares",)))
        call_tool(agent, "refund", number)
    act(agent, EvictPage(page_id="fares"))
    staying = {"page_id": "fares", "why": "prerequisite", "reason": "too_large"}
    assert staying in foresee(agent)["staying"]
    act(agent, WriteLevels(made=levels_of("fares", {1: "Half. " * 900, 2: "Fares."})))
    coming = foresee(agent)["coming"]
    assert coming == [{"page_id": "fares", "why": "prerequisite", "level": 2}]
    begun = begin(agent, "")
    assert list_brought(agent, begun.turn) == coming
    assert b"fares ~2 \xc2\xb7 artifact\\nFares." in begun.request
    assert reassemble_request(agent, begun.turn) == begun.request
    # Only the summary came: the whole page is a page fault like any other.
    fetched = act(agent, FaultPage(page_id="fares", level=2))
    assert fetched.list_events(PageFaulted)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"recall": "off"}, "recall_off"),
        ({"mode": "passive"}, "recall_off"),
        ({"recall_tokens": 60}, "too_large"),
        ({"recall_tokens": 1_000}, "no_room"),
        ({"keep": True}, "shown"),
    ],
)
def test_page_that_does_not_come_says_why(
    agent: Agent, settings: dict[str, Any], reason: str
) -> None:
    keep = settings.pop("keep", False)
    sizes: dict[str, Any] = {"budget_tokens": 9_000, "reserved_tokens": 800}
    make_thread(agent, **sizes, **UNPINNED, **settings)
    begin(agent, "Good morning.")
    for name in ("a", "b"):
        make_pages(agent, new_page(name, f"{name} is due. " * 50, type="claim"))
        act(agent, ReferencePages(page_ids=(name,)))
    begin(agent, "Thank you.")
    if not keep:
        settle(agent)
    found = foresee(agent)
    reasons = {each["page_id"]: each["reason"] for each in found["staying"]}
    assert reasons["a"] == reason
    assert list_brought(agent, begin(agent, "").turn) == found["coming"]
