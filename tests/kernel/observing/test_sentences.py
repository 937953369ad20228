"""Sentences of a message, weighed by how long they will matter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.observing import sentences
from memoryhub.kernel.observing.sentences import (
    DETAIL,
    PLAIN,
    POLITE,
    RULE,
    WISH,
    tell_message,
    weigh_line,
    weigh_sentence,
)


@pytest.mark.parametrize(
    ("text", "worth"),
    [
        ("Never deploy on a Friday.", RULE),
        ("Please don't call before nine.", RULE),
        ("You must ask Odile first.", RULE),
        ("Antworte immer auf Deutsch.", DETAIL),
        ("Immer auf Deutsch antworten.", RULE),
        ("必ず英語で答えてください。", RULE),
        ("I prefer the quiet side.", WISH),
        ("We decided against the hotel.", WISH),
        ("Order A-17 came on May 3.", DETAIL),
        ("I've always had great experiences.", PLAIN),
        ("There must be a mistake somewhere.", PLAIN),
        ("All answers must be in a list.", RULE),
        ("Never let the agent push to main.", RULE),
        ("Never let fear of the dark stop you.", PLAIN),
        ("Don't forget that we freeze on a Friday.", RULE),
        ("Don't forget how far you have come.", PLAIN),
        ("Whenever you commit, run the linter.", RULE),
        ("I'm always here whenever you need it.", PLAIN),
        ("My favourite colour is green.", WISH),
        ("It is a favourite of the whole team.", PLAIN),
        ("She is vegan.", WISH),
        ("I haven't decided on a boat yet.", PLAIN),
        ("It rained on the hills again.", PLAIN),
        ("Good morning,", POLITE),
        ("Thank you so much!", POLITE),
    ],
)
def test_weight_is_by_what_a_sentence_says(text: str, worth: int) -> None:
    assert weigh_sentence(text) == worth


def test_agent_line_sets_no_rule() -> None:
    assert weigh_line("user: Never call.") == weigh_line("Never call.") == RULE
    assert weigh_line("assistant: Never call.") == DETAIL


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Hi there!\n\nPlease book the ferry.", "Please book the ferry."),
        ("```\nTraceback\n```\nIt is from the export.", "It is from the export."),
        ("> You wrote this.\nWe take the cottage.", "We take the cottage."),
        ("<system-reminder>Empty.</system-reminder>\nGo on there.", "Go on there."),
        ("```\nx = 1\n```", "x = 1"),
        ("1. Never call.\n2. Write in Danish.", "Never call. Write in Danish."),
    ],
)
def test_message_is_told_without_what_is_not_its_own(text: str, told: str) -> None:
    assert tell_message(text, 50, 160, count=estimate_tokens).startswith(told)


def test_rules_are_told_where_there_is_no_room_for_all() -> None:
    text = f"{'It rained on the hills. ' * 40}Never deploy on a Friday. It is late."
    told = tell_message(text, 12, 160, count=estimate_tokens)
    assert "Never deploy on a Friday." in told
    assert estimate_tokens(told) < 20


@given(st.text(max_size=400), st.integers(1, 60))
def test_message_with_sentences_is_told(text: str, room: int) -> None:
    told = tell_message(text, room, 0, count=estimate_tokens)
    assert not sentences.list_sentences(text) or told
