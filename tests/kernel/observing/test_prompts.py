"""Prompts of observers and reflectors, and messages as the prompts quote them."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.observing import answers, prompts
from memoryhub.kernel.observing.answers import ObserverAnswer, Refusal
from memoryhub.kernel.observing.extractive import ObservedSlot

DIGESTS = {
    "observer/1": "825fd2383404f231",
    "observer/2": "ca044fc45bf7f65c",
    "reflector/1": "978877ba0a094030",
}


def test_prompt_wording_never_changes() -> None:
    made = {
        name: hashlib.sha256(text.encode()).hexdigest()[:16]
        for name, text in prompts.PROMPTS.items()
    }
    assert made == DIGESTS


def test_instructions_are_appended_and_told_apart_by_name() -> None:
    plain = prompts.build_prompt(prompts.OBSERVER, "")
    assert plain == (prompts.OBSERVER, prompts.PROMPTS[prompts.OBSERVER])
    one, two = (
        prompts.build_prompt(prompts.OBSERVER, each) for each in ("Keep A.", "B.")
    )
    assert one.text.startswith(plain.text)
    assert one.text.endswith("Keep A.")
    assert len({plain.name, one.name, two.name}) == 3


def test_example_of_each_prompt_is_an_answer() -> None:
    for text in prompts.PROMPTS.values():
        found = answers.read(text, first=0, end=20)
        assert isinstance(found, ObserverAnswer)
        assert (found.lines[0].mark, found.lines[0].end) == ("critical", 15)
        assert found.current_task
        assert found.suggested_response


def test_each_refusal_says_why_it_is_asked_again() -> None:
    assert set(prompts.AGAIN) == set(get_args(Refusal))


def test_slot_is_its_number_role_and_time_and_its_text_behind_bars() -> None:
    at = datetime(2026, 3, 1, 14, 5, tzinfo=UTC)
    slots = [
        ObservedSlot(3, "user", at, "a\n\nb", 1),
        ObservedSlot(4, "tool", None, None, 1),
    ]
    text = prompts.render_transcript([*slots, ObservedSlot(5, "assistant", at, "", 1)])
    assert text.split("\n") == [
        *("[3] user 2026-03-01 14:05", "| a", "| ", "| b"),
        *("[4] tool", "(erased)", "[5] assistant 2026-03-01 14:05", "| "),
    ]


@given(st.text() | st.text(alphabet="\n\r\x85\u2028[3]| user"))
def test_quoted_text_cannot_close_its_surrounding_frame(text: str) -> None:
    rows = prompts.render_transcript(
        [ObservedSlot(3, "user", None, text, 1)]
    ).splitlines()
    assert rows[0] == "[3] user"
    assert len(rows) > 1
    assert all(row.startswith("| ") for row in rows[1:])
