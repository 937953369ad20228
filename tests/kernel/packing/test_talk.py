"""Conversations of any shape, kept: what no request may ever do."""

from __future__ import annotations

import json
import re
from itertools import chain, pairwise, takewhile
from typing import Any, NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from memoryhub.errors import NoRoomError, PinnedError
from memoryhub.kernel.commands import EventDraft
from memoryhub.kernel.packing import packers
from memoryhub.kernel.packing.packing import Packed
from memoryhub.kernel.paging.eviction import groups
from memoryhub.kernel.paging.page_commands import BeginTurn, MapPage
from memoryhub.kernel.state.page_events import PageFaulted
from memoryhub.kernel.state.paging import list_values
from tests.kernel.messages import test_server_tools as made
from tests.oracles.loops import Loop, asks, brings, slot_of

#: Steps between two requests.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("user"), st.integers(1, 400)),
        st.tuples(st.just("answer"), st.integers(1, 300)),
        st.tuples(st.just("tools"), st.lists(st.integers(1, 900), max_size=3)),
        st.tuples(st.just("asks"), st.integers(1, 1_500)),
        st.tuples(st.just("page"), st.integers(1, 500)),
        st.tuples(st.just("fetch"), st.integers(0, 40)),
        st.tuples(st.just("map"), st.integers(0, 40)),
        st.tuples(st.just("stray"), st.integers(1, 60)),
    ),
    min_size=1,
    max_size=40,
)
CONFIGS = st.sampled_from(
    [(2_000, 800), (3_000, 1_500), (6_000, 1_000), (16_000, 4_000)]
)
_MARK = re.compile(r"m-(\d+)-")
_BREAKS = (
    *("page.evicted", "pages.evicted", "page.lowered"),
    *("page.mapped", "page.updated", "page.moved"),
)


class Talk(Loop):
    """Talk whose messages each have a mark; `roles` names the speaker by mark."""

    def __init__(self, **config: Any) -> None:
        self.roles: dict[int, str] = {}
        self.kinds: list[str] = []
        given = {"max_faults_per_turn": 50, **config}
        super().__init__(**given)

    def _record(self, draft: EventDraft) -> Any:
        event, mapped = draft.event, self.state.paging.frames
        self.kinds.append(event.event_type)
        if isinstance(event, PageFaulted) and event.page_id in mapped:
            # It was lowered, and stands whole where it was fetched from now on.
            self.kinds.append("page.moved")
        return super()._record(draft)

    def build_text(self, role: str, tokens: int) -> str:
        mark = len(self.roles)
        self.roles[mark] = role
        return f"m-{mark}-begins " + "word " * tokens

    def step(self, what: str, how: Any) -> list[Any]:
        if what == "user":
            return self.say("user", self.build_text("user", how))
        if what == "answer":
            content = {
                "role": "assistant",
                "content": self.build_text("assistant", how),
            }
            return self.say("assistant", content)
        if what in ("tools", "asks"):
            # No two calls begin alike.
            asked = f"{len(self.roles)} " + "word " * (how if what == "asks" else 0)
            return (
                self._call_tools([1], asked)
                if what == "asks"
                else self._call_tools(how)
            )
        if what == "page":
            self.keep(f"p{len(self.roles)}", self.build_text("page", how))
            return []
        if what == "stray":
            return self.say("tool", brings("call_stray", self.build_text("tool", how)))
        names = sorted(self.rows.live)
        if not names:
            return []
        name = names[how % len(names)]
        if what == "map":
            return self._map_page(name)
        fetched = self.fault(name, call_id=f"call_{self.state.seq}")
        return [fetched]

    def _map_page(self, name: str) -> list[Any]:
        try:
            return self.do(MapPage(page_id=name, level=0))
        except (NoRoomError, PinnedError):
            return []

    def _call_tools(self, sizes: list[int], arguments: str = "") -> list[Any]:
        ids = [f"call_{len(self.roles)}_{n}" for n in range(len(sizes))]
        if not ids:
            return []
        function = {"name": "look_up", "arguments": arguments or "{}"}
        calls = [{"id": each, "type": "function", "function": function} for each in ids]
        content = {"role": "assistant", "content": None, "tool_calls": calls}
        events = self.say("assistant", content)
        for call_id, size in zip(ids, sizes, strict=True):
            events += self.say("tool", brings(call_id, self.build_text("tool", size)))
        return events


def parse_messages(packed: Packed) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(packed.request)["messages"]
    return found


def list_marks(message: dict[str, Any]) -> list[int]:
    content = message.get("content") or ""
    return [int(mark) for mark in _MARK.findall(json.dumps(content))]


class TurnTaken(NamedTuple):
    """A request, and the kinds of events since the one before."""

    packed: Packed
    kinds: set[str]
    exchange: int | None
    used: int
    #: Pages of calls that have results in the working set.
    groups: set[str]
    #: Pages that are mapped below FULL.
    lowered: set[str]


def regular(steps: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Drop results that answer no call: nothing marks them when they are weighed."""
    return [step for step in steps if step[0] != "stray"]


def take_turns(talk: Talk, steps: list[tuple[str, Any]]) -> list[TurnTaken]:
    """Return the request after each step that makes one, and the events before it."""
    talk.say("user", talk.build_text("user", 20))
    found = list[TurnTaken]()
    for what, how in steps:
        talk.kinds.clear()
        talk.step(what, how)
        talk.do(BeginTurn())
        paging = talk.state.paging
        found.append(
            TurnTaken(
                packed=talk.request(),
                kinds={*talk.kinds},
                exchange=paging.last_user and paging.last_user.slot,
                used=paging.used,
                groups=groups.list_heads(paging),
                lowered={
                    each.page_id for each in list_values(paging.frames) if each.level
                },
            )
        )
    return found


def talks(config: tuple[int, int]) -> Talk:
    return Talk(budget_tokens=config[0], reserved_tokens=config[1])


@settings(deadline=None, max_examples=60)
@given(steps=STEPS, config=CONFIGS)
def test_roles_never_change(
    steps: list[tuple[str, Any]], config: tuple[int, int]
) -> None:
    """A text keeps the role of its speaker, or a tool delivers it out of memory."""
    talk = talks(config)
    for turn in take_turns(talk, steps):
        for message in parse_messages(turn.packed):
            for mark in list_marks(message):
                assert message["role"] in (talk.roles[mark], "tool")


@settings(deadline=None, max_examples=60)
@given(steps=STEPS, config=CONFIGS)
def test_memory_never_gains_authority(
    steps: list[tuple[str, Any]], config: tuple[int, int]
) -> None:
    """No text that anybody said or wrote stands in the head."""
    for turn in take_turns(talks(config), steps):
        head = [
            each for each in parse_messages(turn.packed) if each["role"] == "system"
        ]
        assert len(head) == 1
        assert not list_marks(head[0])


def test_developer_speaks_the_head_where_servers_want_one() -> None:
    talk = Talk(instructions_role="developer")
    talk.do(BeginTurn(slots=(slot_of("user", "Hello."),)))
    packed = talk.request()
    assert parse_messages(packed)[0]["role"] == "developer"
    packer = packers.PACKERS[packed.record.packer]
    again = packer.assemble(packed.record, talk.texts, thread=talk.state.id)
    assert again == packed.request


@settings(deadline=None, max_examples=60)
@given(steps=STEPS, config=CONFIGS)
def test_call_groups_are_whole(
    steps: list[tuple[str, Any]], config: tuple[int, int]
) -> None:
    """Each call in a request has its result, shown or named."""
    for turn in take_turns(talks(config), steps):
        sent = parse_messages(turn.packed)
        answered = {each.get("tool_call_id") for each in sent}
        calls = [call for each in sent for call in each.get("tool_calls") or ()]
        assert {call["id"] for call in calls} == answered - {None}
        ours = [each["function"] for each in calls]
        ours = [each for each in ours if each["name"] == "page_fault"]
        brought = {json.loads(each["arguments"])["page_id"] for each in ours}
        assert turn.groups.isdisjoint(brought)


@settings(deadline=None, max_examples=60)
@given(steps=STEPS, config=CONFIGS)
@example(
    steps=[
        *(("user", tokens) for tokens in (1, 1, 1, 192, 38, 18, 21, 1, 104, 355)),
        ("fetch", 16),
        ("page", 275),
        ("fetch", 0),
        ("answer", 63),
    ],
    config=(2_000, 800),
)
@example(
    steps=[("user", 400), ("tools", [1, 460, 59]), ("fetch", 4), ("tools", [1, 1, 1])],
    config=(2_000, 800),
)
@example(
    steps=[("user", 399), ("tools", [1, 483, 36]), ("fetch", 4), ("tools", [1, 1])],
    config=(2_000, 800),
)
def test_used_tokens_equal_those_of_the_shown_pages(
    steps: list[tuple[str, Any]], config: tuple[int, int]
) -> None:
    """Every mapped page is in the request and takes no more tokens than charged.

    A message that fits only beside a page fetched at a lower level is named as cut.
    """
    for turn in take_turns(talks(config), regular(steps)):
        packed = turn.packed
        assert not packed.omitted, (packed.omitted, packed.tokens)
        refs = [ref for section in packed.record.sections for ref in section.refs]
        if any(ref.due for ref in refs):
            # Results that the model waits for take room beside mapped pages.
            continue
        assert {each.page_id for each in packed.cut} <= turn.lowered
        assert packed.tokens <= config[0]
        shown = sum(
            section.tokens
            for section in packed.record.sections
            if section.name in ("history", "exchange")
        )
        stubs = [ref for ref in refs if ref.cut == 0]
        # Unanswered calls say so, as the strictest server requires.
        unanswered = packed.request.count(b"[no result was recorded]")
        assert shown <= turn.used + 90 * len(stubs) + 60 * unanswered


def test_results_stand_though_their_calls_are_too_large() -> None:
    """Memory delivers both at the level that fits, and weighs them so."""
    talk = talks((3_000, 1_500))
    *_, turn = take_turns(talk, [("asks", 1_400)])
    results = [each for each in parse_messages(turn.packed) if each["role"] == "tool"]
    assert [mark for each in results for mark in list_marks(each)] == [1]
    frames = talk.state.paging.frames
    assert (frames["slot-1"].level, frames["slot-2"].level) == (1, 0)
    assert [each.page_id for each in turn.packed.cut] == ["slot-1"]
    assert turn.packed.omitted == ()


@settings(deadline=None, max_examples=60)
@given(steps=STEPS, config=CONFIGS)
def test_request_prefix_is_shared_within_an_exchange(
    steps: list[tuple[str, Any]], config: tuple[int, int]
) -> None:
    """A page that left or changed its level breaks the prefix.

    A result that was cut for lack of room is cut again, for messages after it.
    """
    for before, now in pairwise(take_turns(talks(config), regular(steps))):
        refs = [ref for each in before.packed.record.sections for ref in each.refs]
        if before.exchange == now.exchange and now.kinds.isdisjoint(_BREAKS):
            if any(ref.due for ref in refs):
                continue
            earlier, later = parse_messages(before.packed), parse_messages(now.packed)
            assert later[: len(earlier)] == earlier


def test_exchange_is_offered_pages_once() -> None:
    """Pages evicted meanwhile are offered next time: no earlier line changes."""
    steps = [*[("user", 400)] * 4, *[("tools", [300])] * 3, ("user", 1)]
    found = [
        each.packed.record.manifest for each in take_turns(talks((2_200, 900)), steps)
    ]
    *_, first, second, third, fourth, later = found
    assert first is not None
    assert first.rows
    assert first == second == third == fourth
    assert later is not None
    assert later != first


def test_page_stands_behind_the_message_that_called_for_it() -> None:
    """The page is fetched before its message; no request ends with the model's."""
    talk = talks((6_000, 1_000))
    talk.say("user", "Which platform was it?")
    talk.keep("trains", "The train leaves from platform 4.")
    talk.fault("trains", call_id="call_1")
    talk.say("assistant", {**asks("call_1", "trains"), "content": "I look it up."})
    talk.say("tool", brings("call_1", "The train leaves from platform 4."))
    talk.do(BeginTurn(continues=True))
    *_, question, spoken, call, result = parse_messages(talk.request())
    assert question["content"] == "Which platform was it?"
    assert spoken == {"role": "assistant", "content": "I look it up."}
    assert [each["function"]["name"] for each in call["tool_calls"]] == ["page_fault"]
    assert result["content"].endswith("platform 4.")


def test_thoughts_stand_with_the_page_that_they_led_to() -> None:
    """A model that says nothing beside its calls has still signed its thoughts."""
    talk = Talk(budget_tokens=6_000, reserved_tokens=1_000, format="anthropic")
    talk.say("user", "Which platform was it?")
    talk.keep("trains", "The train leaves from platform 4.")
    talk.fault("trains", call_id="call_1")
    thought = {"type": "thinking", "thinking": "It left.", "signature": "EqQB"}
    use: dict[str, Any] = {"type": "tool_use", "id": "call_1", "name": "page_fault"}
    use |= {"input": {"page_id": "trains", "target_level": 0}}
    talk.say("assistant", {"role": "assistant", "content": [thought, use]})
    talk.say("tool", brings("call_1", "The train leaves from platform 4."))
    talk.do(BeginTurn(continues=True))
    *_, call, result = parse_messages(talk.request())
    assert [call["content"][0], call["content"][1]["name"]] == [thought, "page_fault"]
    assert result["content"][0]["content"].endswith("platform 4.")
    talk.say("assistant", "Platform 4.")
    talk.say("user", "Thank you.")
    talk.do(BeginTurn())
    assert b"EqQB" not in talk.request().request


def test_searches_of_the_server_go_back_in_every_turn() -> None:
    """A call of ours in the same message is not answered yet, and is left out."""
    talk = Talk(budget_tokens=6_000, reserved_tokens=1_000, format="anthropic")
    talk.say("user", "When is it high?")
    talk.keep("trains", "The train leaves from platform 4.")
    use: dict[str, Any] = {"type": "tool_use", "id": "call_1", "name": "page_fault"}
    use |= {"input": {"page_id": "trains", "target_level": 0}}
    searches = [[made.call(n), made.answer(n), made.cite(n)] for n in range(3)]
    said = [use, made.call(3), made.answer(3), *chain(*searches)]
    talk.say("assistant", {"role": "assistant", "content": said})
    for turn in range(2):
        talk.do(BeginTurn(continues=not turn))
        (spoken,) = (
            each["content"]
            for each in parse_messages(talk.request())
            if "srvtoolu_1" in str(each)
        )
        assert spoken == said[1:]
        talk.say("assistant", "At six.")
        talk.say("user", "Thank you.")


@settings(deadline=None, max_examples=60)
@given(steps=STEPS, config=CONFIGS)
def test_request_prefix_up_to_the_manifest_is_shared_across_exchanges(
    steps: list[tuple[str, Any]], config: tuple[int, int]
) -> None:
    for before, now in pairwise(take_turns(talks(config), regular(steps))):
        if before.exchange != now.exchange and now.kinds.isdisjoint(_BREAKS):
            earlier = parse_messages(before.packed)
            shared = list(takewhile(_no_list, earlier))
            assert parse_messages(now.packed)[: len(shared)] == shared


def _no_list(message: dict[str, Any]) -> bool:
    calls = message.get("tool_calls") or ()
    return not any(call["function"]["name"] == "page_list" for call in calls)
