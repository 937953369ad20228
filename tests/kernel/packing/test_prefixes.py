"""The prefix lens: what it tells by refs is what the bytes of two requests say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub.kernel.levels.contexts import Record
from memoryhub.kernel.levels.tokens import estimate
from memoryhub.kernel.packing import prefixes
from memoryhub.kernel.packing.packing import Packed
from memoryhub.kernel.packing.prefixes import Common, Request
from memoryhub.kernel.state.pages import Location
from tests.kernel.packs import PARENT, THREAD, Thread, call, hostile, result

#: A page or a message: what it is, its text, and whether it is a summary of it only.
PARTS = st.lists(
    st.tuples(
        st.sampled_from(["page", "user", "assistant", "tool", "system", "call"]),
        hostile | st.sampled_from(["é", "è", "e\u0301", "same", "same again"]),
        st.booleans(),
    ),
    max_size=8,
)
KEEP = st.lists(st.booleans(), min_size=8, max_size=8)
SIDES = st.tuples(KEEP, st.sampled_from(["strict", "relaxed", "passive"]))


def thread_of(parts: Sequence[tuple[str, str, bool]]) -> Thread:
    thread = Thread()
    for n, (what, text, short) in enumerate(parts):
        if what == "page":
            thread.page(text, level=2 if short else 0)
        elif what == "call":
            thread.say(call("look", f"c{n}"), role="assistant")
            thread.say(result(text, f"c{n}"), role="tool")
        else:
            thread.say(text, role=what)
    return thread


def packed_of(thread: Thread, side: tuple[list[bool], str], turn: int) -> Packed:
    keep, mode = side
    everything = thread.pages
    thread.pages = [
        page for n, page in enumerate(everything) if keep[n % len(keep)] or n == 0
    ]
    packed = thread.pack(mode=mode, turn=turn)
    thread.pages = everything
    return packed


def request_of(thread: Thread, record: Record, home: UUID = THREAD) -> Request:
    return Request(record=record, texts=thread.texts, thread=home)


def brute(one: bytes, other: bytes) -> Common:
    """Byte by byte."""
    pairs = zip(one, other, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return Common(same, estimate(one[:same].decode(errors="ignore")))


@settings(max_examples=150)
@given(PARTS, SIDES, SIDES, st.integers(1, 2))
def test_prefix_equals_brute_force(
    parts: list[tuple[str, str, bool]], one: Any, other: Any, turn: int
) -> None:
    thread = thread_of(parts)
    before, after = packed_of(thread, one, 1), packed_of(thread, other, turn)
    previous, request = (request_of(thread, each.record) for each in (before, after))
    assert prefixes.common(previous, request) == brute(before.request, after.request)
    assert (prefixes.parting(previous, request) is None) == (
        before.record.sections == after.record.sections
        and before.record.manifest == after.record.manifest
        and before.record.rules == after.record.rules
    )


def test_the_ref_that_broke_it_is_named() -> None:
    thread = Thread()
    for n in range(4):
        thread.page(f"note {n}")
    thread.say("hello")
    before = thread.pack(mode="passive")
    gone = thread.pages.pop(1)
    lower = thread.pages[1]
    after = thread.pack(mode="passive")
    found = prefixes.parting(
        request_of(thread, before.record), request_of(thread, after.record)
    )
    assert found is not None
    assert (found.section, found.place) == ("context", 1)
    assert found.before is not None
    assert found.before.location(THREAD) == gone.location
    assert found.after is not None
    assert found.after.location(THREAD) == lower.location


def test_a_forks_first_turn_is_compared_with_its_parents_last() -> None:
    thread = Thread()
    note = thread.page("a note")
    thread.say("hello")
    child = thread.pack(mode="passive")
    texts = {
        Location(PARENT, place.seq, place.level): text
        for place, text in thread.texts.items()
    }
    parent = Request(record=child.record, texts=texts, thread=PARENT)
    sections = tuple(
        replace(each, refs=tuple(ref._replace(thread=PARENT) for ref in each.refs))
        for each in child.record.sections
    )
    inherited = Request(
        record=replace(child.record, sections=sections), texts=texts, thread=THREAD
    )
    assert note.page_id in child.included
    assert prefixes.parting(parent, inherited) is None
    assert prefixes.common(parent, inherited).bytes == len(child.request)


@pytest.mark.parametrize(("block", "kept"), [(1, 1_300), (128, 1_280), (1024, 1_024)])
def test_a_prefix_counts_in_whole_blocks(block: int, kept: int) -> None:
    assert prefixes.in_blocks(1_300, block) == kept


def test_what_is_cached_costs_its_own_price() -> None:
    cost = prefixes.cost(3_000_000, 1_000_000, price=2.0, cached_price=0.5)
    assert cost == pytest.approx(4.5)
