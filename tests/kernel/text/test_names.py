"""Names: the alphabet, and blanking that the chain can't tell from the name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.state.events import Label, SlotAppended, ThreadCreated
from memoryhub.kernel.text import names

SALT = b"0123456789abcdef"


@pytest.mark.parametrize(
    "text", ["", " a", "a ", "a/b", "-x", ".x", "~x", "é", "а", "a\n", "a" * 129, "_x"]
)
def test_invalid_name_is_refused(text: str) -> None:
    assert not names.is_valid(text)


@pytest.mark.parametrize("text", ["a", "CON", "a:b", "x@y", "t-1", "a" * 128])
def test_valid_name_is_accepted_unchanged(text: str) -> None:
    assert names.is_valid(text)


@pytest.mark.parametrize("text", ["Greeting", ".a", "a.", "a..b", "."])
def test_bare_class_name_is_not_qualified(text: str) -> None:
    assert not names.is_qualified(text)


def test_reserved_name_is_recognised() -> None:
    assert [*map(names.is_reserved, ["mh.x", "_x", "mhx", "a_"])] == [
        True,
        True,
        False,
        False,
    ]


@given(st.text(min_size=1))
def test_blanking_twice_is_blanking_once(text: str) -> None:
    once = names.blank(SALT, text.lstrip("~") or "a")
    assert names.blank(SALT, once) == once
    assert names.is_blanked(once)


def test_blanking_replaces_only_names_of_a_body() -> None:
    body = {"index": 0, "from": "a", "to": "b", "type": "c.d", "role": "user"}
    replaced = names.replace_names(SlotAppended, body, lambda name: f"<{name}>")
    assert replaced == {
        "index": 0,
        "from": "<a>",
        "to": "<b>",
        "type": "<c.d>",
        "role": "user",
    }


def test_labels_are_replaced_whatever_their_type() -> None:
    labels = [
        {"name": "n", "value": "v"},
        {"name": "m", "value": 1},
        {"name": "o", "value": False},
    ]
    body = {"subject": "s", "agent_type": "t", "labels": labels}
    replaced = names.replace_names(ThreadCreated, body, lambda name: name.upper())
    assert replaced["labels"] == [
        {"name": "N", "value": "V"},
        {"name": "M", "value": "=1"},
        {"name": "O", "value": "=FALSE"},
    ]
    assert replaced["agent_type"] == "T"
    assert replaced["subject"] == "s"
    assert Label(name="n", value=True).value is True
