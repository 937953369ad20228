from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.formats.records import (
    BadRecord,
    FileRecord,
    TextPosition,
    cut_array,
    cut_lines,
    find_elements,
    is_cut_off,
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


def iter_chunks(raw: bytes, step: int = 65_536) -> Iterator[bytes]:
    return (raw[start : start + step] for start in range(0, len(raw), step))


def list_cut_records(
    raw: bytes, *, step: int = 65_536, max_bytes: int = 1_000
) -> list[FileRecord | BadRecord]:
    return list(cut_array(iter_chunks(raw, step), max_bytes=max_bytes))


def cut_text(
    raw: bytes, *, step: int = 65_536, max_bytes: int = 99
) -> list[FileRecord | BadRecord]:
    return list(cut_lines(iter_chunks(raw, step), max_bytes=max_bytes))


def list_bad(found: list[FileRecord | BadRecord]) -> list[tuple[str, int, int]]:
    """Return code, line and offset of the bad part."""
    return [
        (bad.code, bad.place.line, bad.place.offset)
        for bad in found
        if isinstance(bad, BadRecord)
    ]


def read_values(found: list[FileRecord | BadRecord]) -> list[Any]:
    assert not list_bad(found)
    return [json.loads(each.raw) for each in found if isinstance(each, FileRecord)]


@given(st.lists(VALUES, max_size=5), STEPS, st.sampled_from([None, 0, 2]))
def test_array_elements_round_trip(
    elements: list[Any], step: int, indent: int | None
) -> None:
    raw = json.dumps(elements, ensure_ascii=False, indent=indent).encode()
    found = list_cut_records(raw, step=step)
    assert read_values(found) == elements
    for record in found:
        assert isinstance(record, FileRecord)
        assert raw[record.place.offset :].startswith(record.raw)
        assert record.place.line == 1 + raw.count(b"\n", 0, record.place.offset)
    assert [record.index for record in found if isinstance(record, FileRecord)] == list(
        range(len(elements))
    )


@given(st.lists(st.dictionaries(TEXTS, VALUES, max_size=3), max_size=5), STEPS)
def test_lines_round_trip(lines: list[Any], step: int) -> None:
    raw = b"".join(b"\n \r\n" + json.dumps(line).encode() + b"\r\n" for line in lines)
    found = cut_text(raw, step=step, max_bytes=1_000)
    assert read_values(found) == lines
    assert [record.place.line for record in found] == [
        3 + 3 * index for index in range(len(lines))
    ]


@given(st.text(st.sampled_from('[]{}",:\\ a1\n'), max_size=24), STEPS)
def test_record_cutter_is_independent_of_read_boundaries(text: str, step: int) -> None:
    raw = b"[" + text.encode()
    assert list_cut_records(raw, step=step) == list_cut_records(raw)


@given(st.text(st.sampled_from('[]{}",:\\ a1\n'), max_size=24))
def test_json_array_is_cut_into_all_its_values(text: str) -> None:
    raw = b"[" + text.encode() + b"]"
    try:
        expected = json.loads(raw)
    except ValueError:
        return
    assert read_values(list_cut_records(raw)) == expected


@pytest.mark.parametrize("raw", [b"[]", b" [ ]\n", BOM + b"[\n]"])
def test_empty_array_has_no_elements(raw: bytes) -> None:
    assert list_cut_records(raw) == []


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
def test_broken_array_ends_where_it_breaks(
    raw: bytes, code: str, line: int, offset: int, step: int
) -> None:
    found = list_cut_records(raw, step=step)
    assert list_bad(found) == [(code, line, offset)]
    last = found[-1]
    assert isinstance(last, BadRecord)
    assert last.final


@pytest.mark.parametrize(
    "large", [b'{"a":"' + b'\\"' * 80 + b'"}', b"[" + b"[{}]," * 40 + b"1]", b"1" * 101]
)
@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_element_over_the_limit_is_skipped(large: bytes, step: int) -> None:
    raw = b'[{"a":1},\n' + large + b',{"b":2}]'
    first, bad, last = list_cut_records(raw, step=step, max_bytes=100)
    assert bad == BadRecord(
        code="body_too_large",
        place=TextPosition(line=2, offset=10),
        run=1,
        detail="max_bytes: 100",
    )
    assert isinstance(first, FileRecord)
    assert isinstance(last, FileRecord)
    assert (last.raw, last.index) == (b'{"b":2}', 2)
    assert last.place.offset == len(raw) - len(last.raw) - 1


@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_line_over_the_limit_is_skipped(step: int) -> None:
    raw = b'{"a":1}\n{"b":"' + b"x" * 200 + b'"}\n{"c":3}'
    first, bad, last = cut_text(raw, step=step)
    assert bad == BadRecord(
        code="body_too_large",
        place=TextPosition(line=2, offset=8),
        run=1,
        detail="max_bytes: 99",
    )
    assert isinstance(last, FileRecord)
    assert (last.raw, last.place.line, last.unfinished) == (b'{"c":3}', 3, True)
    assert isinstance(first, FileRecord)
    assert not first.unfinished


def test_limit_is_the_last_length_that_is_kept() -> None:
    element = b'"' + b"a" * 98 + b'"'
    assert len(list_cut_records(b"[" + element + b"]", max_bytes=100)) == 1
    assert not list_bad(list_cut_records(b"[" + element + b"]", max_bytes=100))
    assert list_bad(list_cut_records(b"[" + element + b"]", max_bytes=99))


@pytest.mark.parametrize(
    "raw", [b"[{}]", b"hello\n", b"\x80\x04\x95", b"SQLite format"]
)
def test_lines_that_are_no_objects_are_no_lines_file(raw: bytes) -> None:
    assert list_bad(cut_text(raw)) == [("unknown_format", 1, 0)]


def test_file_without_lines_is_empty() -> None:
    assert cut_text(b"") == []
    assert cut_text(BOM + b"\n\n") == []


def test_byte_order_mark_counts_in_offsets() -> None:
    (record,) = cut_text(BOM + b'{"a":1}\n', step=1)
    assert isinstance(record, FileRecord)
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
def test_truncated_value_is_reported_as_cut_off(raw: bytes) -> None:
    assert is_cut_off(raw)
    assert not is_cut_off(b'{"a": tru}')
