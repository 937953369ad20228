"""Results of tools are cut one by one, and what is cut fills the room."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from memoryhub.kernel.context.lines import render_shown_text
from memoryhub.kernel.context.tokens import count_fitting, estimate_tokens
from memoryhub.kernel.levels import making
from memoryhub.kernel.packing import ranges
from memoryhub.kernel.packing.packing import Packed
from memoryhub.kernel.paging.page_commands import BeginTurn, WriteLevels
from memoryhub.kernel.state.paging_config import FORMATS
from tests.oracles.loops import Loop

CODE = "Booking code QX7Z."
FAILED = "No seat is left."
RESPONSE = {"functionResponse"}


def build_numbers(tokens: int, seed: int = 1) -> str:
    """Build a text in which no stretch is like another."""
    found = " ".join(str(seed * 10**7 + n * 7) for n in range(tokens // 4))
    return found[: count_fitting(found, tokens)]


def append_calls(shape: str, texts: list[str]) -> Sequence[tuple[str | None, Any]]:
    """Append parallel calls and their results, as one message or one each."""
    ids = [f"call_{n}" for n in range(len(texts))]
    if shape == "anthropic":
        uses = [
            {"type": "tool_use", "id": each, "name": "read", "input": {}}
            for each in ids
        ]
        blocks = [
            {"type": "tool_result", "tool_use_id": each, "content": text}
            | ({"is_error": True} if text == FAILED else {})
            for each, text in zip(ids, texts, strict=True)
        ]
        return [
            (None, {"role": "assistant", "content": uses}),
            (None, {"role": "user", "content": blocks}),
        ]
    if shape == "responses":
        called = {"type": "function_call", "name": "read", "arguments": "{}"}
        outputs = [
            {"type": "function_call_output", "call_id": each, "output": text}
            for each, text in zip(ids, texts, strict=True)
        ]
        return [(None, called | {"call_id": each}) for each in ids] + [
            (None, each) for each in outputs
        ]
    function = {"name": "read", "arguments": "{}"}
    calls = [{"id": each, "type": "function", "function": function} for each in ids]
    results = [
        ("tool", {"role": "tool", "tool_call_id": each, "content": text})
        for each, text in zip(ids, texts, strict=True)
    ]
    return [("assistant", {"role": "assistant", "tool_calls": calls}), *results]


def asked(shape: str, texts: list[str], **config: int) -> tuple[Loop, Packed]:
    talk = Loop(format=shape, **config)
    talk.say("user", "Read them.")
    talk.do(BeginTurn())
    talk.request()
    for role, content in append_calls(shape, texts):
        talk.say(role, content)
        shorten(talk)
    talk.do(BeginTurn())
    return talk, talk.request()


def shorten(talk: Loop) -> None:
    """Write levels of the newest page, which is mapped as faithfully as fits."""
    entry = [*talk.rows.live.values()][-1]
    made = making.make_levels(talk.texts[entry.full.location], version=1)
    talk.do(WriteLevels(made=made))


def parse_answers(shape: str, packed: Packed) -> dict[str, str]:
    request = json.loads(packed.request)
    if shape == "chat":
        found = [each for each in request["messages"] if each["role"] == "tool"]
        return {each["tool_call_id"]: each["content"] for each in found}
    if shape == "responses":
        found = [each for each in request["input"] if "output" in each]
        return {each["call_id"]: each["output"] for each in found}
    if shape == "gemini":
        parts = [part for each in request["contents"] for part in each["parts"]]
        found = [each["functionResponse"] for each in parts if each.keys() == RESPONSE]
        return {each["id"]: each["response"]["output"] for each in found}
    blocks = [
        block
        for each in request["messages"]
        if isinstance(each["content"], list)
        for block in each["content"]
        if block["type"] == "tool_result"
    ]
    return {
        each["tool_use_id"]: each["content"]
        if isinstance(each["content"], str)
        else "".join(part["text"] for part in each["content"])
        for each in blocks
    }


@pytest.mark.parametrize("shape", FORMATS)
@pytest.mark.parametrize("budget", [4_000, 24_000])
@pytest.mark.parametrize(
    "sizes", [[50_000], [30_000, 30_000], [9_000, 300], [3_000] * 9]
)
def test_each_result_is_cut_by_itself_and_fills_the_room(
    shape: str, budget: int, sizes: list[int]
) -> None:
    long = [build_numbers(size, seed=n + 1) for n, size in enumerate(sizes)]
    texts = [*long, CODE, FAILED]
    _, packed = asked(shape, texts, budget_tokens=budget, reserved_tokens=800)
    got = parse_answers(shape, packed)
    assert [got["call_" + str(len(sizes) + n)] for n in (0, 1)] == [CODE, FAILED]
    shown = [got[f"call_{n}"] for n in range(len(sizes))]
    cut = [text for text, whole in zip(shown, long, strict=True) if text != whole]
    if cut:
        assert packed.tokens >= 0.95 * budget
        lengths = [estimate_tokens(text) for text in cut]
        # The longest lose first: all that are cut are left alike.
        assert max(lengths) - min(lengths) <= 16
        assert all(estimate_tokens(text) <= max(lengths) for text in shown)
    for text, whole in zip(shown, long, strict=True):
        if text != whole:
            head, line, tail = text.split("\n")
            assert whole.startswith(head)
            assert whole.endswith(tail)
            assert line.startswith("[slot-")


@pytest.mark.parametrize("shape", FORMATS)
def test_results_fill_the_room_whatever_is_left_over_between_them(shape: str) -> None:
    texts = [build_numbers(600, n + 1) for n in range(11)]
    for budget in range(4_000, 4_011):
        _, packed = asked(shape, texts, budget_tokens=budget, reserved_tokens=800)
        assert budget * 0.95 < packed.tokens <= budget
        got = parse_answers(shape, packed)
        assert all(len(got[f"call_{n}"]) > 480 for n in range(11))


@pytest.mark.parametrize("shape", FORMATS)
def test_offset_reads_on_without_a_gap(shape: str) -> None:
    long = build_numbers(30_000)
    talk, packed = asked(shape, [CODE, long], budget_tokens=6_000, reserved_tokens=800)
    head, line, tail = parse_answers(shape, packed)["call_1"].split("\n")
    page_id, offset = line[1:].split(":")[0], int(line.split("offset ")[1].split()[0])
    opened = talk.texts[talk.rows.live[page_id].full.location]
    words = render_shown_text(opened)
    start, _ = ranges.find_characters(opened, offset, None)
    # It reads on where the beginning ends, or some words before that.
    end = words.index(head) + len(head)
    assert end - ranges.WORD <= start <= end
    assert long.endswith(tail)


@pytest.mark.parametrize("shape", FORMATS)
def test_cut_result_stays_the_same_in_the_next_turn(shape: str) -> None:
    """The next turn shows the same cut, so the beginning of its request stays."""
    talk, before = asked(
        shape, [build_numbers(900), CODE], budget_tokens=2_000, reserved_tokens=800
    )
    first = parse_answers(shape, before)
    talk.say("assistant", "I go on.")
    talk.do(BeginTurn())
    assert parse_answers(shape, talk.request()) == first
