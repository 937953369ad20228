"""Texts that can be a person's id."""

from __future__ import annotations

import pytest

from memoryhub.errors import InvalidError
from memoryhub.kernel.text import user_ids


@pytest.mark.parametrize(
    "text",
    [
        "7",
        "Ann Smith, née Li",
        "auth0|5f7c+ann@example.com",
        "a*",
        "%a",
        "🙂",
        "x" * 256,
    ],
)
def test_line_of_text_is_an_id(text: str) -> None:
    assert user_ids.require(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "*", "%", "* %", " ann", "ann ", "x" * 257),
        *("a\nb", "a\rb", "a\tb", "a\x00b", "a\x85b", "a\u2028b", "ann\n"),
        # Look-alikes of another id, and no text at all.
        *("a\u200bb", "a\u202eb", "a\xa0b", "\ufeffa", "\ud800"),
    ],
)
def test_malformed_user_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        user_ids.require(text)
    assert refusal.value.loc == "user_id"
