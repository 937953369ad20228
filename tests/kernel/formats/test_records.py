from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.formats.records import (
    Bad,
    Record,
    TextPosition,
    cut_array,
    cut_lines,
    cut_off,
    find_elements,
)

BOM = b"\xef\xbb\xbf"
#: Everything a scanner could stumble over, inside a string or between values.
TEXTS = st.text(st.sampled_from('ab[]{}",:\\é\n 1'), max_size=8)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
    ),
    max_leaves=12,
)
STEPS = st.integers(1, 9)


def chunks(raw: bytes, step: int = 65_536) -> Iterator[bytes]:
    return (raw[start : start + step] for start in range(0, len(raw), step))


def cut(
    raw: bytes, *, step: int = 65_536, max_bytes: int = 1_000
) -> list[Record | Bad]:
    return list(cut_array(chunks(raw, step), max_bytes=max_bytes))


def cut_text(
    raw: bytes, *, step: int = 65_536, max_bytes: int = 99
) -> list[Record | Bad]:
    return list(cut_lines(chunks(raw, step), max_bytes=max_bytes))


def refused(found: list[Record | Bad]) -> list[tuple[str, int, int]]:
    """Code, line and offset of what is bad."""
    return [
        (bad.code, bad.place.line, bad.place.offset)
        for bad in found
        if isinstance(bad, Bad)
    ]


def values(found: list[Record | Bad]) -> list[Any]:
    assert not refused(found)
    return [json.loads(each.raw) for each in found if isinstance(each, Record)]


@given(st.lists(VALUES, max_size=5), STEPS, st.sampled_from([None, 0, 2]))
def test_elements_of_an_array_come_out_as_they_went_in(
    elements: list[Any], step: int, indent: int | None
) -> None:
    raw = json.dumps(elements, ensure_ascii=False, indent=indent).encode()
    found = cut(raw, step=step)
    assert values(found) == elements
    for record in found:
        assert isinstance(record, Record)
        assert raw[record.place.offset :].startswith(record.raw)
        assert record.place.line == 1 + raw.count(b"\n", 0, record.place.offset)
    assert [record.index for record in found if isinstance(record, Record)] == list(
        range(len(elements))
    )


@given(st.lists(st.dictionaries(TEXTS, VALUES, max_size=3), max_size=5), STEPS)
def test_lines_come_out_as_they_went_in(lines: list[Any], step: int) -> None:
    raw = b"".join(b"\n \r\n" + json.dumps(line).encode() + b"\r\n" for line in lines)
    found = cut_text(raw, step=step, max_bytes=1_000)
    assert values(found) == lines
    assert [record.place.line for record in found] == [
        3 + 3 * index for index in range(len(lines))
    ]


@given(st.text(st.sampled_from('[]{}",:\\ a1\n'), max_size=24), STEPS)
def test_where_the_reads_fall_does_not_matter(text: str, step: int) -> None:
    raw = b"[" + text.encode()
    assert cut(raw, step=step) == cut(raw)


@given(st.text(st.sampled_from('[]{}",:\\ a1\n'), max_size=24))
def test_what_python_reads_as_an_array_is_cut_whole(text: str) -> None:
    raw = b"[" + text.encode() + b"]"
    try:
        expected = json.loads(raw)
    except ValueError:
        return
    assert values(cut(raw)) == expected


@pytest.mark.parametrize("raw", [b"[]", b" [ ]\n", BOM + b"[\n]"])
def test_an_empty_array_has_no_elements(raw: bytes) -> None:
    assert cut(raw) == []


@pytest.mark.parametrize(
    ("raw", "code", "line", "offset"),
    [
        (b"", "unknown_format", 1, 0),
        (b"<html>", "unknown_format", 1, 0),
        (b"\n {}", "unknown_format", 2, 2),
        (b"\xff\xfe[\x00", "unknown_format", 1, 0),
        (BOM + BOM + b"[]", "unknown_format", 1, 3),
        (b"[", "truncated", 1, 1),
        (b"[{}", "truncated", 1, 3),
        (b"[{},\n", "truncated", 2, 5),
        (b'[{},\n{"a": [1, "b\\', "truncated", 2, 18),
        (b"[tru", "truncated", 1, 4),
        (b"[,{}]", "invalid_json", 1, 1),
        (b"[{},]", "invalid_json", 1, 4),
        (b"[{},,{}]", "invalid_json", 1, 4),
        (b"[{}\n{}]", "invalid_json", 2, 4),
        (b"[{}}]", "invalid_json", 1, 3),
        (b"[{}]\n\n x", "invalid_json", 3, 7),
        (b"[{}][{}]", "invalid_json", 1, 4),
    ],
)
@pytest.mark.parametrize("step", [1, 3, 100])
def test_a_broken_array_ends_where_it_breaks(
    raw: bytes, code: str, line: int, offset: int, step: int
) -> None:
    found = cut(raw, step=step)
    assert refused(found) == [(code, line, offset)]
    last = found[-1]
    assert isinstance(last, Bad)
    assert last.final


@pytest.mark.parametrize(
    "large", [b'{"a":"' + b'\\"' * 80 + b'"}', b"[" + b"[{}]," * 40 + b"1]", b"1" * 101]
)
@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_an_element_over_the_limit_is_passed_over(large: bytes, step: int) -> None:
    raw = b'[{"a":1},\n' + large + b',{"b":2}]'
    first, bad, last = cut(raw, step=step, max_bytes=100)
    assert bad == Bad(
        code="body_too_large",
        place=TextPosition(line=2, offset=10),
        run=1,
        detail="max_bytes: 100",
    )
    assert isinstance(first, Record)
    assert isinstance(last, Record)
    assert (last.raw, last.index) == (b'{"b":2}', 2)
    assert last.place.offset == len(raw) - len(last.raw) - 1


@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_a_line_over_the_limit_is_passed_over(step: int) -> None:
    raw = b'{"a":1}\n{"b":"' + b"x" * 200 + b'"}\n{"c":3}'
    first, bad, last = cut_text(raw, step=step)
    assert bad == Bad(
        code="body_too_large",
        place=TextPosition(line=2, offset=8),
        run=1,
        detail="max_bytes: 99",
    )
    assert isinstance(last, Record)
    assert (last.raw, last.place.line, last.unfinished) == (b'{"c":3}', 3, True)
    assert isinstance(first, Record)
    assert not first.unfinished


def test_a_limit_is_the_last_length_that_is_kept() -> None:
    element = b'"' + b"a" * 98 + b'"'
    assert len(cut(b"[" + element + b"]", max_bytes=100)) == 1
    assert not refused(cut(b"[" + element + b"]", max_bytes=100))
    assert refused(cut(b"[" + element + b"]", max_bytes=99))


@pytest.mark.parametrize(
    "raw", [b"[{}]", b"hello\n", b"\x80\x04\x95", b"SQLite format"]
)
def test_lines_that_are_no_objects_are_no_lines_file(raw: bytes) -> None:
    assert refused(cut_text(raw)) == [("unknown_format", 1, 0)]


def test_a_file_without_lines_is_empty() -> None:
    assert cut_text(b"") == []
    assert cut_text(BOM + b"\n\n") == []


def test_a_byte_order_mark_counts_in_offsets() -> None:
    (record,) = cut_text(BOM + b'{"a":1}\n', step=1)
    assert isinstance(record, Record)
    assert (record.raw, record.place.offset) == (b'{"a":1}', 3)


def test_elements_of_a_member_are_found() -> None:
    raw = (
        b'{"info": {"traj": [1, 2]}, "n": -1.5e3, "traj" : [ {"a": "]"} , [3],\n"x" ]}'
    )
    spans = list(find_elements(raw, member=b"traj"))
    assert [raw[begin:end] for begin, end in spans] == [b'{"a": "]"}', b"[3]", b'"x"']


@given(st.text(st.sampled_from('[]{}",:\\ traj1\n'), max_size=40))
def test_looking_for_elements_ends_on_any_text(text: str) -> None:
    raw = b'{"traj":[' + text.encode()
    assert len(list(find_elements(raw, member=b"traj"))) <= len(raw)


@pytest.mark.parametrize("raw", [b'{"a', b'{"a": [', b'{"a": "}'])
def test_what_ends_inside_a_value_is_cut_off(raw: bytes) -> None:
    assert cut_off(raw)
    assert not cut_off(b'{"a": tru}')
