"""Packing: the context only grows at its end, but for four causes; on any history."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memoryhub.errors import Refusal
from memoryhub.kernel.commands import AppendSlots, Draft, NewSlot
from memoryhub.kernel.levels import making
from memoryhub.kernel.levels.contexts import Ref
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.tokens import estimate, text_of
from memoryhub.kernel.packing import packing, selection
from memoryhub.kernel.packing.selection import Options
from memoryhub.kernel.paging.page_commands import (
    BeginTurn,
    CreatePages,
    DeletePage,
    EvictPage,
    FaultPage,
    MapPage,
    NewPage,
    PinPage,
    ReferencePages,
    UnpinPage,
    UpdatePage,
    WriteLevels,
)
from memoryhub.kernel.state.pages import Location
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.threads import measuring
from tests.kernel.packs import call, result
from tests.oracles.loops import opened_texts
from tests.oracles.paging import Bench, prose

#: 4,000 tokens are usable; a page of 1,600 may be mapped whole.
CONFIG: dict[str, Any] = {
    "budget_tokens": 6_000,
    "reserved_tokens": 2_000,
    "max_faults_per_turn": 50,
    "max_fault_tokens_per_turn": 50_000,
}


NIGHTLY = pytest.mark.nightly


class Context(NamedTuple):
    """What stands in VM:CONTEXT: pages in their order, and how each is shown."""

    pages: list[str]
    refs: dict[str, Ref]


class Talk(Bench):
    """A thread whose requests are packed, and its texts."""

    def __init__(self, **config: Any) -> None:
        self.texts: dict[Location, Opened] = {}
        self.made = 0
        #: Since the last request: pages that lost their place, and those that changed.
        self.gone: set[str] = set()
        self.changed: set[str] = set()
        super().__init__(**{**CONFIG, **config})

    def _record(self, draft: Draft) -> Any:
        event: Any = draft.event
        before = self.paging.frames
        place = Location(self.state.id, self.state.seq + 1, 0)
        self.texts |= opened_texts(event, draft.payload, place)
        match event.event_type:
            case "page.evicted" | "page.deleted":
                self.gone.add(event.page_id)
            case "page.lowered":
                self.changed.add(event.page_id)
            case "page.updated" if event.tokens is not None:
                self.changed.add(event.page_id)
            case "page.mapped" | "page.faulted" if event.page_id in before:
                self.changed.add(event.page_id)
        return super()._record(draft)

    def pick(self, number: int) -> str:
        ids = sorted(self.rows.live)
        return ids[number % len(ids)] if ids else "nothing"

    def say(self, *messages: tuple[str, Any]) -> None:
        self.do(AppendSlots(slots=tuple(slot(*each) for each in messages)))

    def make(self, size: int) -> None:
        self.made += 1
        self.do(CreatePages(pages=(page(f"p{self.made}", size),)))

    def rewrite(self, page_id: str, size: int) -> None:
        new = page(page_id, size)
        self.do(
            UpdatePage(
                page_id=page_id,
                payload=new.payload,
                tokens=new.tokens,
                cost=new.cost,
                bytes=new.bytes,
            )
        )

    def compress(self, page_id: str) -> None:
        if entry := self.rows.live.get(page_id):
            opened = self.texts[entry.full.location]
            made = making.made_of(opened, version=entry.version)
            if made.levels:
                self.do(WriteLevels(made=made))

    def packed(self) -> Context:
        """Begin a turn and look at its request."""
        self.do(BeginTurn())
        options = Options(name="talk", turn=self.state.turn_count)
        wanted = selection.wanted(self.state, options, home=())
        record = packing.pack(wanted, self.texts).record
        refs = [s.refs for s in record.sections if s.name == "context"]
        by_page = {
            self.texts[ref.location(self.state.id)].page_id: ref
            for ref in (refs[0] if refs else ())
        }
        return Context([*by_page], by_page)


def slot(role: str, content: Any) -> NewSlot:
    new = NewSlot(
        from_name="a",
        to_name="b",
        type=f"chat.{role}",
        content=strict_json.as_sent(content),
        tokens=estimate(text_of(content)),
    )
    return measuring.of_slot(new, content)


def page(page_id: str, size: int) -> NewPage:
    content = {"text": prose(size, word="pagetext")}
    opened = Opened(page_id=page_id, type="artifact", modality="text", content=content)
    weighed = measuring.of_page(opened, sent=None)
    return NewPage(
        page_id=page_id,
        type="artifact",
        modality="text",
        payload=strict_json.as_sent({"content": content}),
        tokens=weighed.tokens,
        cost=weighed.cost,
        bytes=size,
    )


def look(talk: Talk, number: int, size: int) -> None:
    """A call of our own tool and what it gave back, which later ones leave out."""
    found = result(prose(size), call_id=f"c{number}", name="page_fault")
    message = call("page_fault", call_id=f"c{number}")
    talk.say(("assistant", message), ("tool", found))


#: What is done to the page that is picked.
COMMANDS: dict[str, Callable[[str, int], Any]] = {
    "map": lambda page_id, level: MapPage(page_id=page_id, level=level),
    "fault": lambda page_id, level: FaultPage(page_id=page_id, level=level),
    "evict": lambda page_id, _: EvictPage(page_id=page_id),
    "pin": lambda page_id, _: PinPage(page_id=page_id),
    "unpin": lambda page_id, _: UnpinPage(page_id=page_id),
    "use": lambda page_id, _: ReferencePages(page_ids=(page_id,)),
    "delete": lambda page_id, _: DeletePage(page_id=page_id),
}


def act(talk: Talk, what: str, pick: int, size: int, level: int) -> None:
    page_id = talk.pick(pick)
    if what in COMMANDS:
        talk.do(COMMANDS[what](page_id, level))
    elif what == "look":
        look(talk, pick, size)
    elif what == "make":
        talk.make(size)
    elif what == "rewrite":
        talk.rewrite(page_id, size)
    elif what == "compress":
        talk.compress(page_id)
    else:
        # A user's message that is too large goes whole, and others give way to it.
        talk.say((what, prose(min(size, 400) if what == "user" else size)))


ACTS = [
    *("user", "user", "assistant", "assistant", "tool", "tool", "look", "make"),
    *("rewrite", "compress", "compress", "map", "fault", "fault", "evict", "pin"),
    *("unpin", "use", "delete", "turn", "turn", "turn", "turn"),
]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(ACTS),
        st.integers(0, 30),
        st.sampled_from([20, 100, 300, 800, 1_400]),
        st.integers(0, 3),
    ),
    min_size=4,
    max_size=60,
)
Step = tuple[str, int, int, int]


def contexts(talk: Talk, steps: list[Step]) -> Iterator[tuple[Context, Context]]:
    """Each request's context beside the one before."""
    before = talk.packed()
    talk.gone, talk.changed = set(), set()
    for what, pick, size, level in [*steps, ("turn", 0, 0, 0)]:
        if what != "turn":
            try:
                act(talk, what, pick, size, level)
            except Refusal:
                continue
        else:
            after = talk.packed()
            yield before, after
            before, talk.gone, talk.changed = after, set(), set()


def holds(talk: Talk, steps: list[Step]) -> None:
    """What stands there keeps its place, and what is new stands behind it."""
    for before, after in contexts(talk, steps):
        stayed = [each for each in before.pages if each not in talk.gone]
        assert after.pages[: len(stayed)] == stayed
        for each in {*stayed} - talk.changed:
            assert after.refs[each] == before.refs[each]


@settings(max_examples=150)
@given(STEPS, st.booleans(), st.sampled_from(["importance_lru", "lru"]))
@example(
    [
        *[("user", 0, 100, 0), ("make", 0, 100, 0), ("turn", 0, 0, 0)],
        *[("user", 0, 100, 0), ("turn", 0, 0, 0)],
    ],
    True,
    "lru",
)
def test_order_breaks_only_by_four_causes(
    steps: list[Step], lower_first: bool, policy: str
) -> None:
    holds(Talk(lower_first=lower_first, policy=policy), steps)


@pytest.mark.parametrize(
    "seed", [*range(20), *(pytest.param(n, marks=NIGHTLY) for n in range(100, 400))]
)
def test_it_breaks_by_no_other_in_long_histories(seed: int) -> None:
    """As no search for a short one would come by: full, and with much coming back."""
    dice = random.Random(seed)
    acts = [*ACTS, "system"]
    if seed % 3 == 0:
        acts = [each for each in acts if each != "user"]
    sizes = [20, 100, 300, 800, 1_400]
    steps = [
        (dice.choice(acts), dice.randrange(31), dice.choice(sizes), dice.randrange(4))
        for _ in range(120)
    ]
    talk = Talk(
        lower_first=dice.random() < 0.8,
        map_slots=dice.random() < 0.9,
        auto_pin_turns=dice.choice([0, 0, 1, 3]),
        pin_share=dice.choice([0.1, 0.3, 0.6]),
    )
    holds(talk, steps)


def test_it_does_break_by_each_of_them() -> None:
    """Else the property above might be about nothing."""
    talk = Talk(auto_pin_turns=0)
    talk.say(("user", prose(300)), ("assistant", prose(1_400)))
    for size in (800, 100, 100):
        talk.make(size)
    talk.say(("user", "And now?"))
    first = talk.packed()
    assert first.pages == ["p1", "p2", "p3", "slot-0", "slot-1"]
    talk.compress("p1")
    for command in (MapPage(page_id="p1", level=2), EvictPage(page_id="p2")):
        talk.do(command)
    talk.rewrite("p3", 300)
    second = talk.packed()
    assert second.pages == ["p1", "p3", "slot-0", "slot-1"]
    assert second.refs["p1"] != first.refs["p1"]
    assert second.refs["p3"] != first.refs["p3"]
    talk.do(MapPage(page_id="p1", level=0))
    talk.do(FaultPage(page_id="p2", level=0))
    third = talk.packed()
    assert third.pages == ["p1", "p3", "slot-0", "slot-1", "p2"]
    assert third.refs["p1"] == first.refs["p1"]


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_what_is_said_stands_behind_what_came_before_the_next_was(role: str) -> None:
    talk = Talk()
    talk.say((role, "One."))
    talk.make(100)
    assert talk.packed().pages == ["p1"]
    talk.say(("assistant", "Two."))
    talk.make(100)
    talk.packed()
    talk.say((role, "Three."))
    pages = talk.packed().pages
    if role == "user":
        assert pages == ["p1", "p2", "slot-0", "slot-1"]
    else:
        # Without a user each message ends what the one before it was.
        assert pages == ["p1", "slot-0", "p2", "slot-1"]


def test_an_older_message_does_not_become_the_exchange() -> None:
    """When the newest leaves, what stood in the context stays there."""
    talk = Talk(auto_pin_turns=0)
    talk.say(("assistant", "One."), ("assistant", "Two."))
    assert talk.packed().pages == ["slot-0"]
    talk.do(EvictPage(page_id="slot-1"))
    assert talk.packed().pages == ["slot-0"]
    talk.do(MapPage(page_id="slot-1"))
    assert talk.packed().pages == ["slot-0"]
    talk.say(("assistant", "Three."))
    assert talk.packed().pages == ["slot-0", "slot-1"]
