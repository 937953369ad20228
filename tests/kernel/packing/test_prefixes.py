"""Prefix lens: its answer from refs equals a comparison of two requests' bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub.kernel.context.contexts import ContextRecord
from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.packing import prefixes
from memoryhub.kernel.packing.packing import Packed
from memoryhub.kernel.packing.prefixes import CommonPrefix, RecordedRequest
from memoryhub.kernel.state.pages import Location
from tests.kernel.packs import PARENT, THREAD, Thread, build_result, call, hostile

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
            thread.add_page(text, level=2 if short else 0)
        elif what == "call":
            thread.say(call("look", f"c{n}"), role="assistant")
            thread.say(build_result(text, f"c{n}"), role="tool")
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


def request_of(
    thread: Thread, record: ContextRecord, home: UUID = THREAD
) -> RecordedRequest:
    return RecordedRequest(record=record, texts=thread.texts, thread=home)


def brute(one: bytes, other: bytes) -> CommonPrefix:
    """Count the equal tokens byte by byte."""
    pairs = zip(one, other, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return CommonPrefix(same, estimate_tokens(one[:same].decode(errors="ignore")))


@settings(max_examples=150)
@given(PARTS, SIDES, SIDES, st.integers(1, 2))
def test_prefix_equals_brute_force(
    parts: list[tuple[str, str, bool]], one: Any, other: Any, turn: int
) -> None:
    thread = thread_of(parts)
    before, after = packed_of(thread, one, 1), packed_of(thread, other, turn)
    previous, request = (request_of(thread, each.record) for each in (before, after))
    assert prefixes.measure_common_prefix(previous, request) == brute(
        before.request, after.request
    )
    assert (prefixes.find_break(previous, request) is None) == (
        before.record.sections == after.record.sections
        and before.record.manifest == after.record.manifest
        and before.record.rules == after.record.rules
    )


def test_prefix_break_names_the_ref() -> None:
    thread = Thread()
    for n in range(4):
        thread.add_page(f"note {n}")
    thread.say("hello")
    before = thread.pack(mode="passive")
    gone = thread.pages.pop(1)
    lower = thread.pages[1]
    after = thread.pack(mode="passive")
    found = prefixes.find_break(
        request_of(thread, before.record), request_of(thread, after.record)
    )
    assert found is not None
    assert (found.section, found.place) == ("context", 1)
    assert found.before is not None
    assert found.before.get_location(THREAD) == gone.location
    assert found.after is not None
    assert found.after.get_location(THREAD) == lower.location


def test_forks_first_turn_is_compared_with_its_parents_last() -> None:
    thread = Thread()
    note = thread.add_page("a note")
    thread.say("hello")
    child = thread.pack(mode="passive")
    texts = {
        Location(PARENT, place.seq, place.level): text
        for place, text in thread.texts.items()
    }
    parent = RecordedRequest(record=child.record, texts=texts, thread=PARENT)
    sections = tuple(
        replace(each, refs=tuple(ref._replace(thread=PARENT) for ref in each.refs))
        for each in child.record.sections
    )
    inherited = RecordedRequest(
        record=replace(child.record, sections=sections), texts=texts, thread=THREAD
    )
    assert note.page_id in child.included
    assert prefixes.find_break(parent, inherited) is None
    assert prefixes.measure_common_prefix(parent, inherited).bytes == len(child.request)


@pytest.mark.parametrize(("block", "kept"), [(1, 1_300), (128, 1_280), (1024, 1_024)])
def test_prefix_counts_in_whole_blocks(block: int, kept: int) -> None:
    assert prefixes.round_to_blocks(1_300, block) == kept


def test_cached_tokens_cost_the_cached_price() -> None:
    cost = prefixes.compute_cost(3_000_000, 1_000_000, price=2.0, cached_price=0.5)
    assert cost == pytest.approx(4.5)
