"""Log as text: it reads back as written, resists forgery, and folds in order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.kernel.context.tokens import estimate_tokens
from memoryhub.kernel.observing import lines
from memoryhub.kernel.observing.lines import (
    SIGNS,
    ObservationLine,
    fold_lines,
    make_line,
    render_lines,
)

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
#: Times of any clock.
ZONES = st.integers(-12, 12).map(lambda hours: timezone(timedelta(hours=hours)))
TIMES = st.none() | st.builds(datetime.fromtimestamp, st.integers(0, 7 * 10**9), ZONES)


@st.composite
def logs(draw: st.DrawFn, *, whole: bool = False) -> list[ObservationLine]:
    """Draw lines of any slots; those of a `whole` log leave no gap."""
    found, end = list[ObservationLine](), 0
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


def list_slots(found: list[ObservationLine] | tuple[ObservationLine, ...]) -> set[int]:
    return {slot for line in found for slot in range(line.first, line.end)}


def test_log_is_a_heading_for_each_day_and_a_row_for_each_line() -> None:
    found = lines.read(LOG)
    assert found[1] == ObservationLine(AT, "critical", "User lives in Bergen.", 1, 4)
    assert found[2] == ObservationLine(None, "done", "10:30 was the time.", 4, 5)
    assert render_lines(found) == LOG


@given(logs())
def test_log_lines_round_trip(found: list[ObservationLine]) -> None:
    assert lines.read(render_lines(found)) == tuple(found)


@given(TEXTS, st.booleans())
def test_transcript_cannot_forge_log_lines(texts: list[str], timed: bool) -> None:
    """A line that was not folded when it was made cannot forge either."""
    raw = ObservationLine(AT if timed else None, "low", "".join(texts), 12, 15)
    text = render_lines([raw])
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
def test_text_that_is_no_log_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        lines.read(text)


# Folding


def numbered(*marks: lines.Mark) -> list[ObservationLine]:
    return [
        make_line(f"{'word ' * 40}{n}", first=n, end=n + 1, mark=mark, at=AT)
        for n, mark in enumerate(marks)
    ]


def test_log_that_fits_is_not_folded() -> None:
    found = numbered("low", "critical")
    assert fold_lines(found, 1_000, count=estimate_tokens) == tuple(found)
    assert fold_lines([], 0, count=estimate_tokens) == ()


def test_low_lines_fold_first_then_medium_then_done_and_critical_ones_last() -> None:
    found = numbered("critical", "low", "done", "medium", "low", "critical")
    left = list[str]()
    for tokens in range(estimate_tokens(render_lines(found)), 0, -1):
        shown = "".join(
            str(line.first) for line in fold_lines(found, tokens, count=estimate_tokens)
            if not line.text.startswith("[")
        )  # fmt: skip
        left += [shown] if shown not in left else []
    assert left == ["012345", "02345", "0235", "025", "05", "5", ""]


def test_lines_folded_side_by_side_are_one() -> None:
    found = numbered("critical", "low", "low", "low", "critical")
    assert fold_lines(found, 170, count=estimate_tokens) == (
        found[0],
        ObservationLine(AT, "low", "[3 messages condensed, 1–3]", 1, 4),
        found[4],
    )


def test_folded_line_keeps_its_newest_codes() -> None:
    texts = ("A-17 " + "word " * 40, "B-18 A-17 " + "word " * 40, "C-19")
    found = [make_line(t, first=n, end=n + 1) for n, t in enumerate(texts)]
    made = fold_lines(found, 45, count=estimate_tokens, codes=2)
    assert [line.text for line in made] == [
        "[2 messages condensed, 0–1] B-18 A-17",
        "C-19",
    ]
    again = fold_lines([*made, found[0]], 25, count=estimate_tokens, codes=3)
    assert again[0].text == "[3 messages condensed, 0–2] B-18 C-19 A-17"
    assert lines.read(render_lines(again)) == again


@given(logs(whole=True), st.integers(0, 200))
def test_folded_lines_keep_their_complete_provenance(
    found: list[ObservationLine], tokens: int
) -> None:
    kept = fold_lines(found, tokens, count=estimate_tokens, codes=2)
    assert list_slots(kept) >= list_slots(found)
    assert len(kept) <= 1 or estimate_tokens(render_lines(kept)) <= tokens
    made = fold_lines(found, tokens, count=estimate_tokens)
    assert list_slots(made) >= list_slots(found)
    assert len(made) <= 1 or estimate_tokens(render_lines(made)) <= tokens
    assert fold_lines(made, tokens, count=estimate_tokens) == made


def test_folded_lines_are_one_wherever_they_stood() -> None:
    found = numbered("low", "critical", "low")
    assert [
        line.text[:30] for line in fold_lines(found, 110, count=estimate_tokens)
    ] == [
        "[2 messages condensed, 0–2]",
        found[1].text[:30],
    ]


@given(logs(), st.integers(0, 200))
def test_log_fits_or_is_a_line(found: list[ObservationLine], tokens: int) -> None:
    made = fold_lines(found, tokens, count=estimate_tokens)
    assert list_slots(made) >= list_slots(found)
    assert len(made) <= 1 or estimate_tokens(render_lines(made)) <= tokens


def test_long_log_is_written_a_few_times_only() -> None:
    lengths = list[int]()

    def count(text: str) -> int:
        lengths.append(len(text))
        return estimate_tokens(text)

    found = numbered(*SIGNS, *[*SIGNS] * 250)
    assert count(render_lines(fold_lines(found, 5_000, count=count))) <= 5_000
    assert len(lengths) < 15


def test_text_that_is_no_log_is_one_line() -> None:
    """Somebody else may have written the bundle."""
    (line,) = lines.read_any("## no day\nThey talked.", 3, 5)
    assert line == lines.make_line("## no day They talked.", first=3, end=5)
    kept = lines.render_lines([line])
    assert lines.read_any(kept, 0, 9) == (line,)


def test_signs_of_a_log_are_found_around_its_words() -> None:
    at = datetime(2026, 11, 27, 10, 5, tzinfo=UTC)
    log = lines.render_lines(
        [
            lines.make_line("Boxes are 23 euros [a]", first=3, end=4, at=at),
            lines.make_line("- a dash", first=4, end=9, mark="done"),
            lines.make_line("Later", first=9, end=10, at=at + timedelta(days=1)),
        ]
    )

    def list_words(piece: str) -> list[str]:
        words, begin = list[str](), 0
        for start, end in lines.find_signs(piece):
            words.append(piece[begin:start])
            begin = end
        return [each for each in (*words, piece[begin:]) if each]

    assert list_words(log) == ["Boxes are 23 euros [a]", "- a dash", "Later"]
    # A window that begins inside the heading, and ends inside a line.
    assert list_words(log[5:60])[0] == "Boxes are 23 euros [a]"
    assert list_words("Boxes, 2026") == ["Boxes, 2026"]
