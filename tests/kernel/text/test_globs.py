"""Globs: held against plain search over all ways to match, and quick on any pattern."""

from __future__ import annotations

from functools import cache
from time import process_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memoryhub.errors import InvalidError
from memoryhub.kernel.text import globs

SIGNS = st.sampled_from("ab-!]^\\.éZ")
NAMES = st.text(SIGNS, max_size=7)
GLOBS = st.text(st.one_of(SIGNS, st.sampled_from("*?[[]-!")), max_size=8)


def is_match(glob: str, name: str) -> bool:
    return globs.compile_glob(glob)(name)


@cache
def oracle(glob: str, name: str) -> bool:
    """Tell whether any way to match succeeds, each tried in turn."""
    if not glob:
        return not name
    head, rest = glob[0], glob[1:]
    if head == "*":
        return any(oracle(rest, name[taken:]) for taken in range(len(name) + 1))
    if head == "[" and (closed := _find_end_of_set(rest)) is not None:
        inside, rest = rest[:closed], rest[closed + 1 :]
        return bool(name) and _takes(inside, name[0]) and oracle(rest, name[1:])
    return bool(name) and head in ("?", name[0]) and oracle(rest, name[1:])


def _find_end_of_set(rest: str) -> int | None:
    """Return the place of the set's end; its first character may be the bracket."""
    for place, sign in enumerate(rest):
        if sign == "]" and rest[:place] not in ("", "!"):
            return place
    return None


def _takes(inside: str, sign: str) -> bool:
    if inside[0] == "!":
        return not _takes_one(inside[1:], sign)
    return _takes_one(inside, sign)


def _takes_one(inside: str, sign: str) -> bool:
    if not inside:
        return False
    if len(inside) >= 3 and inside[1] == "-":
        found = inside[0] <= sign <= inside[2]
        return found or _takes_one(inside[3:], sign)
    return sign == inside[0] or _takes_one(inside[1:], sign)


@settings(max_examples=1_000)
@given(glob=GLOBS, name=NAMES)
@example(glob="[]-]a", name="-a")
@example(glob="[!]-]", name="a")
@example(glob="*a*b*", name="bab")
def test_every_pattern_matches_what_a_search_finds(glob: str, name: str) -> None:
    try:
        found = is_match(glob, name)
    except InvalidError:
        assert sum(glob.count(sign) for sign in "*?[") > globs.MAX_WILDCARDS
        return
    assert found is oracle(glob, name)


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("*", ["", "a", "a.b"], []),
        ("user.*", ["user.", "user.name"], ["user", "a.user.name"]),
        ("k?", ["k1", "ké"], ["k", "k12"]),
        ("[abc]", ["a", "c"], ["d", "A", ""]),
        ("[a-c]x", ["bx"], ["dx", "-x"]),
        ("[!a]", ["b", "!"], ["a", ""]),
        ("[c-a]", [], ["a", "b", "c"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("a[", ["a["], ["a"]),
        ("[]", ["[]"], [""]),
        ("[!]", ["[!]"], ["a"]),
        ("A", ["A"], ["a"]),
        ("a.b", ["a.b"], ["aXb"]),
        ("", [""], ["a"]),
    ],
)
def test_glob_metacharacters_match_as_documented(
    glob: str, yes: list[str], no: list[str]
) -> None:
    assert [name for name in yes if not is_match(glob, name)] == []
    assert [name for name in no if is_match(glob, name)] == []


@pytest.mark.parametrize("glob", ["a" * 129, "?" * 9, "*a" * 9, "[a]" * 9, "*" * 9])
def test_glob_that_is_too_complex_is_refused(glob: str) -> None:
    with pytest.raises(InvalidError) as refused:
        globs.compile_glob(glob)
    assert refused.value.invalid_code == "glob_too_complex"


@pytest.mark.parametrize("glob", ["a" * 128, "?" * 8, "*a" * 8, "[" * 100])
def test_glob_at_the_limit_of_complexity_is_accepted(glob: str) -> None:
    globs.compile_glob(glob)


#: Each has been the end of a matcher that backtracks.
HOSTILE = [
    "*a" * 8,
    "*a" * 7 + "*b",
    "a*" * 8,
    "*" * 8 + "b",
    "*a*a*a*a*a*a*a*c",
    "?*" * 4 + "b",
    "*?" * 4 + "b",
    "*[a]" * 4 + "b",
    "*[!b]" * 4 + "b",
    "*aa*aa*aa*aa*aa*aa*ab",
    "[a-z]*" * 4 + "!",
    "*" + "a" * 100 + "b",
    "*" + "a" * 60 + "*" + "a" * 60 + "c",
    "a" * 100 + "*b",
    "*a?a?a?a?a",
    "*" + "ab" * 50,
    "*b" * 8,
    "*[!a]" * 4,
    "?a?a?a?a*b",
    "*a" * 6 + "*?b",
]


@pytest.mark.parametrize(
    "count", [1_000, pytest.param(10_000, marks=pytest.mark.nightly)]
)
def test_glob_is_quick(count: int) -> None:
    """20 hostile patterns take at most ten times the CPU seconds of `*`."""
    names = [("a" * 20) + str(number) for number in range(count)]
    plain = measure_cost("*", names)
    dear = {glob: measure_cost(glob, names) / plain for glob in HOSTILE}
    assert len(dear) == 20
    assert {glob: times for glob, times in dear.items() if times > 10} == {}


def measure_cost(glob: str, names: list[str]) -> float:
    """Return the CPU seconds of the quickest of five runs."""
    match = globs.compile_glob(glob)
    times = []
    for _ in range(5):
        start = process_time()
        for name in names:
            match(name)
        times.append(process_time() - start)
    return min(times)
