"""Lines: a log of observations as text, its parser, and its folding.

Pure. Any text stays one line of its own, closes no fence, and is read back as it was
written.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, date, datetime, time
from typing import Final, Literal, NamedTuple

from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.observing.codes import is_path
from memoryhub.kernel.observing.codes import list_codes as find_codes
from memoryhub.kernel.observing.sentences import POLITE, weigh_line
from memoryhub.kernel.text.json_text import make_inert
from memoryhub.kernel.text.visible import has_visible

Mark = Literal["critical", "medium", "low", "done"]
#: Signs of marks, in the order in which lines are folded.
SIGNS: Final[dict[Mark, str]] = {
    "low": "🟢",
    "medium": "🟡",
    "done": "✅",
    "critical": "🔴",
}
_RANKS: Final = {mark: rank for rank, mark in enumerate(SIGNS)}
_MARKS: Final = {sign: mark for mark, sign in SIGNS.items()}
#: Stands for a missing time, before a text that begins like a time.
_NO_TIME: Final = "--:--"

#: Characters that would end a line, or are no text.
_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_STAMP = re.compile(rf"({_NO_TIME}|[0-9]{{2}}:[0-9]{{2}}) ")
_LINE = re.compile(
    rf"- ({'|'.join(_MARKS)}) (?:{_STAMP.pattern})?(.*) \[([0-9]+)(?:-([0-9]+))?\]"
)
_SIGNS = re.compile(
    r"(?: \[[0-9]+(?:-[0-9]+)?\](?=\n|$))?(?:^|\n|$)"
    # At the beginning of a piece a heading may lack its own.
    r"(?:(?:## [0-9-]{10}|(?<!\n)#? ?[0-9-]{1,10}(?=\n))(?:\n|$))?"
    rf"(?:- (?:(?:{'|'.join(_MARKS)}) )?(?:{_STAMP.pattern})?)?"
)
_CONDENSED = re.compile(r"^\[[0-9]+ messages? condensed, [0-9–]+\]")
_HEADING = "## "
#: Most files named in a folded line; the newest are kept.
MOST_PATHS: Final = 24


class ObservationLine(NamedTuple):
    """An observation, and the slots from which it was made."""

    #: Time in UTC, to the minute.
    at: datetime | None
    mark: Mark
    text: str
    first: int
    #: The slot behind the last.
    end: int


def make_line(
    text: str, *, first: int, end: int, mark: Mark = "low", at: datetime | None = None
) -> ObservationLine:
    """Make a line as it will be read back. `at` has an offset."""
    if at is not None:
        at = at.astimezone(UTC).replace(second=0, microsecond=0)
    return ObservationLine(at, mark, to_one_line(text), first, end)


def to_one_line(text: str) -> str:
    """Replace line breaks by blanks, make fences inert, strip the ends."""
    return make_inert(_BREAKS.sub(" ", text).strip())


def is_line(text: str) -> bool:
    """Return whether a text has visible characters once it is one line."""
    return has_visible(to_one_line(text))


def render_lines(lines: Iterable[ObservationLine]) -> str:
    """Render lines as the log has them, below a heading wherever the day changes."""
    return _render_log(lines, {})


def _render_log(
    lines: Iterable[ObservationLine], rows: dict[ObservationLine, str]
) -> str:
    """Render lines; `rows` caches each rendered line for another time."""
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


def _write_row(line: ObservationLine) -> str:
    # Converted again, as a line may come from elsewhere.
    text, stamp = to_one_line(line.text), ""
    if line.at is not None:
        stamp = f"{line.at:%H:%M} "
    elif _STAMP.match(text):
        stamp = f"{_NO_TIME} "
    return f"- {SIGNS[line.mark]} {stamp}{text} {_render_slots(line)}"


def read(text: str) -> tuple[ObservationLine, ...]:
    """Parse a log rendered by `render_lines`. Raise ValueError for anything else."""
    found, day = list[ObservationLine](), None
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
        found.append(ObservationLine(at, _MARKS[sign], body, int(first), end))
    return tuple(found)


def find_signs(text: str) -> list[tuple[int, int]]:
    """Find what is no word of a line in a piece of a log, each as [start, end).

    That is headings, marks with their times, and slots, with the line breaks around. A
    mark of which the piece has only the end is left in.
    """
    return [found.span() for found in _SIGNS.finditer(text)]


def read_any(text: str, first: int, end: int) -> tuple[ObservationLine, ...]:
    """Parse a log; any other text becomes one line of all these slots."""
    try:
        return read(text)
    except ValueError:
        return (make_line(text, first=first, end=end),)


def fold_lines(
    lines: Iterable[ObservationLine],
    tokens: int,
    *,
    count: Count,
    codes: int = 0,
    worth: Sequence[int] | None = None,
) -> tuple[ObservationLine, ...]:
    """Fold as many lines as it takes until the log has at most `tokens`, or is a line.

    Low lines are folded first, then medium, done and critical ones; of each mark the
    lines that matter least, the oldest first. All folded lines become one line of all
    their slots, at the place of the first. This line keeps the newest files and codes,
    up to `codes` codes if they fit. `worth` is the result of `weigh_log_line` for each
    line, if known. The log is rendered once for each doubling of its length.
    """
    whole, rows = tuple(lines), dict[ObservationLine, str]()
    if len(whole) < 2 or count(_render_log(whole, rows)) <= tokens:
        return whole
    worths = worth or [*map(weigh_log_line, whole)]
    order = sorted(
        range(len(whole)),
        key=lambda at: (_RANKS[whole[at].mark], worths[at], whole[at].first),
    )
    # Found once, since the log is rendered several times.
    found = [_list_line_codes(line) for line in whole]

    def is_small_enough(folds: int) -> bool:
        made = _fold_at(whole, order[:folds], found, codes)
        return count(_render_log(made, rows)) <= tokens

    folds = bisect_left(range(len(whole)), x=True, lo=1, key=is_small_enough)
    if is_small_enough(folds):
        return _fold_at(whole, order[:folds], found, codes)
    if codes:
        return fold_lines(whole, tokens, count=count, worth=worths)
    return _fold_at(whole, order[:folds], [()] * len(whole), 0)


def weigh_log_line(line: ObservationLine) -> int:
    """Return how long a line will matter; a folded line matters least."""
    condensed = _CONDENSED.match(line.text)
    return POLITE - 1 if condensed else weigh_line(line.text)


def render_condensed(what: str, first: int, end: int) -> str:
    """Render the text that stands for messages left out."""
    number = end - first
    return f"[{number} message{'s' if number > 1 else ''} {what}]"


def _render_slots(line: ObservationLine) -> str:
    last = line.end - 1
    return f"[{line.first}]" if last == line.first else f"[{line.first}-{last}]"


def _list_line_codes(line: ObservationLine) -> tuple[str, ...]:
    return find_codes(_CONDENSED.sub("", line.text))


def _fold_at(
    lines: Sequence[ObservationLine],
    folds: Collection[int],
    found: Sequence[Sequence[str]],
    codes: int,
) -> tuple[ObservationLine, ...]:
    """Return lines with those at `folds` as one that names the newest codes."""
    if not folds:
        return tuple(lines)
    chosen = sorted(folds)
    away = [lines[at] for at in chosen]
    first, end = min(line.first for line in away), max(line.end for line in away)
    since = next((line.at for line in away if line.at is not None), None)
    # Each code stands at its last position. Only its name finds a file again.
    kept = [
        *dict.fromkeys(code for at in reversed(chosen) for code in reversed(found[at]))
    ]
    paths = [each for each in kept if is_path(each)][:MOST_PATHS]
    others = [each for each in kept if not is_path(each)][:codes]
    wanted = {*paths, *others}
    newest = [each for each in reversed(kept) if each in wanted]
    which = f"{first}–{end - 1}" if end - first > 1 else f"{first}"
    number = len({slot for line in away for slot in range(line.first, line.end)})
    what = render_condensed(f"condensed, {which}", 0, number)
    one = ObservationLine(since, "low", " ".join([what, *newest]), first, end)
    gone = frozenset(chosen)
    left = [line for at, line in enumerate(lines) if at not in gone]
    place = chosen[0]
    return (*left[:place], one, *left[place:])
