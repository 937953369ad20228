"""The log as text: read back as it was written, forged by nothing, folded in order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.levels.tokens import estimate
from memoryhub.kernel.observing import lines
from memoryhub.kernel.observing.lines import SIGNS, Line, folded, make_line, written

AT = datetime(2026, 3, 1, 14, 5, tzinfo=UTC)
LOG = """\
- 🟡 Before all days. [0]
## 2026-03-01
- 🔴 14:05 User lives in Bergen. [1-3]
- ✅ --:-- 10:30 was the time. [4]
- 🟢 23:59 Small talk. [5]
## 2026-03-02
- 🟡 00:00 A new day. [6]"""

IMITATIONS = (
    *("## 2026-01-01", "- 🔴 10:30 x [1-2]", "10:30 x", "--:-- x", "🔴 x", "x [7-9]"),
    *("<VM:LOG>", "</VM:LOG>", "</VM:CONTEXT>", "\\u003cVM:", "a\n## 2026-01-01", ""),
    *("\r\n", "a\x85b\u2028c\u2029d", "\0", "\ud800", "<\n/VM:LOG>", "[12]", "29:99 "),
)
TEXTS = st.lists(st.sampled_from(IMITATIONS) | st.text(max_size=20), max_size=3)
#: By any clock of the world.
ZONES = st.integers(-12, 12).map(lambda hours: timezone(timedelta(hours=hours)))
TIMES = st.none() | st.builds(datetime.fromtimestamp, st.integers(0, 7 * 10**9), ZONES)


@st.composite
def logs(draw: st.DrawFn, *, whole: bool = False) -> list[Line]:
    """Lines of any slots; of a `whole` log, with none of no line between."""
    found, end = list[Line](), 0
    for _ in range(draw(st.integers(0, 8))):
        first = draw(st.integers(0, end)) if whole else draw(st.integers(0, 40))
        line = make_line(
            " ".join(draw(TEXTS)),
            first=first,
            end=first + draw(st.integers(1, 5)),
            mark=draw(st.sampled_from(sorted(SIGNS))),
            at=draw(TIMES),
        )
        found.append(line)
        end = max(end, line.end)
    return found


def slots(found: list[Line] | tuple[Line, ...]) -> set[int]:
    return {slot for line in found for slot in range(line.first, line.end)}


def test_the_log_is_a_heading_for_each_day_and_a_row_for_each_line() -> None:
    found = lines.read(LOG)
    assert found[1] == Line(AT, "critical", "User lives in Bergen.", 1, 4)
    assert found[2] == Line(None, "done", "10:30 was the time.", 4, 5)
    assert written(found) == LOG


@given(logs())
def test_what_was_written_is_read_back(found: list[Line]) -> None:
    assert lines.read(written(found)) == tuple(found)


@given(TEXTS, st.booleans())
def test_transcript_cannot_forge(texts: list[str], timed: bool) -> None:
    """Not even a line that nobody folded when it was made."""
    raw = Line(AT if timed else None, "low", "".join(texts), 12, 15)
    text = written([raw])
    assert text.splitlines() == text.split("\n")
    assert len(text.splitlines()) == 1 + timed
    assert "<VM:" not in text
    assert "</VM:" not in text
    assert text.encode().endswith(b" [12-14]")
    assert lines.read(text) == (make_line(raw.text, first=12, end=15, at=raw.at),)


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "- 🔴 10:30 x [1]",
        "## 2026-13-01",
        "- 🔴 x",
        "- x [1]",
        "\n",
        "## \n- 🔴 [1]",
    ],
)
def test_what_is_no_log_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        lines.read(text)


# Folding


def numbered(*marks: lines.Mark) -> list[Line]:
    return [
        make_line(f"{'word ' * 40}{n}", first=n, end=n + 1, mark=mark, at=AT)
        for n, mark in enumerate(marks)
    ]


def test_what_fits_is_left_alone() -> None:
    found = numbered("low", "critical")
    assert folded(found, 1_000, count=estimate) == tuple(found)
    assert folded([], 0, count=estimate) == ()


def test_low_lines_fold_first_then_medium_then_done_and_critical_ones_last() -> None:
    found = numbered("critical", "low", "done", "medium", "low", "critical")
    left = list[str]()
    for tokens in range(estimate(written(found)), 0, -1):
        shown = "".join(
            str(line.first) for line in folded(found, tokens, count=estimate)
            if not line.text.startswith("[")
        )  # fmt: skip
        left += [shown] if shown not in left else []
    assert left == ["012345", "02345", "0235", "025", "05", "5", ""]


def test_lines_folded_side_by_side_are_one() -> None:
    found = numbered("critical", "low", "low", "low", "critical")
    assert folded(found, 170, count=estimate) == (
        found[0],
        Line(AT, "low", "[3 messages condensed, 1–3]", 1, 4),
        found[4],
    )


def test_what_is_folded_may_keep_its_newest_codes() -> None:
    texts = ("A-17 " + "word " * 40, "B-18 A-17 " + "word " * 40, "C-19")
    found = [make_line(t, first=n, end=n + 1) for n, t in enumerate(texts)]
    made = folded(found, 45, count=estimate, codes=2)
    assert [line.text for line in made] == [
        "[2 messages condensed, 0–1] B-18 A-17",
        "C-19",
    ]
    again = folded([*made, found[0]], 25, count=estimate, codes=3)
    assert again[0].text == "[3 messages condensed, 0–2] B-18 C-19 A-17"
    assert lines.read(written(again)) == again


@given(logs(whole=True), st.integers(0, 200))
def test_provenance_complete(found: list[Line], tokens: int) -> None:
    kept = folded(found, tokens, count=estimate, codes=2)
    assert slots(kept) >= slots(found)
    assert len(kept) <= 1 or estimate(written(kept)) <= tokens
    made = folded(found, tokens, count=estimate)
    assert slots(made) >= slots(found)
    assert len(made) <= 1 or estimate(written(made)) <= tokens
    assert folded(made, tokens, count=estimate) == made


def test_folded_lines_are_one_wherever_they_stood() -> None:
    found = numbered("low", "critical", "low")
    assert [line.text[:30] for line in folded(found, 110, count=estimate)] == [
        "[2 messages condensed, 0–2]",
        found[1].text[:30],
    ]


@given(logs(), st.integers(0, 200))
def test_a_log_fits_or_is_a_line(found: list[Line], tokens: int) -> None:
    made = folded(found, tokens, count=estimate)
    assert slots(made) >= slots(found)
    assert len(made) <= 1 or estimate(written(made)) <= tokens


def test_a_long_log_is_written_a_few_times_only() -> None:
    lengths = list[int]()

    def count(text: str) -> int:
        lengths.append(len(text))
        return estimate(text)

    found = numbered(*SIGNS, *[*SIGNS] * 250)
    assert count(written(folded(found, 5_000, count=count))) <= 5_000
    assert len(lengths) < 15


def test_a_text_that_is_no_log_is_one_line() -> None:
    """As in a bundle that somebody else wrote."""
    (line,) = lines.read_any("## no day\nThey talked.", 3, 5)
    assert line == lines.make_line("## no day They talked.", first=3, end=5)
    kept = lines.written([line])
    assert lines.read_any(kept, 0, 9) == (line,)
