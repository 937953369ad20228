"""Markdown of exported memory: names of files, and texts that stay in their blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pytest

from memoryhub.queries.export import markdown_texts as texts

NAMES = [
    *("t-1", "T-1", "a.b", "a:b@c_d", "~0f", "CON", "con", "aux.md", "com1.x"),
    *("end.", "..", "a/b", "a\\b", "ü", "x%41", "README", "readme"),
]


@pytest.mark.parametrize("name", NAMES)
def test_file_name_is_safe_and_reversible(name: str) -> None:
    found = texts.encode_file_name(name)
    assert unquote(found) == name
    assert not {*found} & {*'/\\:*?"<>|~ '}
    assert found[0] != "."
    assert found[-1] != "."
    assert found.partition(".")[0] not in ("con", "aux", "com1")


def test_file_names_differ_where_case_is_ignored() -> None:
    found = {texts.encode_file_name(name).casefold() for name in NAMES}
    assert len(found) == len(NAMES)


def test_long_file_name_is_cut_and_stays_unique() -> None:
    one, two = (texts.encode_file_name("N" * 128 + end) for end in ("a", "b"))
    assert one != two
    assert max(len(one), len(two)) <= 150


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a", "`a`"),
        ("<b>*x*</b>", "`<b>*x*</b>`"),
        ("a`b", "``a`b``"),
        ("``", "``` `` ```"),
        (" a", "`  a `"),
        ("", "`  `"),
        ("a\n# b\r", r'`"a\n# b\r"`'),
        ("a\u2028b", r'`"a\u2028b"`'),
    ],
)
def test_code_holds_its_text_in_one_line(text: str, code: str) -> None:
    assert texts.render_code(text) == code


@pytest.mark.parametrize("text", ["x", "```\n# out\n```", "\n`````\n<script>", "~~~"])
def test_block_ends_with_its_own_fence_only(text: str) -> None:
    fence, *inside, end, _ = texts.render_block(text).split("\n")
    assert "\n".join(inside) == text
    assert fence == end
    assert fence not in text


@dataclass
class Sample:
    text: str | None
    erased: bool
    size: int = 0
    labels: Any = None


@pytest.mark.parametrize(
    ("sample", "shown"),
    [
        (Sample("a", erased=False), "- text: `a`\n- erased: no\n- size: 0\n"),
        (Sample(None, erased=True), "- text: *Erased.*\n- erased: yes\n- size: 0\n"),
        (Sample(None, erased=False), "- text: `null`\n- erased: no\n- size: 0\n"),
    ],
)
def test_record_tells_erased_from_null(sample: Sample, shown: str) -> None:
    assert texts.render_record(sample, content="text") == shown


def test_long_value_of_a_record_is_a_block() -> None:
    assert texts.render_field("a", "x\ny") == "- a:\n\n```\nx\ny\n```\n\n"
    assert '```json\n{\n  "a": "x' in texts.render_field("b", {"a": "x" * 300})
