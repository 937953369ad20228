"""Numbers of content stay as they came; elsewhere they have 64 bits."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.kernel.text import json_text, strict_json
from memoryhub.kernel.text.strict_json import JsonRefusedError
from memoryhub.queries.replay import exact_json

BEYOND = (
    2**63,
    -(2**63),
    2**64,
    10**30 + 1,
    -(10 ** (strict_json.MAX_NUMBER_CHARS - 2)),
)


@pytest.mark.parametrize("number", BEYOND)
def test_content_keeps_integers_of_any_size(number: int) -> None:
    raw = strict_json.dump_stored({"items": [{"content": {"id": [number]}}]})
    value = strict_json.parse(raw, contents=("content",))
    assert strict_json.dump_stored(value) == raw
    assert strict_json.parse_stored(raw) == value
    assert strict_json.parse(raw, strict_json.CONTENT) == value
    assert strict_json.check(value, strict_json.CONTENT) == raw


@pytest.mark.parametrize("number", BEYOND)
@pytest.mark.parametrize("place", ["before", "after", "beside"])
def test_integer_outside_contents_is_limited_to_64_bits(
    number: int, place: str
) -> None:
    body: dict[str, Any] = {"content": {"id": number}} | {"tokens": number}
    if place == "before":
        body = dict(reversed(body.items()))
    if place == "beside":
        body = {"items": [{"content": 1}, number]}
    with pytest.raises(JsonRefusedError) as caught:
        strict_json.parse(
            strict_json.dump_stored(body),
            words=("items", "tokens"),
            contents=("content",),
        )
    assert caught.value.code == "integer_range"
    assert caught.value.loc == (("items", 1) if place == "beside" else ("tokens",))


DIGITS = ("1.10", "12345678901234567.89", "1e400", "1E-7", "-0", "-0.0", "0.1", "1e5")


@pytest.mark.parametrize("digits", DIGITS)
def test_digits_survive(digits: str) -> None:
    raw = b'{"content":{"text":"\\\\u00001\\"","n":[' + digits.encode() + b"]}}"
    for value in (
        strict_json.parse(raw, contents=("content",)),
        strict_json.parse(raw, strict_json.CONTENT),
        strict_json.parse_stored(raw),
    ):
        assert strict_json.dump_stored(value) == raw
        assert json_text.dump_json(value).encode() == raw
        assert exact_json.dump_json(value) == raw


def test_equal_numbers_have_one_text_for_digests() -> None:
    texts = {
        strict_json.dump_canonical(strict_json.parse_stored(n))
        for n in (b"1.10", b"1.1")
    }
    assert texts == {b"1.1"}


@pytest.mark.parametrize(("digits", "is_number"), [("1.10", 1.1), ("-0", 0)])
def test_number_outside_contents_is_read_as_a_plain_number(
    digits: str, is_number: float
) -> None:
    found = strict_json.parse(f'{{"limit":[{digits}]}}'.encode())
    assert found == {"limit": [is_number]}
