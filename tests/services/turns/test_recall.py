"""Recall: pages that a turn brings along unasked, and whether they are used."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memoryhub.kernel.commands import StrikeSlots
from memoryhub.kernel.paging.page_commands import (
    ClearPrefetch,
    DeletePage,
    EvictPage,
    FaultPage,
    ReferencePages,
)
from memoryhub.kernel.state.page_events import (
    PageFaulted,
    PageReferenced,
    PrefetchCleared,
    TurnBegan,
)
from memoryhub.models.events import Event
from memoryhub.queries.turns import contexts, turns
from memoryhub.queries.verify.verification import verify
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.threads import slots
from memoryhub.services.turns import foresights
from tests.cast.erasings import erase
from tests.cast.factories import append, get_thread, make_slot, make_thread, run
from tests.oracles.page_acts import act, make_pages, new_page
from tests.services.acts import amend, fork, paging, state_of
from tests.services.turns.test_turns import begin, reassemble_request

pytestmark = pytest.mark.django_db

FACT = "The kayak is stored behind the boathouse in Tromso. " + 25 * "It is green. "
ASKED = "Where did I say that my kayak is?"
FILLER = "Nothing of any use was said about the weather of the day. " * 6


def talk(
    agent: Agent,
    name: str = "t-1",
    *,
    fact: str = FACT,
    reply: str = "",
    **limits: Any,
) -> None:
    """Make a thread from which later messages have evicted a fact and its answer."""
    user_id = limits.pop("user_id", None)
    sizes = {"budget_tokens": 4_000, "reserved_tokens": 800} | limits
    make_thread(agent, name, user_id=user_id, **sizes)
    append(agent, name, "Good morning.", fact)
    if reply:
        append_answer(agent, name, reply)
    append(agent, name, *(f"{n} {FILLER}" for n in range(40)))


def get_brought_text(request: bytes) -> str:
    """Return the text that a request's turn brought along; empty for nothing."""
    said = json.loads(request)["messages"]
    calls = {
        call["id"]: call["function"]["name"]
        for message in said
        for call in message.get("tool_calls", ())
    }
    results = [each for each in said if each["role"] == "tool"]
    found = [r["content"] for r in results if calls[r["tool_call_id"]] == "page_search"]
    return "".join(found)


def count_recalls(agent: Agent, thread: str = "t-1") -> dict[str, int]:
    found = dict(paging(agent, thread).counts)
    return {name: n for name, n in found.items() if name.startswith("recall.")}


def test_evicted_fact_is_recalled_when_asked_for(
    agent: Agent,
) -> None:
    talk(agent)
    begun = begin(agent, ASKED)
    assert FACT in get_brought_text(begun.request)
    assert "slot-1 · user" in get_brought_text(begun.request)
    said = json.loads(begun.request)["messages"]
    assert said[-1] == {"role": "user", "content": ASKED}
    assert FACT in said[-2]["content"]
    assert begun.tokens <= 4_000
    assert count_recalls(agent) == {"recall.brought.search": 1}


@pytest.mark.parametrize("form", ["chat", "responses", "anthropic", "gemini"])
def test_recall_section_is_reassembled(agent: Agent, form: str) -> None:
    talk(agent, format=form)
    begun = begin(agent, ASKED)
    assert FACT.encode() in begun.request
    assert reassemble_request(agent, begun.turn) == begun.request
    (used,) = (each for each in _used(agent, begun.turn) if each.source)
    assert used.range is not None
    assert FACT.encode() in begun.request[slice(*used.range)]
    assert (used.page_id, used.shared, used.used) == ("slot-1", ("kayak",), False)


def _used(agent: Agent, turn: int) -> tuple[turns.UsedText, ...]:
    row = get_thread(agent, "t-1")
    shown = turns.get_context(row, turn, with_ranges=True)
    assert shown is not None
    return shown.used


def test_recall_runs_once_an_exchange(agent: Agent) -> None:
    """Keep the recalled pages for the whole exchange."""
    talk(agent)
    first = begin(agent, ASKED)
    second = begin(agent, continues=True)
    assert get_brought_text(second.request) == get_brought_text(first.request)
    assert count_recalls(agent) == {"recall.brought.search": 1}
    third = begin(agent, "Thank you.")
    assert FACT not in get_brought_text(third.request)


def test_recall_never_repeats_the_request(agent: Agent) -> None:
    talk(agent)
    for question in (ASKED, "What of the weather of the day?", "And the kayak?"):
        begun = begin(agent, question)
        text = begun.request.decode()
        for each in _used(agent, begun.turn):
            if each.source and each.text:
                assert text.count(json.dumps(each.text.content)[1:-1]) == 1
        append(agent, "t-1", f"Hm. {FILLER}")
    assert count_recalls(agent)["recall.brought.search"] > 1


def test_page_fault_on_a_recalled_page_is_free(agent: Agent) -> None:
    talk(agent)
    begin(agent, ASKED)
    receipt = act(agent, FaultPage(page_id="slot-1", level=2))
    assert not receipt.list_events(PageFaulted)
    assert receipt.get_event(PageReferenced).page_id == "slot-1"
    assert paging(agent).spent.faults == 0
    assert count_recalls(agent)["recall.used.search"] == 1
    # A later turn of the exchange shows the page as used too.
    later = begin(agent, continues=True)
    (used,) = (each for each in _used(agent, later.turn) if each.source)
    assert used.used


def test_recalled_page_unused_for_three_turns_counts_as_wasted(agent: Agent) -> None:
    talk(agent)
    asked = begin(agent, ASKED)
    begin(agent, "Thanks.")
    act(agent, ReferencePages(page_ids=("slot-1",), by="model"))
    append(agent, "t-1", *(f"{n} {FILLER}" for n in range(40)))
    again = begin(agent, "Which kayak?")
    assert FACT in get_brought_text(again.request)
    for thanks in ("Thanks.", "Splendid.", "Superb."):
        begin(agent, thanks)
    assert count_recalls(agent) == {
        "recall.brought.search": 2,
        "recall.used.search": 1,
        "recall.wasted.search": 1,
    }
    (used,) = (each for each in _used(agent, asked.turn) if each.source)
    assert used.used


def claim(page_id: str, text: str) -> Any:
    return new_page(page_id, text, type="claim")


@pytest.mark.parametrize(
    ("question", "found"),
    [("What next?", ["seats"]), ("As we said, go on.", ["seats", "meals"])],
)
def test_used_claims_are_recalled_unasked(
    agent: Agent, question: str, found: list[str]
) -> None:
    """Give claims a quarter of the room, or all if the question speaks of before."""
    sizes: dict[str, Any] = {"budget_tokens": 8_000, "reserved_tokens": 800}
    make_thread(agent, **sizes, auto_pin_claims=False, auto_pin_turns=0)
    for name, fact in (("seats", "Seats "), ("meals", "Meals "), ("pets", "Pets ")):
        make_pages(agent, claim(name, fact + "are paid for. " * 40))
    act(agent, ReferencePages(page_ids=("seats", "meals")))
    act(agent, ReferencePages(page_ids=("seats",)))
    append(agent, "t-1", *(f"{n} {FILLER}" for n in range(9)))
    for name in ("seats", "meals", "pets"):
        act(agent, EvictPage(page_id=name))
    begun = begin(agent, question)
    there = [each for each in _used(agent, begun.turn) if each.source == "claim"]
    assert [each.page_id for each in there] == found
    assert reassemble_request(agent, begun.turn) == begun.request


@pytest.mark.parametrize("recall", ["thread", "off"])
def test_manifest_offers_pages_matching_the_question_first(
    agent: Agent, recall: str
) -> None:
    """Leave out pages that the turn has brought along."""
    talk(agent, recall=recall, budget_tokens=6_000, reserved_tokens=1_600)
    append(agent, "t-1", "The other kayak. " + 900 * "It is red. ")
    append(agent, "t-1", *(f"{n} {FILLER}" for n in range(60)))
    begun = begin(agent, ASKED)
    record = contexts.get_recorded_turn(get_thread(agent, "t-1"), begun.turn).record
    assert record.manifest is not None
    offered = [row.page_id for row in record.manifest.rows]
    first = ["slot-42"] if recall == "thread" else ["slot-1", "slot-42"]
    assert sorted(offered[: len(first)]) == sorted(first)
    assert len(offered) == len({*offered})


@pytest.mark.parametrize(
    "limits", [{"recall": "off"}, {"recall_tokens": 0}, {"mode": "passive"}]
)
def test_recall_that_is_switched_off_brings_nothing(
    agent: Agent, limits: dict[str, Any]
) -> None:
    talk(agent, **limits)
    assert FACT not in begin(agent, ASKED).request.decode()


def test_recall_stays_within_its_tokens(agent: Agent) -> None:
    talk(agent, recall_tokens=600)
    begun = begin(agent, "kayak weather")
    found = contexts.get_recorded_turn(get_thread(agent, "t-1"), begun.turn).record
    sizes = {section.name: section.tokens for section in found.sections}
    assert 0 < sizes["recall"] <= 600
    everything = {*paging(agent).frames}
    assert everything <= {*begun.included, *(cut.page_id for cut in begun.cut)}


def test_recall_searches_other_threads_of_the_same_subject(
    agent: Agent,
) -> None:
    make_thread(agent, "before", user_id="ann")
    append(agent, "before", FACT)
    make_thread(agent, "bob", user_id="bob")
    append(agent, "bob", "The kayak of Bob.")
    make_thread(agent, "t-1", user_id="ann", recall="subject")
    begun = begin(agent, ASKED)
    assert "an earlier thread · user" in get_brought_text(begun.request)
    assert FACT in get_brought_text(begun.request)
    assert "Bob" not in get_brought_text(begun.request)
    assert reassemble_request(agent, begun.turn) == begun.request
    # Other threads of the anonymous subject may be anybody's.
    append(agent, "anyone", FACT)
    make_thread(agent, "nobody", recall="subject")
    assert get_brought_text(begin(agent, ASKED, thread="nobody").request) == ""


ANSWER = "Noted: it has a paddle. " + 25 * "It is long. "
LARGE = "Noted: it has a paddle. " + 900 * "It is long. "


def append_answer(agent: Agent, name: str, text: str) -> None:
    said = make_slot({"role": "assistant", "content": text}, type="chat.assistant")
    run(slots.append(agent=agent, thread=name, slots=[said]))


def list_sources(agent: Agent, turn: int) -> list[tuple[str, str, str]]:
    """List page, source and found text of what a turn brought along."""
    found = (each for each in _used(agent, turn) if each.source)
    return [(each.page_id, each.source, each.beside) for each in found]


@pytest.mark.parametrize(
    ("question", "sources"),
    [
        ("Of the kayak?", [("search", ""), ("exchange", "slot-1")]),
        ("Of the paddle?", [("exchange", "slot-2"), ("search", "")]),
        ("The kayak, the paddle?", [("search", ""), ("search", "")]),
    ],
)
def test_recall_brings_question_and_answer_of_a_message(
    agent: Agent, question: str, sources: list[tuple[str, str]]
) -> None:
    talk(agent, reply=ANSWER)
    begun = begin(agent, question)
    first, second = sources
    both = [("slot-1", *first), ("slot-2", *second)]
    assert list_sources(agent, begun.turn) == both
    text = get_brought_text(begun.request)
    assert text.index(FACT) < text.index(ANSWER)
    assert text.count(FACT) == text.count(ANSWER) == 1
    assert reassemble_request(agent, begun.turn) == begun.request
    assert verify(get_thread(agent)) is None


@pytest.mark.parametrize("gone", ["struck", "erased", "too large"])
def test_recall_brings_a_question_without_its_answer(agent: Agent, gone: str) -> None:
    """Leave out an answer that was struck or erased, or has no room."""
    talk(agent, reply=LARGE if gone == "too large" else ANSWER)
    if gone == "struck":
        act(agent, StrikeSlots(indexes=(2,)))
    if gone == "erased":
        erase(get_thread(agent), (4, 4))
    begun = begin(agent, "Of the kayak?")
    assert list_sources(agent, begun.turn) == [("slot-1", "search", "")]


def test_question_asked_often_does_not_push_its_answers_out(agent: Agent) -> None:
    talk(agent)
    for n in range(40):
        append(agent, "t-1", ASKED.upper() if n % 2 else ASKED)
        append_answer(agent, "t-1", "Behind it." if n == 7 else "Nobody knows.")
    append(agent, "t-1", *(f"{n} {FILLER}" for n in range(40)))
    begun = begin(agent, ASKED)
    text = get_brought_text(begun.request)
    assert FACT in text
    assert "Behind it." in text
    assert text.lower().count(ASKED.lower()) == 1
    assert reassemble_request(agent, begun.turn) == begun.request


def test_text_that_was_said_again_is_brought_as_it_was_said_last(agent: Agent) -> None:
    talk(agent)
    append(agent, "t-1", FACT.upper(), *(f"{n} {FILLER}" for n in range(40)))
    begun = begin(agent, ASKED)
    assert list_sources(agent, begun.turn) == [("slot-42", "search", "")]


def test_recall_brings_no_question_without_the_found_answer(agent: Agent) -> None:
    talk(agent, reply=LARGE)
    assert get_brought_text(begin(agent, "Of the paddle?").request) == ""


def test_recall_brings_exchanges_of_other_threads(agent: Agent) -> None:
    make_thread(agent, "before", user_id="ann")
    append(agent, "before", FACT)
    append_answer(agent, "before", ANSWER)
    make_thread(agent, "t-1", user_id="ann", recall="subject")
    begun = begin(agent, "Of the kayak?")
    text = get_brought_text(begun.request)
    assert text.count("an earlier thread · ") == 2
    assert reassemble_request(agent, begun.turn) == begun.request
    counts = {"recall.brought.elsewhere": 1, "recall.brought.elsewhere_exchange": 1}
    assert count_recalls(agent) == counts


def test_fork_recalls_no_answer_behind_its_beginning(agent: Agent) -> None:
    make_thread(agent)
    append(agent, "t-1", FACT)
    head = get_thread(agent).head_seq
    append_answer(agent, "t-1", ANSWER)
    fork(agent, "t-1", "child", seq=head, budget_tokens=4_000, reserved_tokens=800)
    append(agent, "child", *(f"{n} {FILLER}" for n in range(40)))
    text = get_brought_text(begin(agent, "Of the kayak?", thread="child").request)
    assert FACT in text
    assert ANSWER not in text


def test_fork_recalls_inherited_messages(agent: Agent) -> None:
    talk(agent)
    sizes: dict[str, Any] = {"budget_tokens": 4_000, "reserved_tokens": 800}
    fork(agent, "t-1", "child", **sizes)
    begun = begin(agent, ASKED, thread="child")
    assert "slot-1 · user" in get_brought_text(begun.request)
    assert reassemble_request(agent, begun.turn, "child") == begun.request


def test_deleted_page_is_not_recalled(agent: Agent) -> None:
    make_thread(agent, budget_tokens=4_000, reserved_tokens=800)
    make_pages(agent, new_page("note", FACT))
    append(agent, "t-1", *(f"{n} {FILLER}" for n in range(40)))
    first = begin(agent, ASKED)
    assert "note · " in get_brought_text(first.request)
    act(agent, DeletePage(page_id="note"))
    assert not paging(agent).brought
    assert not paging(agent).in_recall
    assert FACT not in begin(agent, continues=True).request.decode()
    assert FACT not in begin(agent, ASKED).request.decode()


def test_erased_message_is_not_recalled(agent: Agent) -> None:
    talk(agent)
    first = begin(agent, ASKED)
    thread = get_thread(agent, "t-1")
    erase(thread, (3, 3))
    assert FACT not in begin(agent, continues=True).request.decode()
    assert FACT not in begin(agent, ASKED).request.decode()
    shown = turns.get_context(get_thread(agent, "t-1"), first.turn)
    assert shown is not None
    assert (shown.request, shown.missing) == (None, ("slot-1",))
    (used,) = (each for each in shown.used if each.source)
    assert (used.page_id, used.gone, used.shared) == ("slot-1", True, ())


def test_erased_thread_is_not_recalled(agent: Agent) -> None:
    make_thread(agent, "before", user_id="ann")
    append(agent, "before", FACT)
    make_thread(agent, "t-1", user_id="ann", recall="subject")
    assert FACT in begin(agent, ASKED).request.decode()
    before = get_thread(agent, "before")
    erase(before, (1, before.head_seq))
    assert FACT not in begin(agent, ASKED).request.decode()


def call_tool(agent: Agent, name: str, number: int) -> None:
    function = {"name": name, "arguments": "{}"}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = {"role": "tool", "tool_call_id": call["id"], "content": "Done."}
    begin(agent, f"Again, {number}.")
    for each in (message, answer):
        slot = make_slot(each, type=f"chat.{each['role']}")
        run(slots.append(agent=agent, thread="t-1", slots=[slot]))


def test_prerequisites_of_a_tool_are_learnt(agent: Agent) -> None:
    """Recall a page that was read before two calls of a tool, behind the next call."""
    make_thread(agent, budget_tokens=8_000, reserved_tokens=1_000, auto_pin_turns=0)
    begin(agent, "Good morning.")
    make_pages(agent, new_page("fares", "How fares are refunded."))
    for number in range(3):
        act(agent, ReferencePages(page_ids=("fares",)))
        call_tool(agent, "refund", number)
    act(agent, EvictPage(page_id="fares"))
    begun = begin(agent, "What now?")
    (there,) = (each for each in _used(agent, begun.turn) if each.source)
    assert (there.page_id, there.source) == ("fares", "prerequisite")
    bodies = Event.objects.filter(type="slot.appended").values_list("body", flat=True)
    assert not any("refund" in body for body in bodies), "it may be anybody's words"
    thread = get_thread(agent, "t-1")
    counted = foresights.get_prefetch(thread, state_of(thread), name="t-1")
    pages = [{"page_id": "fares", "reads": 3}]
    assert counted["tool_uses"] == [{"tool": None, "pages": pages}]
    coming = {"page_id": "fares", "why": "prerequisite", "level": 0}
    assert counted["coming"] == [coming]


def test_prefetch_forgets_a_deleted_page(agent: Agent) -> None:
    test_prerequisites_of_a_tool_are_learnt(agent)
    act(agent, ReferencePages(page_ids=("fares",)))
    act(agent, DeletePage(page_id="fares"))
    state = paging(agent)
    assert [tool.pages for tool in state.tools] == [()]
    assert state.read_since == ()
    begun = begin(agent, "And now?")
    assert not [each for each in _used(agent, begun.turn) if each.source]


def test_cleared_prefetch_is_learnt_anew(agent: Agent) -> None:
    test_prerequisites_of_a_tool_are_learnt(agent)
    act(agent, ReferencePages(page_ids=("fares",)))
    cleared = act(agent, ClearPrefetch()).get_event(PrefetchCleared)
    assert (cleared.tools, cleared.pages) == (1, 1)
    assert (paging(agent).tools, paging(agent).read_since) == ((), ())
    begun = begin(agent, "And now?")
    assert not [each for each in _used(agent, begun.turn) if each.source]
    act(agent, ReferencePages(page_ids=("fares",)))
    call_tool(agent, "refund", 9)
    assert [tool.pages for tool in paging(agent).tools] == [(("fares", 1),)]
    assert verify(get_thread(agent)) is None


def test_turn_recalls_as_many_tokens_as_asked(agent: Agent) -> None:
    """Keep the promised tokens free, up to half of what pages could have."""
    talk(agent, recall_tokens=1_200)
    talk(agent, name="t-2", recall_tokens=3_000)
    begun = begin(agent, f"Which row of it was it? {FILLER}")
    assert begun.recall_asked == 1_200
    assert 1_000 < begun.recall_given <= 1_200
    assert begun.receipt.get_event(TurnBegan).promised == 1_200
    record = contexts.get_recorded_turn(get_thread(agent), begun.turn).record
    assert (record.recall_asked, record.recall_given) == (1_200, begun.recall_given)
    assert begin(agent, "And then?").receipt.get_event(TurnBegan).promised is None
    settings = paging(agent).settings
    assert settings.usable == 3_200 - 1_200
    more = begin(agent, ASKED, thread="t-2").receipt.get_event(TurnBegan)
    assert more.promised == 1_600


def test_recall_uses_reserved_room_that_no_manifest_takes(agent: Agent) -> None:
    talk(agent, budget_tokens=8_000, reserved_tokens=4_000, recall_tokens=3_500)
    append(agent, "t-1", *(f"{n} {FILLER}" for n in range(40)))
    begun = begin(agent, f"Which row of it was it? {FILLER}")
    assert begun.receipt.get_event(TurnBegan).promised == 2_000
    assert 3_000 < begun.recall_given <= 3_500
    assert not begun.cut
    assert begun.omitted == ()


def test_promised_recall_tokens_follow_the_setting(agent: Agent) -> None:
    talk(agent, recall_tokens=1_200)
    begin(agent, ASKED)
    amend(agent, config={"recall_tokens": 400})
    assert paging(agent).settings.promised_tokens == 400
    amend(agent, config={"recall": "off"})
    assert paging(agent).settings.promised_tokens == 0
    begun = begin(agent, ASKED)
    assert (begun.recall_asked, begun.recall_given) == (None, 0)


def test_turn_without_recall_tokens_promises_nothing(agent: Agent) -> None:
    talk(agent)
    begun = begin(agent, ASKED)
    assert begun.recall_asked is None
    assert begun.recall_given > 0
    assert begun.receipt.get_event(TurnBegan).promised is None
