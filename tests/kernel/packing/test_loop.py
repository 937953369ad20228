"""Loop of a model: a page it fetches is in its next request, or was refused."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub.kernel.context import lines
from memoryhub.kernel.context.lines import render_shown_text
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.tokens import Count, estimate_tokens
from memoryhub.kernel.packing import ranges
from memoryhub.kernel.packing.ranges import WORD
from memoryhub.kernel.paging.page_commands import BeginTurn, DeletePage
from memoryhub.kernel.state.page_events import PageEvicted, PageFaulted, PageReferenced
from memoryhub.kernel.state.pages import Modality
from memoryhub.kernel.tools.tools import LEAST
from tests.oracles.loops import Loop, asks, brings, render_texts, slot_of
from tests.oracles.paging import list_of_kind

BUDGETS = st.sampled_from([2_000, 3_000, 8_000, 32_000, 128_000])
WORDS = st.sampled_from(["seat", "straße", "座席", '"quoted"\n', "<VM:RULES>", "1234 "])
#: Percent of the available room.
SHARES = st.lists(st.integers(1, 100), min_size=1, max_size=4)


def build_text(number: int, word: str, tokens: int) -> str:
    """Return a text of about `tokens` tokens whose first word no other page has."""
    made = f"needle-{number} "
    while (size := len(made)) < tokens * 2:
        made += (word + " ") * (1 + size // (2 * len(word)))
    return made[: tokens * 2].rstrip()


@settings(deadline=None, max_examples=40)
@given(
    config=st.fixed_dictionaries(
        {
            "budget_tokens": BUDGETS,
            "reserved_tokens": st.sampled_from([800, 1_000]),
        }
    ),
    shares=SHARES,
    words=st.lists(WORDS, min_size=4, max_size=4),
    before=st.integers(0, 12),
)
def test_charged_fault_is_in_next_request(
    config: dict[str, Any], shares: list[int], words: list[str], before: int
) -> None:
    """Pages are counted in decoded messages: each once, whole, at the level told."""
    loop = Loop(**config, max_faults_per_turn=9, max_fault_tokens_per_turn=200_000)
    usable = loop.state.paging.settings.usable
    for number in range(before):
        loop.say("user", f"Question {number}. " * 9)
        loop.say("assistant", f"Answer {number}. " * 30)
    for number, (share, word) in enumerate(zip(shares, words, strict=False)):
        loop.keep(f"p{number}", build_text(number, word, usable * share // 100))
    loop.do(BeginTurn(slots=(slot_of("user", "What was it that I asked for?"),)))
    charged = [
        number
        for number in range(len(shares))
        if isinstance(loop.fault(f"p{number}"), PageFaulted)
    ]
    # What the agent's own tools answer meanwhile takes no room of theirs.
    loop.say("tool", "A long answer of a tool. " * 40)
    loop.do(BeginTurn())
    packed = loop.request()
    # A hint may be all of a short page.
    said = render_texts(packed.request).splitlines()
    texts = "\n".join(each for each in said if '"available_pages"' not in each)
    assert packed.tokens <= config["budget_tokens"]
    for number in range(len(shares)):
        kept = build_text(number, words[number], usable * shares[number] // 100)
        times = texts.count(kept)
        assert times == (number in charged), (number, charged, packed.omitted)


def test_fetched_page_is_shown_although_all_others_leave() -> None:
    loop = Loop(budget_tokens=3_000, reserved_tokens=1_500)
    for number in range(8):
        loop.say("user", f"Question {number}. " * 20)
        loop.say("assistant", f"Answer {number}. " * 40)
    loop.keep("rules", build_text(1, "rule", 1_400))
    loop.do(BeginTurn(slots=(slot_of("user", "And the rules?"),)))
    assert isinstance(loop.fault("rules"), PageFaulted)
    loop.do(BeginTurn())
    assert "needle-1 " in render_texts(loop.request().request)


TEXTS = st.lists(WORDS | st.text(max_size=20), max_size=200).map("".join)


@given(
    content=TEXTS | st.lists(TEXTS, max_size=3),
    limit=st.integers(LEAST, 150),
    tokenizer=st.sampled_from(
        [estimate_tokens, lambda text: -(-len(text.encode()) // 3)]
    ),
)
def test_ranges_rebuild_the_page(content: Any, limit: int, tokenizer: Count) -> None:
    """The content is a text or JSON, and the tokenizer any."""
    kind: Modality = "text" if isinstance(content, str) else "structured"
    field = "text" if kind == "text" else "data"
    opened = OpenedPage(
        page_id="p", type="artifact", modality=kind, content={field: content}
    )
    whole, read, offset = render_shown_text(opened), "", 0
    while True:
        part = ranges.cut_range(
            opened, version=1, offset=offset, limit=limit, count=tokenizer
        )
        # It may begin with a word that lies across, and a character may, at its end.
        word = tokenizer(whole[part.start : part.start + WORD])
        assert part.tokens <= limit + word + 3
        read += whole[part.start : part.end]
        line = lines.render_line(opened, recalled=True, part=(part.start, part.end))
        assert lines.parse(line).content == whole[part.start : part.end]
        if part.next_offset is None:
            break
        assert part.end > part.start
        offset = part.next_offset
    assert read == whole


def test_page_larger_than_a_request_is_read_in_parts() -> None:
    """A part shown in one request leaves for the part requested after it."""
    loop = Loop(budget_tokens=3_000, reserved_tokens=1_500, max_faults_per_turn=9)
    long = build_text(7, "row", 6_000)
    loop.keep("rows", long)
    loop.do(BeginTurn(slots=(slot_of("user", "Which row was it?"),)))
    assert loop.fault("rows").refusal == "no_room"
    offset, read = 0, ""
    while len(read) < len(long):
        event = loop.part("rows", offset, 900)
        assert isinstance(event, PageFaulted)
        # A second one before the model has seen the first finds no room.
        if not offset:
            assert loop.part("rows", offset + 900, 900).refusal == "no_room"
        loop.do(BeginTurn())
        *_, last = loop.frame("rows").parts
        place = loop.frame("rows").entry.full.location
        part = slice(*ranges.find_characters(loop.texts[place], *last[:2]))
        assert long[part] in render_texts(loop.request().request)
        read += long[part]
        offset += 900
    assert read == long
    loop.restart()


def test_parts_stand_beside_each_other_while_there_is_room() -> None:
    loop = Loop(budget_tokens=8_000, reserved_tokens=1_500, max_faults_per_turn=9)
    loop.keep("rows", build_text(7, "row", 3_000))
    loop.do(BeginTurn(slots=(slot_of("user", "Which row was it?"),)))
    for offset in (2_000, 0, 1_000):
        assert isinstance(loop.part("rows", offset, 500), PageFaulted)
    # Fetching a page that is shown already is free.
    assert isinstance(loop.part("rows", 1_100, 200), PageReferenced)
    loop.do(BeginTurn())
    starts = [part.offset for part in loop.frame("rows").parts]
    assert starts == sorted(starts)
    assert loop.frame("rows").tokens == sum(p.cost for p in loop.frame("rows").parts)
    before = json.loads(loop.request().request)
    loop.restart()
    assert json.loads(loop.request().request) == before


def fetch_page(loop: Loop, *, append: bool) -> str:
    """Fetch a page and return the request's text once the next turn has begun."""
    loop.keep("rules", build_text(1, "rule", 300))
    loop.do(BeginTurn(slots=(slot_of("user", "And the rules?"),)))
    assert isinstance(loop.fault("rules", call_id="call_1"), PageFaulted)
    slots = [
        slot_of("assistant", asks("call_1", "rules")),
        slot_of(
            "tool",
            brings("call_1", "page rules · 9 tokens\n\n" + build_text(1, "rule", 300)),
        ),
    ]
    loop.do(BeginTurn(slots=tuple(slots) if append else ()))
    return loop.request().request.decode()


def test_fetched_page_is_counted_once() -> None:
    """An agent's framework may append the call and its result, or not."""
    both = [Loop(budget_tokens=3_000, reserved_tokens=1_500) for _ in range(2)]
    requests = [fetch_page(loop, append=n == 1) for n, loop in enumerate(both)]
    assert requests[0] == requests[1]
    assert render_texts(requests[0].encode()).count("needle-1 ") == 1
    assert both[0].paging.used == both[1].paging.used
    assert {*both[1].paging.frames} == {"slot-0", "rules"}
    call: Any
    result: Any
    *_, call, result, _ = (each.event for each in both[1].log)
    assert (call.page, call.carries) == (None, None)
    assert (result.page, result.carries) == (None, "rules")
    entry = both[1].frame("rules").entry
    assert result.source.seq == entry.full.location.seq
    # It goes on from a snapshot just so.
    both[1].restart()
    assert [name for _, (name, _) in both[1].paging.calls] == ["rules"]
    both[1].do(DeletePage(page_id="rules"))
    assert both[1].paging.calls == ()


def test_repeated_call_id_is_free() -> None:
    loop = Loop(budget_tokens=3_000, reserved_tokens=1_500)
    fetch_page(loop, append=True)
    spent = loop.paging.spent
    assert isinstance(loop.fault("rules", call_id="call_1"), PageReferenced)
    assert loop.paging.spent == spent
    # In the next exchange the same id is another call.
    loop.do(BeginTurn(slots=(slot_of("user", "And now?"),)))
    assert loop.paging.calls == ()


def test_answered_calls_leave_the_request() -> None:
    """A model sees its mistake until it is asked something else."""
    loop = Loop(budget_tokens=3_000, reserved_tokens=1_500)
    loop.do(BeginTurn(slots=(slot_of("user", "And the rules?"),)))
    refusal = brings("call_1", "There is no page of that id.")
    loop.do(
        BeginTurn(
            slots=(
                slot_of("assistant", asks("call_1", "rools")),
                slot_of("tool", refusal),
            )
        )
    )
    assert {*loop.paging.frames} == {"slot-0", "slot-1", "slot-2"}
    packed = loop.request()
    assert "There is no page of that id." in render_texts(packed.request)
    messages = json.loads(packed.request)["messages"][-2:]
    assert messages == [asks("call_1", "rools"), refusal]
    loop.restart()
    loop.do(BeginTurn(slots=(slot_of("user", "And now?"),)))
    assert {*loop.paging.frames} == {"slot-0", "slot-3"}
    left = list_of_kind([each.event for each in loop.log], PageEvicted)
    assert {(each.page_id, each.cause) for each in left} == {
        ("slot-1", "answered"),
        ("slot-2", "answered"),
    }
    assert loop.paging.asking == ()


@given(
    steps=st.lists(
        st.sampled_from(["ask", "go on", "fetch", "fetch again", "restart"]),
        max_size=60,
    )
)
def test_resident_rate_equals_model(steps: list[str]) -> None:
    """The rate counts exchanges that fetched nothing, of the last 20 and of all."""
    loop = Loop(budget_tokens=3_000, reserved_tokens=1_500, max_faults_per_turn=90)
    fetched = list[bool]()
    loop.keep("p-0", "Once. " * 20)
    for number, step in enumerate(steps, start=1):
        if step == "ask":
            loop.do(BeginTurn(slots=(slot_of("user", "And?"),)))
            fetched.append(False)
        elif step == "go on":
            loop.do(BeginTurn(continues=bool(fetched)))
            fetched = fetched or [False]
        elif step == "restart":
            loop.restart()
        else:
            name = f"p-{number}" if step == "fetch" else "p-0"
            if step == "fetch":
                loop.keep(name, f"Page {number}. " * 20)
            event = loop.fault(name)
            if fetched and isinstance(event, PageFaulted):
                fetched[-1] = True
    exchanges = loop.paging.exchanges
    assert exchanges.begun == len(fetched)
    if fetched:
        last = fetched[-20:]
        assert exchanges.rate == last.count(False) / len(last)
        assert exchanges.rate_in_all == fetched.count(False) / len(fetched)
    else:
        assert (exchanges.rate, exchanges.rate_in_all) == (None, None)
