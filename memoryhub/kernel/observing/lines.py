"""Lines: a log of observations as text, how to read it back, and how it is folded.

Pure. Whatever a text says, it stays one line of its own, closes no fence, and is read
back as it was written.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, date, datetime, time
from typing import Final, Literal, NamedTuple

from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.observing.codes import codes as find_codes
from memoryhub.kernel.text.json_text import inert

Mark = Literal["critical", "medium", "low", "done"]
#: In the order in which they are folded.
SIGNS: Final[dict[Mark, str]] = {
    "low": "🟢",
    "medium": "🟡",
    "done": "✅",
    "critical": "🔴",
}
_RANKS: Final = {mark: rank for rank, mark in enumerate(SIGNS)}
_MARKS: Final = {sign: mark for mark, sign in SIGNS.items()}
#: Stands for no time, before a text that begins as one.
_NO_TIME: Final = "--:--"

#: What would end a line, or is no text.
_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_STAMP = re.compile(rf"({_NO_TIME}|[0-9]{{2}}:[0-9]{{2}}) ")
_LINE = re.compile(
    rf"- ({'|'.join(_MARKS)}) (?:{_STAMP.pattern})?(.*) \[([0-9]+)(?:-([0-9]+))?\]"
)
_CONDENSED = re.compile(r"^\[[0-9]+ messages? condensed, [0-9–]+\]")
_HEADING = "## "


class Line(NamedTuple):
    """An observation, and the slots that it was made of."""

    #: UTC, to the minute.
    at: datetime | None
    mark: Mark
    text: str
    first: int
    #: The slot behind the last.
    end: int


def make_line(
    text: str, *, first: int, end: int, mark: Mark = "low", at: datetime | None = None
) -> Line:
    """Make a line as it will be read back. `at` has an offset."""
    if at is not None:
        at = at.astimezone(UTC).replace(second=0, microsecond=0)
    return Line(at, mark, one_line(text), first, end)


def one_line(text: str) -> str:
    """Fold what would end a line to blanks, make fences inert, strip the ends."""
    return inert(_BREAKS.sub(" ", text).strip())


def written(lines: Iterable[Line]) -> str:
    """Write lines as the log has them, below a heading wherever the day changes."""
    made, day = list[str](), None
    for line in lines:
        # Folded once more: not every line need have been made here.
        text, stamp = one_line(line.text), ""
        if line.at is not None:
            if line.at.date() != day:
                day = line.at.date()
                made.append(f"{_HEADING}{day}")
            stamp = f"{line.at:%H:%M} "
        elif _STAMP.match(text):
            stamp = f"{_NO_TIME} "
        made.append(f"- {SIGNS[line.mark]} {stamp}{text} {_slots(line)}")
    return "\n".join(made)


def read(text: str) -> tuple[Line, ...]:
    """Read what `written` wrote. Raises ValueError for anything else."""
    found, day = list[Line](), None
    for row in text.split("\n") if text else ():
        if row.startswith(_HEADING):
            day = date.fromisoformat(row.removeprefix(_HEADING))
            continue
        parts = _LINE.fullmatch(row)
        if parts is None:
            raise ValueError("not a line of a log")
        sign, stamp, body, first, last = parts.groups()
        at = None
        if stamp and stamp != _NO_TIME:
            if day is None:
                raise ValueError("a time without a day")
            at = datetime.combine(day, time.fromisoformat(stamp), UTC)
        end = int(last or first) + 1
        found.append(Line(at, _MARKS[sign], body, int(first), end))
    return tuple(found)


def read_any(text: str, first: int, end: int) -> tuple[Line, ...]:
    """Read what `written` wrote; what is none of that is a line of all these slots."""
    try:
        return read(text)
    except ValueError:
        return (make_line(text, first=first, end=end),)


def folded(
    lines: Iterable[Line], tokens: int, *, count: Count, codes: int = 0
) -> tuple[Line, ...]:
    """Fold as many lines as it takes until the log has at most `tokens`, or is a line.

    Low ones first, then medium, done and critical ones, the oldest of each first; those
    that then stand side by side are one line. The slots covered stay the same, but
    where those of no line lie between and it would not fit otherwise. What is folded
    keeps its newest codes, so many at most where that fits. Writes the log once for
    each doubling of its length.
    """
    whole = tuple(lines)
    if len(whole) < 2 or count(written(whole)) <= tokens:
        return whole
    order = sorted(
        range(len(whole)), key=lambda at: (_RANKS[whole[at].mark], whole[at].first)
    )
    runs = _runs(whole)
    # Looked for once, since the log is written several times.
    found = [_codes(line) if codes else () for line in whole]
    if count(written(_joined(whole, order, runs, found, codes))) > tokens:
        if codes:
            return folded(whole, tokens, count=count)
        runs = [0] * len(whole)

    def fits(folds: int) -> bool:
        made = _joined(whole, order[:folds], runs, found, codes)
        return count(written(made)) <= tokens

    folds = bisect_left(range(len(whole)), x=True, lo=1, key=fits)
    if codes and not fits(folds):
        return folded(whole, tokens, count=count)
    return _joined(whole, order[:folds], runs, found, codes)


def condensed(what: str, first: int, end: int) -> str:
    """Return what stands for the text of messages that are not told."""
    number = end - first
    return f"[{number} message{'s' if number > 1 else ''} {what}]"


def _slots(line: Line) -> str:
    last = line.end - 1
    return f"[{line.first}]" if last == line.first else f"[{line.first}-{last}]"


def _runs(lines: Sequence[Line]) -> list[int]:
    """The number of the unbroken run of slots, by all lines, that each belongs to."""
    runs, run, end = [0] * len(lines), 0, -1
    for at in sorted(range(len(lines)), key=lambda at: lines[at].first):
        run += lines[at].first > end
        end = max(end, lines[at].end)
        runs[at] = run
    return runs


def _codes(line: Line) -> tuple[str, ...]:
    return find_codes(_CONDENSED.sub("", line.text))


def _joined(
    lines: Sequence[Line],
    folds: Collection[int],
    runs: Sequence[int],
    found: Sequence[Sequence[str]],
    codes: int,
) -> tuple[Line, ...]:
    """Lines with those at `folds` folded, side by side into one within a run.

    That keeps the newest codes `found` in them.
    """
    made, inside, chosen = list[Line](), None, frozenset(folds)
    kept = list[str]()
    for at, line in enumerate(lines):
        if at not in chosen:
            made.append(line)
            inside = None
            continue
        first, end, since = line.first, line.end, line.at
        here = [*found[at]]
        if inside == runs[at]:
            before = made.pop()
            first, end = min(before.first, first), max(before.end, end)
            since = before.at or since
            here = [*kept, *here]
        inside = runs[at]
        # Each where it stood last.
        kept = [*dict.fromkeys(reversed(here))][:codes][::-1]
        which = f"{first}–{end - 1}" if end - first > 1 else f"{first}"
        text = " ".join([condensed(f"condensed, {which}", first, end), *kept])
        made.append(Line(since, "low", text, first, end))
    return tuple(made)
