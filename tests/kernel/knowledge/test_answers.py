"""Parsing of a model's answer about an exchange: claims in any wrapping."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.knowledge import answers
from memoryhub.kernel.knowledge.answers import MAX_CLAIMS, ClaimExtraction
from memoryhub.kernel.knowledge.facts import (
    MAX_ENTITY,
    MAX_PREDICATE,
    MAX_VALUE,
    NewFact,
)

ITEM: dict[str, Any] = {"entity": "user", "predicate": "lives in", "value": "Bergen"}
CLAIM = NewFact("user", "lives in", "Bergen", "model")
DAY = datetime(2026, 1, 2, tzinfo=UTC)
BARE = json.dumps([ITEM])

FORMS = {
    "bare": BARE,
    "spaced": f"\n  {BARE}\n\n",
    "fenced": f"```json\n{BARE}\n```",
    "fenced, unnamed": f"```\n{BARE}\n```",
    "fenced in prose": f"Here you are [1]:\n```json\n{BARE}\n```\nAnything else?",
    "in prose": f"I found {{one}} fact [1, 2]: {BARE} That is all [sic].",
    "one object deep": json.dumps({"facts": [ITEM]}),
    "one object deep, in prose": f"Sure! {json.dumps({'facts': [ITEM], 'n': 1})} :)",
    "with line breaks": json.dumps([ITEM], indent=4),
}


@pytest.mark.parametrize("form", FORMS)
def test_answer_is_read_from_every_known_form(form: str) -> None:
    assert answers.parse_claims(FORMS[form]) == ClaimExtraction(
        claims=(CLAIM,), dropped=0
    )


@pytest.mark.parametrize("text", ["", "None.", "{", "[[[[", '{"a": 1}', "[1, 2", "NaN"])
def test_answer_without_a_json_array_is_none(text: str) -> None:
    assert answers.parse_claims(text) is None


def test_empty_list_of_facts_is_a_valid_answer() -> None:
    assert answers.parse_claims("[]") == ClaimExtraction(claims=(), dropped=0)
    assert answers.parse_claims('There is nothing: {"facts": []}') == ClaimExtraction(
        (), 0
    )


DROPPED: dict[str, Any] = {
    "no object": 7,
    "a list": [ITEM],
    "no entity": {**ITEM, "entity": None},
    "blank entity": {**ITEM, "entity": " \t"},
    "long entity": {**ITEM, "entity": "x" * (MAX_ENTITY + 1)},
    "control in entity": {**ITEM, "entity": "us\u0007er"},
    "long predicate": {**ITEM, "predicate": "x" * (MAX_PREDICATE + 1)},
    "a number for predicate": {**ITEM, "predicate": 7},
    "blank value": {**ITEM, "value": ""},
    "value that nobody sees": {**ITEM, "value": "\u200b \u00ad"},
    "null value": {**ITEM, "value": None},
    "a list for value": {**ITEM, "value": ["Bergen"]},
    "an object for value": {**ITEM, "value": {"city": "Bergen"}},
    "long value": {**ITEM, "value": "x" * (MAX_VALUE + 1)},
    "half a character": {**ITEM, "value": "\ud800"},
    "NUL": {**ITEM, "value": "a\0b"},
    "over before it begins": {
        **ITEM,
        "valid_from": "2026-02-01",
        "valid_until": "2026-01-01",
    },
}


@pytest.mark.parametrize("why", DROPPED)
def test_malformed_claim_is_dropped_and_counted(why: str) -> None:
    text = json.dumps([DROPPED[why], ITEM])
    assert answers.parse_claims(text) == ClaimExtraction(claims=(CLAIM,), dropped=1)


def test_claims_beyond_twenty_are_dropped_and_counted() -> None:
    items = [{**ITEM, "value": str(n)} for n in range(MAX_CLAIMS + 5)]
    found = answers.parse_claims(json.dumps(items))
    assert found is not None
    assert [claim.value for claim in found.claims] == [str(n) for n in range(20)]
    assert found.dropped == 5


@pytest.mark.parametrize(
    ("sent", "claim"),
    [
        ({"value": 42}, CLAIM._replace(value="42")),
        ({"value": True}, CLAIM._replace(value="true")),
        ({"value": "a\nb"}, CLAIM._replace(value="a\nb")),
        ({"confidence": 1}, CLAIM._replace(confidence=1.0)),
        ({"confidence": 1.5}, CLAIM),
        ({"confidence": "0.9"}, CLAIM),
        ({"confidence": True}, CLAIM),
        ({"many": True}, CLAIM._replace(many=True)),
        ({"many": "yes"}, CLAIM),
        ({"valid_from": "2026-01-02"}, CLAIM._replace(valid_from=DAY)),
        ({"valid_from": "2026-01-02T02:00:00+02:00"}, CLAIM._replace(valid_from=DAY)),
        ({"valid_from": "2026-01-02T10:00:00"}, CLAIM),
        ({"valid_until": "tomorrow"}, CLAIM),
        ({"valid_until": "9999-12-31T23:59:59-12:00"}, CLAIM),
        ({"note": "more than was asked for"}, CLAIM),
    ],
)  # fmt: skip
def test_optional_field_is_ignored_when_malformed(
    sent: dict[str, Any], claim: NewFact
) -> None:
    assert answers.parse_claims(json.dumps([{**ITEM, **sent}])) == ClaimExtraction(
        (claim,), 0
    )


def test_unclosed_brackets_are_read_quickly() -> None:
    for text in ("[" * 200_000, '[{"a":' * 50_000, "[1," * 100_000, "```\n" * 50_000):
        assert answers.parse_claims(text) is None


@given(st.text(alphabet='[]{}",:`\n 1aé\ud800\0', max_size=80))
def test_answer_reader_accepts_any_text(text: str) -> None:
    answers.parse_claims(text)
