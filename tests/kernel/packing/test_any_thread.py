"""Threads of messages of all shapes: each of their requests, in each format."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from memoryhub.errors import NoRoomError, Refusal
from memoryhub.kernel.commands import AmendThread
from memoryhub.kernel.context.contexts import ContextRecord, Ref
from memoryhub.kernel.messages.writing import FORMATS
from memoryhub.kernel.packing import requests
from memoryhub.kernel.packing.refusals import TooSmallError
from memoryhub.kernel.paging.page_commands import BeginTurn, EvictPage
from tests.kernel.messages.shapes import PNG
from tests.kernel.messages.test_reading import CONTENTS, mutated
from tests.kernel.messages.test_writing import call_ids
from tests.kernel.messages.vendors import require_types
from tests.oracles.loops import Loop
from tests.validators import require_request

ROLES = st.sampled_from([None, None, "user", "assistant", "tool", "system"])
PICKS = st.integers(0, 99)
CONFIGS = st.fixed_dictionaries(
    {
        "budget_tokens": st.sampled_from([2_000, 3_000, 8_000, 128_000]),
        "format": st.sampled_from([*FORMATS]),
    }
)


Refs = tuple[Ref, ...]


class Threads(RuleBasedStateMachine):
    """One thread whose messages repeat, get lost and are asked for again."""

    @initialize(config=CONFIGS)
    def begin(self, config: dict[str, Any]) -> None:
        self.loop = Loop(reserved_tokens=800, **config)
        self.loop.give("find", "run", "harbour/charts.search", words=5)
        self.sent = list[Any]()
        self.shown: tuple[Refs, Refs] = (), ()
        self.ids = {shape: list[str]() for shape in FORMATS}

    @rule(
        messages=st.lists(
            st.tuples(ROLES, CONTENTS | CONTENTS.flatmap(mutated)),
            min_size=1,
            max_size=9,
        ),
        words=st.sampled_from([1, 1, 30, 700]),
        data=st.sampled_from([0, 1_000]),
        name=st.sampled_from(["find", "find", "harbour/charts.search", "n" * 70, "李"]),
        call_id=st.sampled_from(["c", "c", "d", "", "né e", "y" * 80]),
    )
    def say(
        self, messages: list[Any], words: int, data: int, name: str, call_id: str
    ) -> None:
        for role, content in messages:
            text = json.dumps(content).replace("\\u25c6", PNG + "AAAA" * data)
            text = text.replace("\\u2022", "a tide " * words)
            text = text.replace('"find"', json.dumps(name))
            self.sent.append(json.loads(text.replace('"c"', json.dumps(call_id))))
            self.say_if_room(role, self.sent[-1])

    def say_if_room(self, role: str | None, content: Any) -> None:
        # Pins may leave no room.
        with suppress(NoRoomError):
            self.loop.say(role, content)

    @rule(pick=PICKS, role=ROLES)
    def say_again(self, pick: int, role: str | None) -> None:
        if self.sent:
            self.say_if_room(role, self.sent[-1 - pick % len(self.sent)])

    @rule(pick=PICKS, level=st.integers(0, 4))
    def lose_or_fetch(self, pick: int, level: int) -> None:
        pages = sorted(self.loop.rows.live)
        page_id = pages[pick % len(pages)] if pages else "none"
        with suppress(Refusal, KeyError):
            if level > 3:
                self.loop.do(EvictPage(page_id=page_id))
            else:
                self.loop.fault(page_id, level)

    @rule(config=CONFIGS)
    def change(self, config: dict[str, Any]) -> None:
        self.loop.do(AmendThread(config=config))

    @rule(
        share=st.sampled_from([1, 1, 0.6, 0.3]),
        mode=st.sampled_from(["strict", "relaxed", "passive"]),
    )
    def take_turn(self, share: float, mode: str) -> None:
        self.loop.do(BeginTurn())
        budget = self.loop.paging.settings.budget_tokens
        try:
            packed = self.loop.request(token_budget=int(budget * share), mode=mode)
        except TooSmallError:
            assert share < 1
            return
        assert packed.tokens <= budget * share
        history, exchange = (talked(packed.record, n) for n in ("history", "exchange"))
        # The exchange goes on, and nothing has left.
        before, begun = self.shown
        stays = history == before and exchange[: len(begun)] == begun
        for shape in FORMATS:
            ids = self.require_valid(requests.convert_record(packed.record, shape))
            earlier = self.ids[shape]
            assert not stays or ids[: len(earlier)] == earlier
            self.ids[shape] = ids
        self.shown = history, exchange

    def require_valid(self, record: ContextRecord) -> list[str]:
        """Require a valid request; return the ids of its calls, not the manifest's."""
        shape, *_ = requests.PACKERS[record.packer]
        request = self.render_record(record)
        require_request(shape, request)
        require_types(shape, request)
        return call_ids(self.render_record(replace(record, manifest=None)))

    def render_record(self, record: ContextRecord) -> Any:
        loop = self.loop
        return json.loads(requests.assemble(record, loop.texts, thread=loop.state.id))


def talked(record: ContextRecord, name: str) -> Refs:
    return next((each.refs for each in record.sections if each.name == name), ())


def test_packed_request_is_valid_by_vendors_types() -> None:
    some = settings(max_examples=20, stateful_step_count=20)
    run_state_machine_as_test(Threads, settings=some)
