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
from memoryhub.kernel.observing.codes import is_path
from memoryhub.kernel.observing.sentences import POLITE, weigh_line
from memoryhub.kernel.text.json_text import inert
from memoryhub.kernel.text.visible import has_visible

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
#: Files of what is folded that its line names, the newest.
MOST_PATHS: Final = 24


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


def is_line(text: str) -> bool:
    """Return whether anything is seen of a text once it is one line."""
    return has_visible(one_line(text))


def written(lines: Iterable[Line]) -> str:
    """Write lines as the log has them, below a heading wherever the day changes."""
    return _write(lines, {})


def _write(lines: Iterable[Line], rows: dict[Line, str]) -> str:
    """Write lines; `rows` keeps what was made of each, for another time."""
    made, day = list[str](), None
    for line in lines:
        if line.at is not None and line.at.date() != day:
            day = line.at.date()
            made.append(f"{_HEADING}{day}")
        row = rows.get(line)
        if row is None:
            row = rows[line] = _write_row(line)
        made.append(row)
    return "\n".join(made)


def _write_row(line: Line) -> str:
    # Folded once more: not every line need have been made here.
    text, stamp = one_line(line.text), ""
    if line.at is not None:
        stamp = f"{line.at:%H:%M} "
    elif _STAMP.match(text):
        stamp = f"{_NO_TIME} "
    return f"- {SIGNS[line.mark]} {stamp}{text} {_slots(line)}"


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
    lines: Iterable[Line],
    tokens: int,
    *,
    count: Count,
    codes: int = 0,
    worth: Sequence[int] | None = None,
) -> tuple[Line, ...]:
    """Fold as many lines as it takes until the log has at most `tokens`, or is a line.

    Low ones first, then medium, done and critical ones, of each those that matter
    least, the oldest first. What is folded is one line of all its slots, where the
    first of it stood, and keeps its newest files and codes, so many at most where that
    fits. `worth` is what `weigh` says of each, if it is at hand. Writes the log once
    for each doubling of its length.
    """
    whole, rows = tuple(lines), dict[Line, str]()
    if len(whole) < 2 or count(_write(whole, rows)) <= tokens:
        return whole
    worths = worth or [*map(weigh, whole)]
    order = sorted(
        range(len(whole)),
        key=lambda at: (_RANKS[whole[at].mark], worths[at], whole[at].first),
    )
    # Looked for once, since the log is written several times.
    found = [_codes(line) for line in whole]

    def fits(folds: int) -> bool:
        made = _joined(whole, order[:folds], found, codes)
        return count(_write(made, rows)) <= tokens

    folds = bisect_left(range(len(whole)), x=True, lo=1, key=fits)
    if fits(folds):
        return _joined(whole, order[:folds], found, codes)
    if codes:
        return folded(whole, tokens, count=count, worth=worths)
    return _joined(whole, order[:folds], [()] * len(whole), 0)


def weigh(line: Line) -> int:
    """Return how long a line will matter; what stands for others matters least."""
    condensed = _CONDENSED.match(line.text)
    return POLITE - 1 if condensed else weigh_line(line.text)


def condensed(what: str, first: int, end: int) -> str:
    """Return what stands for the text of messages that are not told."""
    number = end - first
    return f"[{number} message{'s' if number > 1 else ''} {what}]"


def _slots(line: Line) -> str:
    last = line.end - 1
    return f"[{line.first}]" if last == line.first else f"[{line.first}-{last}]"


def _codes(line: Line) -> tuple[str, ...]:
    return find_codes(_CONDENSED.sub("", line.text))


def _joined(
    lines: Sequence[Line],
    folds: Collection[int],
    found: Sequence[Sequence[str]],
    codes: int,
) -> tuple[Line, ...]:
    """Return lines with those at `folds` as one that names the newest codes."""
    if not folds:
        return tuple(lines)
    chosen = sorted(folds)
    away = [lines[at] for at in chosen]
    first, end = min(line.first for line in away), max(line.end for line in away)
    since = next((line.at for line in away if line.at is not None), None)
    # Each where it stood last. A file is found again by no other word.
    kept = [
        *dict.fromkeys(code for at in reversed(chosen) for code in reversed(found[at]))
    ]
    paths = [each for each in kept if is_path(each)][:MOST_PATHS]
    others = [each for each in kept if not is_path(each)][:codes]
    wanted = {*paths, *others}
    newest = [each for each in reversed(kept) if each in wanted]
    which = f"{first}–{end - 1}" if end - first > 1 else f"{first}"
    number = len({slot for line in away for slot in range(line.first, line.end)})
    what = condensed(f"condensed, {which}", 0, number)
    one = Line(since, "low", " ".join([what, *newest]), first, end)
    gone = frozenset(chosen)
    left = [line for at, line in enumerate(lines) if at not in gone]
    place = chosen[0]
    return (*left[:place], one, *left[place:])
