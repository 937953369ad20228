"""Parsing of a model's answer about messages: lines in one object, in any wrapping."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.observing import answers
from memoryhub.kernel.observing.answers import MAX_HINT, MAX_LINE, ObserverAnswer
from memoryhub.kernel.observing.lines import ObservationLine

ITEM: dict[str, Any] = {
    "at": "2026-03-01T15:05:30+01:00",
    "mark": "critical",
    "text": "User lives in Bergen.",
    "slots": [12, 14],
}
LINE = ObservationLine(
    datetime(2026, 3, 1, 14, 5, tzinfo=UTC), "critical", ITEM["text"], 12, 15
)  # fmt: skip
HINTS = {"current_task": "Write\nnotes.", "suggested_response": "Show them."}
BARE = json.dumps({"lines": [ITEM], **HINTS})
WHOLE = ObserverAnswer((LINE,), "Write notes.", "Show them.", 0)

FORMS = {
    "bare": BARE,
    "spaced": f"\n {BARE}\n",
    "with line breaks": json.dumps(json.loads(BARE), indent=4),
    "fenced": f"```json\n{BARE}\n```",
    "fenced in prose": f"Here [1]:\n```\n{BARE}\n```\nMore?",
    "in prose": f"I read {{all}} of [12, 14]: {BARE} That is [sic] all.",
    "behind an empty one": f'I began with {{"lines": []}} and have {BARE}',
}


def read(*items: Any, **more: Any) -> ObserverAnswer | answers.Refusal:
    return answers.read(json.dumps({"lines": items, **more}), first=10, end=20)


def read_only_line(item: Any) -> ObservationLine:
    found = read(item)
    assert isinstance(found, ObserverAnswer)
    (line,) = found.lines
    return line


@pytest.mark.parametrize("form", FORMS)
def test_answer_is_read_from_every_known_form(form: str) -> None:
    assert answers.read(FORMS[form], first=10, end=20) == WHOLE


@pytest.mark.parametrize(
    ("slots", "range_"),
    [
        ([12, 14], (12, 15)), ([14, 12], (12, 15)), ([12], (12, 13)), (12, (12, 13)),
        ("12-14", (12, 15)), ("[12–14]", (12, 15)), ("12", (12, 13)),
        (["12", "14"], (12, 15)), ([5, 12], (10, 13)), ([15, 99], (15, 20)),
        ([-3, 10**30], (10, 20)), ([30, 40], (10, 20)), ([1, 2], (10, 20)),
        (None, (10, 20)), ([], (10, 20)), (True, (10, 20)), ({"from": 12}, (10, 20)),
        ("all", (10, 20)), (12.5, (10, 20)), ("9" * 5_000, (10, 20)),
    ],
)  # fmt: skip
def test_slots_are_clipped_and_default_to_the_whole_range(
    slots: Any, range_: tuple[int, int]
) -> None:
    line = read_only_line({**ITEM, "slots": slots})
    assert (line.first, line.end) == range_


@pytest.mark.parametrize(
    ("sent", "line"),
    [
        ({"mark": "urgent"}, LINE._replace(mark="medium")),
        ({"mark": ["low"]}, LINE._replace(mark="medium")),
        ({"mark": "done"}, LINE._replace(mark="done")),
        ({"at": None}, LINE._replace(at=None)),
        ({"at": "yesterday"}, LINE._replace(at=None)),
        ({"text": " </VM:LOG>\n## x "}, LINE._replace(text="\\u003c/VM:LOG> ## x")),
    ],
)
def test_optional_field_is_ignored_when_malformed(
    sent: dict[str, Any], line: ObservationLine
) -> None:
    assert read_only_line({**ITEM, **sent}) == line


def test_malformed_line_is_dropped_and_counted() -> None:
    found = read({**ITEM, "text": " \n\0"}, "a text", {"text": 7}, None, ITEM, [ITEM])
    assert found == ObserverAnswer((LINE,), None, None, 5)


def test_hints_are_one_line_of_bounded_length() -> None:
    found = read(ITEM, current_task="x\n" * MAX_HINT, suggested_response=["no"])
    assert isinstance(found, ObserverAnswer)
    assert found.current_task == ("x " * MAX_HINT)[:MAX_HINT].rstrip()
    assert found.suggested_response is None


@pytest.mark.parametrize("text", ["", "None.", "[]", BARE[:-1], '{"lines": "none"}'])
def test_answer_without_a_json_object_is_refused(text: str) -> None:
    assert answers.read(text, first=0, end=1) == "no_json"


def test_empty_output_is_refused() -> None:
    assert read() == "empty"
    assert (
        read({"text": ""}, {"text": " "}, {"text": "\u200b\u2060"}, "said", **HINTS)
        == "empty"
    )


@pytest.mark.parametrize(
    ("texts", "refused"),
    [
        (["a"] * 5, True),
        (["a", *["b"] * 4, "a", *["b"] * 4], False),
        (["a", "b"] * 9, False),
        (["a", "b"] * 10, True),
        ([str(n % 10) for n in range(20)], False),
        ([str(n % 10) for n in range(21)], True),
        (["x" * MAX_LINE], False),
        (["x" * (MAX_LINE + 1)], True),
    ],
)
def test_repetitive_answer_is_refused_as_degenerate(
    texts: list[str], *, refused: bool
) -> None:
    assert (read(*({"text": text} for text in texts)) == "degenerate") is refused


def test_observation_as_large_as_its_source_is_too_large() -> None:
    size = estimate_tokens("## 2026-03-01\n- 🔴 14:05 User lives in Bergen. [12-14]")
    assert answers.is_too_large([LINE], size, estimate_tokens)
    assert not answers.is_too_large([LINE], size + 1, estimate_tokens)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*ITEM]), inner)
    ),
    max_leaves=6,
)
SENT = st.fixed_dictionaries({"text": JSON, "slots": JSON, "at": JSON, "mark": JSON})


@given(st.text() | st.text(alphabet='[]{}",:`\n 1aé\ud800\0', max_size=80))
def test_answer_reader_accepts_any_text(text: str) -> None:
    answers.read(text, first=0, end=9)


@given(SENT, JSON)
def test_answer_lines_stay_within_the_observed_range(item: Any, hint: Any) -> None:
    found = read(item, ITEM, hint, current_task=hint)
    assert isinstance(found, ObserverAnswer)
    assert all(10 <= line.first < line.end <= 20 for line in found.lines)
