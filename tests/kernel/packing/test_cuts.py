"""Cuts: none is silent, and none is made while the budget has room."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memoryhub.kernel.context.contexts import ContextRecord, Ref
from memoryhub.kernel.context.lines import render_shown_text
from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.levels import making
from memoryhub.kernel.packing import packers, requests, shortening
from memoryhub.kernel.packing.refusals import TooSmallError
from memoryhub.kernel.paging.page_commands import BeginTurn, WriteLevels
from memoryhub.kernel.state.pages import build_slot_page_id
from memoryhub.kernel.state.paging_config import FORMATS
from tests.kernel.messages.shapes import PNG, heard
from tests.kernel.packing.test_talk import CONFIGS, STEPS, Talk
from tests.oracles.loops import Loop, render_texts, slot_of

#: The most that a result takes which is named only.
STUB = 90


@settings(deadline=None, max_examples=40)
@given(
    steps=STEPS,
    config=CONFIGS,
    share=st.floats(0.1, 1.0),
    mode=st.sampled_from(["strict", "passive"]),
)
@example(
    steps=[
        ("user", 1),
        ("tools", [1, 138, 183]),
        ("user", 1),
        ("user", 1),
        ("user", 111),
        ("user", 400),
    ],
    config=(3000, 1500),
    share=0.390625,
    mode="passive",
)
@example(
    steps=[*[("user", 1)] * 2, ("tools", [421]), *[("user", 400)] * 2, ("stray", 60)],
    config=(16_000, 4_000),
    share=0.1,
    mode="passive",
)
def test_free_budget_is_used_first(
    steps: list[tuple[str, Any]],
    config: tuple[int, int],
    share: float,
    mode: str,
) -> None:
    """A text cut or left out would not have fitted whole into the tokens left."""
    talk = talked(steps, config)
    limit = int(config[0] * share)
    try:
        packed = talk.request(token_budget=limit, mode=mode)
    except TooSmallError:
        return
    left = limit - packed.tokens
    if "context" not in {section.name for section in packed.record.sections}:
        # The first page of it would come with the frame around it.
        left -= estimate_tokens(requests.render_fence("VM:CONTEXT", ""))
    for page_id in packed.omitted:
        assert whole_cost(talk, page_id) > left, page_id
    for record in uncut(packed.record):
        packer = packers.PACKERS[record.packer]
        whole = packer.assemble(record, talk.texts, thread=talk.state.id)
        assert estimate_tokens(whole.decode()) > limit


@settings(deadline=None, max_examples=40)
@given(steps=STEPS, config=CONFIGS, share=st.floats(0.1, 1.0))
def test_cut_text_is_recorded_with_its_tokens(
    steps: list[tuple[str, Any]], config: tuple[int, int], share: float
) -> None:
    """The record has the tokens of the text, and those the messages really show."""
    talk = talked(steps, config)
    try:
        packed = talk.request(token_budget=int(config[0] * share))
    except TooSmallError:
        return
    cut = [
        (ref, lowered)
        for section in packed.record.sections
        for ref in section.refs
        if (
            lowered := section.name == "exchange"
            and ref.message_at
            and (not ref.recalled or said_since(talk, ref))
        )
        or ref.cut
    ]
    cuts = {each.page_id: each for each in packed.cut}
    assert len(cuts) == len(cut)
    messages = render_texts(packed.request)
    for ref, lowered in cut:
        opened = talk.texts[ref.get_location(talk.state.id)]
        text = render_shown_text(opened, level=ref.level)
        kept = shortening.read_left(opened, ref)
        assert all(part.rstrip() in messages for part in kept.split("\n"))
        whole = (
            render_shown_text(talk.texts[ref.get_message_location(talk.state.id)])
            if lowered
            else text
        )
        if not lowered:
            assert text not in messages
        each = cuts.pop(opened.page_id)
        assert each.tokens == estimate_tokens(whole)
        assert each.shown_tokens == estimate_tokens(kept) < each.tokens


def said_since(talk: Talk, ref: Ref) -> bool:
    """Tell whether a page is a message from after the user's newest."""
    user, message = (
        talk.state.paging.last_user,
        talk.texts[ref.get_message_location(talk.state.id)],
    )
    return user is not None and (message.slot or 0) >= user.slot


def talked(steps: list[tuple[str, Any]], config: tuple[int, int]) -> Talk:
    talk = Talk(budget_tokens=config[0], reserved_tokens=config[1])
    talk.say("user", talk.build_text("user", 20))
    for what, how in steps:
        talk.step(what, how)
    talk.do(BeginTurn())
    return talk


def whole_cost(talk: Talk, page_id: str) -> int:
    """Return the cost of a mapped page with messages it cannot be shown without."""
    frames = talk.state.paging.frames
    frame = frames[page_id]
    if frame.recalled or frame.entry.slot is None:
        return frame.tokens
    first = frame.entry.slot
    while first and talk.rows.live[build_slot_page_id(first)].role == "tool":
        first -= 1
    total, slot = 0, first
    while slot == first or role(talk, slot) == "tool":
        member = frames.get(build_slot_page_id(slot))
        total += STUB if member is None or member.recalled else member.tokens
        slot += 1
    return total


def role(talk: Talk, slot: int) -> str | None:
    entry = talk.rows.live.get(build_slot_page_id(slot))
    return entry.role if entry else None


def uncut(record: ContextRecord) -> Iterator[ContextRecord]:
    """Yield the record with one of its cut texts whole, one at a time."""
    for n, section in enumerate(record.sections):
        for ref in section.refs:
            if ref.cut:
                refs = tuple(
                    to_whole(each) if each is ref else each for each in section.refs
                )
                sections = [*record.sections]
                sections[n] = replace(section, refs=refs)
                yield replace(record, sections=tuple(sections))


def to_whole(ref: Ref) -> Ref:
    return ref._replace(cut=None, kept=())


def test_newest_message_that_is_lowered_is_told() -> None:
    talk = Talk(budget_tokens=2_000, reserved_tokens=800)
    talk.do(BeginTurn(slots=(slot_of("user", "A very long message. " * 900),)))
    packed = talk.request()
    (cut,) = packed.cut
    assert cut.page_id == "slot-0"
    assert cut.tokens == estimate_tokens("A very long message. " * 900)
    assert cut.shown_tokens < packed.tokens


WORDS = [f"w{n}." for n in range(150)]
LONG = PNG + "A" * 40_000
PICTURE = {
    "type": "image_url",
    "image_url": {"url": f"data:image/png;base64,{LONG}"},
}
TEXT = " ".join(WORDS)
SAID = [{"type": "text", "text": TEXT}, PICTURE]
CALL = {"id": "c", "type": "function", "function": {"name": "see", "arguments": "{}"}}
GIVEN = {"role": "tool", "tool_call_id": "c", "content": SAID}


@pytest.mark.parametrize("shape", FORMATS)
@pytest.mark.parametrize(
    "said",
    [
        [heard(*SAID)],
        [heard(*SAID), heard("Now?")],
        [{"role": "assistant", "tool_calls": [CALL]}, GIVEN],
        [heard(PICTURE)],
    ],
)
def test_media_leave_before_words(shape: str, said: list[Any]) -> None:
    """With less and less room a picture becomes its line before any word is cut."""
    talk = Loop(budget_tokens=3_000, reserved_tokens=800, format=shape)
    events = [
        *talk.say("user", "Go."),
        *(e for each in said for e in talk.say(None, each)),
    ]
    for entry in [*talk.rows.live.values()]:
        made = making.make_levels(talk.texts[entry.full.location], version=1)
        events += talk.do(WriteLevels(made=made))
    events += talk.do(BeginTurn())
    assert not {"page.evicted", "page.lowered"} & {each.event_type for each in events}
    total = len(WORDS) if TEXT in json.dumps(said) else 0
    found = list[tuple[bool, int]]()
    for budget in range(790, 250, -20):
        text = talk.request(token_budget=budget, mode="passive").request.decode()
        found.append((LONG in text, sum(map(text.count, WORDS))))
    assert found[0] == (True, total)
    assert all(words == total for picture, words in found if picture)
    left = [words for picture, words in found if not picture]
    assert left
    assert left[:4] == [total] * len(left[:4])
