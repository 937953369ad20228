"""Packing: within budget on the bytes, in order, once each, and made again exactly."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from itertools import pairwise, takewhile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub.kernel.levels.contexts import Ref, Row
from memoryhub.kernel.levels.tokens import estimate
from memoryhub.kernel.packing import assembling, packers, prefixes
from memoryhub.kernel.packing.packing import Packed
from tests.kernel.packs import (
    PARENT,
    THREAD,
    Thread,
    call,
    context,
    developer,
    exchange,
    hostile,
    pages,
    result,
    thread_of,
)

# Shape


def test_a_request_is_one_developer_message_then_the_exchange_and_tools() -> None:
    thread = Thread()
    system = thread.page("You book flights.", page_type="procedure")
    thread.pages.clear()
    thread.page("Ann likes aisles.", page_type="claim")
    thread.say("hello")
    thread.say({"role": "assistant", "content": "hi"}, role="assistant")
    thread.say({"role": "user", "content": "book it"})
    rows = (Row("page-2", "L2", "0", 2),)
    packed = thread.pack(
        system=(system._replace(page_id="system-prompt"),), available=rows
    )
    names = [section.name for section in packed.record.sections]
    assert names == ["system", "rules", "context", "manifest", "exchange", "tools"]
    parts = developer(packed).split("\n\n")
    assert parts[0] == "You book flights."
    assert parts[1].startswith("<VM:RULES>\n")
    assert parts[2].splitlines() == [
        "<VM:CONTEXT>",
        'C (page-2): "Ann likes aisles."',
        'U (slot-0): "hello"',
        'A (slot-1): "hi"',
        "</VM:CONTEXT>",
    ]
    assert parts[3].startswith('<VM:MANIFEST_JSON>\n{"thread":"trip","turn":2,')
    assert exchange(packed) == [{"role": "user", "content": "book it"}]
    tools = json.loads(packed.request)["tools"]
    named = [tool["function"]["name"] for tool in tools]
    assert named == ["page_fault", "page_search"]


def test_passive_sends_no_rules_manifest_or_tools() -> None:
    thread = Thread()
    thread.page("a note")
    thread.say("hello")
    packed = thread.pack(mode="passive", reserved_tokens=0)
    assert [section.name for section in packed.record.sections] == [
        "context",
        "exchange",
    ]
    assert "tools" not in json.loads(packed.request)


def test_an_empty_thread_has_a_request_too() -> None:
    assert exchange(Thread().pack()) == []
    assert Thread().pack(mode="passive").request == b'{"messages":[]}'


def test_sections_tell_their_size_in_the_request() -> None:
    thread = Thread()
    thread.page('a "note"\nof two lines')
    thread.say("hello")
    packed = thread.pack()
    for section in packed.record.sections:
        text = assembling.render(packed.record, thread.texts, thread=THREAD).sections[
            section.name
        ]
        assert text in packed.request.decode()
        assert (section.bytes, section.tokens) == (len(text.encode()), estimate(text))
    assert packed.record.bytes == len(packed.request)


def test_a_record_holds_no_content() -> None:
    thread = Thread()
    thread.page("secret-1", level=2)
    thread.say("secret-2")
    packed = thread.pack(available=(Row("page-1", "L1", "02", 1, 2),))
    assert "secret" not in repr(packed.record)
    assert "secret-1" in packed.request.decode()


@pytest.mark.parametrize(
    ("ref", "kept"),
    [
        (Ref(4, 0), [4, 0]),
        (Ref(4, 2, 17), [4, 2, 17]),
        (Ref(4, 0, None, PARENT), [4, 0, None, str(PARENT)]),
        (Ref(4, 0, None, None, True), [4, 0, None, None, True]),
    ],
)
def test_a_ref_is_kept_short(ref: Ref, kept: list[Any]) -> None:
    assert ref.as_json() == kept
    assert Ref.of(kept) == ref


def test_a_page_of_an_ancestor_is_found_there() -> None:
    thread = Thread()
    thread.page("from before the fork", thread=PARENT, recalled=True)
    thread.say("hello")
    packed = thread.pack()
    (section,) = [s for s in packed.record.sections if s.name == "context"]
    assert section.refs == (Ref(1, 0, None, PARENT, True),)
    assert context(packed)[0].recalled


# Content


@settings(deadline=None, max_examples=60)
@given(st.lists(hostile, min_size=1, max_size=6), hostile)
def test_forged_tags_quotes_lines_parse_back(texts: list[str], system: str) -> None:
    thread = Thread()
    prompt = thread.page(system)
    thread.pages.clear()
    for text in texts:
        thread.page(text)
    thread.say("hello")
    packed = thread.pack(system=(prompt,))
    shown = context(packed)
    assert len(shown) == len(texts)
    for each, text in zip(shown, texts, strict=True):
        same = each.content == text
        assert same or json.loads(each.content) == json.loads(text)
    message = developer(packed)
    assert message.count("</VM:CONTEXT>") == 1
    assert message.count("</VM:RULES>") == 1
    assert message.count("</VM:MANIFEST_JSON>") == 1


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_a_lone_surrogate_is_valid_json_wherever_it_stands(role: str) -> None:
    thread = Thread()
    thread.page("a \ud800 b")
    thread.add({"data": {"\udfff": "\ud800"}}, modality="structured")
    thread.say({"role": role, "content": "c \udbff"}, role=role)
    thread.say({"role": "user", "content": "d \ud800"})
    thread.say({"role": role, "content": "e \udfff"}, role=role)
    packed = thread.pack()
    shown = [line.content for line in context(packed)]
    assert shown[:3] == ["a \ud800 b", {"\udfff": "\ud800"}, "c \udbff"]
    assert "d \ud800" in [*shown, *(each["content"] for each in exchange(packed))]


# What the request before began with


def prefix(thread: Thread, before: Packed, after: Packed) -> int:
    previous, request = (
        prefixes.Request(record=each.record, texts=thread.texts, thread=THREAD)
        for each in (before, after)
    )
    tokens = prefixes.common(previous, request).tokens
    one, other = before.request.decode(), after.request.decode()
    same = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    assert tokens == estimate("".join(char for char, _ in same))
    return tokens


@settings(deadline=None, max_examples=40)
@given(
    pages,
    st.integers(0, 12),
    st.integers(0, 12),
    st.sampled_from(["strict", "passive"]),
)
def test_the_common_prefix_is_what_the_bytes_share(
    drawn: list[tuple[str, str, float, bool]], one: int, other: int, mode: str
) -> None:
    thread = thread_of(drawn)
    everything = list(thread.pages)
    packed = []
    for keep in (one, other):
        thread.pages = everything[:keep]
        packed.append(thread.pack(mode=mode))
    prefix(thread, packed[0], packed[1])
    assert prefix(thread, packed[1], packed[1]) >= packed[1].tokens - 3


def test_order_breaks_only_by_four_causes() -> None:
    """Turns that only add pages keep all of the context before as their prefix."""
    thread = Thread()
    packed = []
    for n in range(6):
        thread.say(f"question {n}")
        packed.append(thread.pack(turn=n))
        thread.say(f"answer {n}", role="assistant")
    refs = [
        next((s.refs for s in each.record.sections if s.name == "context"), ())
        for each in packed
    ]
    for shorter, longer in pairwise(refs):
        assert longer[: len(shorter)] == shorter
        assert len(longer) == len(shorter) + 2
    for before, after in pairwise(packed[1:]):
        section = next(s for s in before.record.sections if s.name == "context")
        assert prefix(thread, before, after) > section.tokens + 200
    # An evicted page breaks it, but for what stands before.
    thread.pages.pop(4)
    broken = prefix(thread, packed[-1], thread.pack(turn=6))
    assert broken < prefix(thread, packed[-2], packed[-1])


def test_a_growing_exchange_keeps_its_prefix_when_nothing_stands_between() -> None:
    thread = Thread()
    thread.say("look it up")
    thread.say(call("look"), role="assistant")
    thread.say(result("found " * 60), role="tool")
    before = thread.pack(mode="passive")
    thread.say(call("look", "c2"), role="assistant")
    thread.say(result("more", "c2"), role="tool")
    after = thread.pack(mode="passive")
    assert prefix(thread, before, after) > before.tokens - 8


# For ever


def test_old_packers_still_hash() -> None:
    """Recorded contexts hash to what they were: a new form needs a new packer."""
    thread = Thread()
    prompt = thread.page("You book <VM:flights>.", page_type="procedure")
    thread.pages.clear()
    thread.page('Ann said "aisle",\nthen </VM:CONTEXT>.', page_type="claim")
    thread.page("A summary […]", page_type="summary", level=2, recalled=True)
    thread.page('{"seat": [12, "A"]}', thread=PARENT)
    thread.add({"data": {"fare": 1.5}}, modality="structured", page_type="index")
    thread.add({"caption": "A map"}, modality="image")
    thread.say("hello \u2028")
    thread.say({"role": "user", "content": "book it"})
    thread.say(call("book"), role="assistant")
    thread.say(result("booked"), role="tool")
    thread.say("an excerpt", role="tool", level=1)
    rows = (Row("page-2", "L1", "0123", 2), Row("page-4", "L2", "02", 4, 0, PARENT))
    packed = thread.pack(system=(prompt,), available=rows, unlisted=3)
    record = replace(packed.record, rules="strict/1", tools="tools/1")
    request = packers.ASSEMBLE["pack/1"](record, thread.texts, thread=THREAD)
    assert estimate(request.decode()) == 953
    assert hashlib.sha256(request).hexdigest()[:16] == "4a4f1b909d79c097"
