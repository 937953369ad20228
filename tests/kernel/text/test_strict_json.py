"""Sections 1 and 2 of the bad-input catalogue, as far as the parser answers."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.strict_json import JsonLimits, JsonRefusedError

MAX = strict_json.MAX_INTEGER
LIMIT = strict_json.DEFAULT


def require_refusal(raw: bytes, limits: JsonLimits = LIMIT) -> JsonRefusedError:
    with pytest.raises(JsonRefusedError) as caught:
        strict_json.parse(raw, limits)
    return caught.value


def nested(depth: int) -> dict[str, bytes]:
    arrays = b"[" * depth + b"]" * depth
    objects = b'{"a":' * depth + b"1" + b"}" * depth
    pairs = depth // 2
    inmost = b"[]" if depth % 2 else b"1"
    mixed = b'[{"a":' * pairs + inmost + b"}]" * pairs
    return {"arrays": arrays, "objects": objects, "mixed": mixed}


NOT_JSON = [
    "{",
    "[1,2",
    '"abc',
    '"abc\\',
    "{} x",
    "{}{}",
    "[1] [2]",
    "// why\n{}",
    "{} /* why */",
    "{'a': 1}",
    '{"a": 1,}',
    "[1,]",
    "[,1]",
    "[1,,2]",
    "]",
    "[}",
    "{a: 1}",
    '{"a"}',
    '{1: "a"}',
    "tru",
    "None",
    "\u00a0{}",
    "\f{}",
    " ",
    "01",
    "-01",
    "+1",
    ".5",
    "1.",
    "1.e5",
    "1e",
    "0x1",
    "--1",
    "-",
    "1_000",
    "\u0661",
    '"a\x00b"',
    '"a\x01b"',
    '"a\nb"',
    '"a\tb"',
    '"\\x41"',
    '"\\u12"',
    '"\\u 123"',
    "nan",
    "inf",
]


@pytest.mark.parametrize("text", NOT_JSON)
def test_text_that_is_not_json_is_refused(text: str) -> None:
    assert require_refusal(text.encode()).code == "invalid_json"


def test_empty_body_is_named() -> None:
    assert require_refusal(b"").code == "empty_body"


WIDE = ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]


@pytest.mark.parametrize("text", ['{"a": "b"}', '"\u0416"', "7", "[]"])
@pytest.mark.parametrize("encoding", [*WIDE, "utf-8-sig"])
def test_only_plain_utf8_is_read(text: str, encoding: str) -> None:
    assert require_refusal(text.encode(encoding)).code == "encoding"


@pytest.mark.parametrize(
    "inside",
    [b"\xff", b"\xc0\xaf", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"],
)
def test_invalid_utf8_is_refused_where_it_stands(inside: bytes) -> None:
    error = require_refusal(b'{"a": "' + inside + b'"}')
    assert (error.code, error.offset) == ("encoding", 7)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("around", ["%s", "[1, %s]", '{"a": {"b": [%s]}}'])
def test_numbers_are_finite(number: str, around: str) -> None:
    assert require_refusal((around % number).encode()).code == "non_finite"


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000, "0." + "1" * 5000])
def test_number_of_5000_digits_is_refused(number: str) -> None:
    assert require_refusal(b"[" + number.encode() + b"]").code == "number_too_long"


def test_longest_exact_double_is_kept() -> None:
    smallest = f"-{math.ulp(0.0):.1074f}"
    assert len(smallest) == strict_json.MAX_NUMBER_CHARS
    assert strict_json.parse(smallest.encode()) == -math.ulp(0.0)


@pytest.mark.parametrize(
    "text", ['{"a":1,"a":1}', '[{"b":{"a":1,"\\u0061":2}}]', '{"":1,"":2}']
)
def test_duplicate_key_is_refused_at_any_depth(text: str) -> None:
    assert require_refusal(text.encode()).code == "duplicate_key"


@pytest.mark.parametrize("depth", [33, 500, 2_000, 100_000])
@pytest.mark.parametrize("shape", ["arrays", "objects", "mixed"])
def test_json_nested_too_deep_is_refused(depth: int, shape: str) -> None:
    wide = JsonLimits(max_bytes=10**7)
    assert require_refusal(nested(depth)[shape], wide).code == "too_deep"


@pytest.mark.parametrize("shape", ["arrays", "objects", "mixed"])
def test_json_depth_32_is_accepted(shape: str) -> None:
    raw = nested(32)[shape]
    assert strict_json.dump_stored(strict_json.parse(raw)) == raw


def test_depth_counts_brackets_outside_strings_only() -> None:
    raw = strict_json.dump_stored(["[" * 100, '\\"[' * 100, {"{" * 100: "]"}])
    assert strict_json.dump_stored(strict_json.parse(raw)) == raw


def test_10001_nodes_are_refused_and_10000_kept() -> None:
    assert len(strict_json.parse(b"[" + b",".join([b"1"] * 9_999) + b"]")) == 9_999
    assert (
        require_refusal(b"[" + b",".join([b"1"] * 10_000) + b"]").code
        == "too_many_nodes"
    )


def test_nodes_without_commas_count_too() -> None:
    raw = b"[" + b",".join([b'{"a":{"b":{"c":""}}}'] * 2_500) + b"]"
    assert require_refusal(raw).code == "too_many_nodes"


def test_object_of_150000_keys_is_refused() -> None:
    members = ",".join(f'"{n}":1' for n in range(150_000))
    wide = JsonLimits(max_bytes=10**7)
    assert require_refusal(f"{{{members}}}".encode(), wide).code == "too_many_nodes"


@pytest.mark.parametrize("key", ["k" * 257, "é" * 129])
def test_key_over_256_bytes_is_refused(key: str) -> None:
    error = require_refusal(strict_json.dump_stored([{"content": {key: 1}}]))
    assert (error.code, error.loc) == ("key_too_long", (0, 0, 0))


def test_key_of_256_bytes_is_kept() -> None:
    assert strict_json.parse(strict_json.dump_stored({"é" * 128: 1})) == {"é" * 128: 1}


def test_text_over_the_limit_is_refused_before_it_is_read() -> None:
    assert require_refusal(b"[" * (LIMIT.max_bytes + 1)).code == "body_too_large"
    body = b'"' + b"a" * (LIMIT.max_bytes - 2) + b'"'
    assert len(strict_json.parse(body)) == LIMIT.max_bytes - 2


@pytest.mark.parametrize(
    "text", ['{"a": "x\\u0000"}', '{"a\\u0000": 1}', '["ok", "\\u0000"]']
)
def test_nul_is_refused(text: str) -> None:
    assert require_refusal(text.encode()).code == "nul"


@pytest.mark.parametrize(
    "text", ['"\\ud800"', '"\\udfff x"', '"\\udc00\\ud800"', '{"\\ud834": 1}']
)
def test_lone_surrogate_is_refused(text: str) -> None:
    assert require_refusal(text.encode()).code == "surrogate"


@pytest.mark.parametrize(
    "text",
    [
        '"\\ud834\\udd1e"',
        '"👩‍👩‍👧"',
        '"e' + "\u0301" * 1000 + '"',
        '"שלום"',
        '"\ufffe\uffff\ue000\U0010ffff"',
        '"\\u0001\\n\\u007f\u2028"',
        '{"__proto__": {"constructor": 1}, "toString": 2, "__class__": 3}',
        '"<script>{{7*7}}</pre>"',
        '""',
        '"NaN"',
    ],
)
def test_odd_but_valid_text_is_kept_exactly(text: str) -> None:
    value = strict_json.parse(text.encode())
    assert value == json.loads(text)
    assert strict_json.parse(strict_json.dump_stored(value)) == value


@pytest.mark.parametrize("number", [2**63, -(2**63), -(2**63) - 1, 10**300])
def test_integer_beyond_64_bits_is_refused(number: int) -> None:
    error = require_refusal(b'{"a": [1, %d]}' % number)
    assert (error.code, error.loc) == ("integer_range", (0, 1))


@pytest.mark.parametrize(
    "text",
    [str(MAX), str(-MAX), "-0.0", "1e-320", "0.1", "1.0", "1e+22", "0", "[-1.5]"],
)
def test_number_keeps_its_type_and_value(text: str) -> None:
    assert strict_json.dump_stored(strict_json.parse(text.encode())) == text.encode()


def test_integer_written_as_a_double_stays_a_double() -> None:
    assert isinstance(strict_json.parse(b"1.0"), float)
    assert isinstance(strict_json.parse(b"1e2"), float)
    assert math.copysign(1, strict_json.parse(b"-0.0")) == -1


def test_refusal_names_our_words_but_no_key_of_a_client() -> None:
    raw = b'{"items": [{"type": "a.b", "content": {"mia": "\\u0000"}}]}'
    with pytest.raises(JsonRefusedError) as caught:
        strict_json.parse(raw, words=("items", "content"))
    assert caught.value.loc == ("items", 0, "content", 0)
    assert "mia" not in repr(caught.value) + str(caught.value.detail)


def test_refusal_does_not_drag_the_text_along() -> None:
    error = require_refusal(b'{"canary": "canary" canary}')
    assert error.__cause__ is None
    assert error.__suppress_context__
    assert "canary" not in str(error)


@pytest.mark.parametrize(
    ("text", "offset"), [("[1,]", 3), ('["é" x]', 6), ("[]]", 2), ('{"a":tru}', 5)]
)
def test_broken_json_is_refused_with_its_byte(text: str, offset: int) -> None:
    assert require_refusal(text.encode()).offset == offset


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (float("nan"), "non_finite"),
        ({"a": [2**63]}, "integer_range"),
        ("\ud800", "surrogate"),
        (["\0"], "nul"),
        ({1: "a"}, "invalid_json"),
        ((1, 2), "invalid_json"),
        (object(), "invalid_json"),
        ([0] * 10_000, "too_many_nodes"),
        ("a" * LIMIT.max_bytes, "body_too_large"),
    ],
)
def test_python_values_are_held_to_the_same_rules(value: Any, code: str) -> None:
    with pytest.raises(JsonRefusedError) as caught:
        strict_json.check(value)
    assert caught.value.code == code


def test_value_that_holds_itself_is_too_deep() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(JsonRefusedError, match="too_deep"):
        strict_json.check(endless)


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-MAX, MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([-0.0, 1e-320, 0.1, 1.0])
    | TEXTS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_checked_content_parses_back_to_its_value(value: Any) -> None:
    raw = strict_json.check(value)
    assert raw == strict_json.dump_stored(value)
    # repr tells -0.0 from 0.0, 1.0 from 1, and one key order from another.
    assert repr(strict_json.parse(raw)) == repr(value)


@given(st.dictionaries(TEXTS, SCALARS, min_size=2, max_size=6))
def test_canonical_form_does_not_depend_on_key_order(value: dict[str, Any]) -> None:
    turned = dict(reversed(value.items()))
    assert strict_json.dump_canonical(turned) == strict_json.dump_canonical(value)
    assert list(strict_json.parse(strict_json.dump_stored(turned))) == list(turned)


WORDS = ['"a"', "\\u0000", "\\ud800", "e9", "NaN", "true", "null"]
PIECES = st.sampled_from([*'{}[],:"\\1-. é\n0', *WORDS])


@given(st.lists(PIECES, max_size=30).map(lambda pieces: "".join(pieces).encode()))
def test_any_text_parses_or_is_refused(raw: bytes) -> None:
    try:
        value = strict_json.parse(raw)
    except JsonRefusedError:
        return
    assert repr(value) == repr(json.loads(raw))


@given(st.binary(max_size=40))
def test_any_bytes_parse_or_are_refused(raw: bytes) -> None:
    try:
        value = strict_json.parse(raw)
    except JsonRefusedError:
        return
    assert repr(value) == repr(json.loads(raw))


#: A text that is read the long way, all else being equal.
LONG_WAY = JsonLimits(max_key_bytes=255)
PIECES = st.sampled_from(
    [
        *("{", "}", "[", "]", ",", ":", " ", "1", "-0", "1.5", "1e400", "null", "NaN"),
        *('"a"', '"b"', '"a":1', '"a":', "9" * 18, "9" * 19, "-" + "9" * 18, '"ü"'),
        *('"\\u0000"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\u00e9"', '"\\\\u0000"'),
        *(
            '"%s":2' % ("k" * 64),
            '"%s":2' % ("k" * 65),
            '"%s":2' % ("ü" * 64),
            '"\x00"',
        ),
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join))
@example('{"a":1,"a":2}')
@example("[" * 33 + "]" * 33)
@example('{"%s":1}' % ("ü" * 120))
@example(str(MAX + 1))
@example('["\\ud83d"]')
def test_fast_path_agrees_with_the_full_check(text: str) -> None:
    def outcome(limits: JsonLimits) -> str:
        try:
            return repr(strict_json.parse(text.encode(), limits))
        except JsonRefusedError as error:
            return f"{error.code} {error.loc} {error.offset}"

    assert outcome(LIMIT) == outcome(LONG_WAY)
