"""Integers beyond 64 bits: kept in content, refused elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.strict_json import JsonRefusedError

BEYOND = (
    2**63,
    -(2**63),
    2**64,
    10**30 + 1,
    -(10 ** (strict_json.MAX_NUMBER_CHARS - 2)),
)


@pytest.mark.parametrize("number", BEYOND)
def test_content_keeps_integers_of_any_size(number: int) -> None:
    raw = strict_json.as_sent({"items": [{"content": {"id": [number]}}]})
    value = strict_json.parse(raw, contents=("content",))
    assert strict_json.as_sent(value) == raw
    assert strict_json.kept(raw) == value
    assert strict_json.parse(raw, strict_json.CONTENT) == value
    assert strict_json.check(value, strict_json.CONTENT) == raw


@pytest.mark.parametrize("number", BEYOND)
@pytest.mark.parametrize("place", ["before", "after", "beside"])
def test_what_is_no_content_has_64_bits(number: int, place: str) -> None:
    body: dict[str, Any] = {"content": {"id": number}} | {"tokens": number}
    if place == "before":
        body = dict(reversed(body.items()))
    if place == "beside":
        body = {"items": [{"content": 1}, number]}
    with pytest.raises(JsonRefusedError) as caught:
        strict_json.parse(
            strict_json.as_sent(body),
            words=("items", "tokens"),
            contents=("content",),
        )
    assert caught.value.code == "integer_range"
    assert caught.value.loc == (("items", 1) if place == "beside" else ("tokens",))
