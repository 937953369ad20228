"""Lanes of facts: where each stands on a time axis, in percent of its width. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from memoryhub.queries.knowledge.facts import AssertionLine, FactLine
from memoryhub.queries.knowledge.lanes import Lane, Lanes

#: Rows of values that hold at once, of a lane.
ROWS = 8
_ROW, _LINE, _BAR, _THIN = 36, 30, 28, 20
_MINUTE = timedelta(minutes=1)
#: Steps of the slider, in minutes; the smallest that needs no more than STEPS.
_STEPS = (1, 5, 15, 60, 360, 1_440, 10_080)
STEPS = 800
_MONTH, _DAY = timedelta(days=31), timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    x: str
    label: str


@dataclass(frozen=True, slots=True)
class Axis:
    """From when to when the lanes are drawn; instants are minutes since 1970."""

    begin: int
    end: int
    step: int

    @property
    def days(self) -> bool:
        """Tell whether an instant is a day, and needs no time."""
        return self.step >= 1_440  # minutes of a day

    def x(self, at: datetime | None) -> float:
        """Return where an instant stands; None is the end."""
        if at is None:
            return 100.0
        share = (_minutes(at) - self.begin) / max(1, self.end - self.begin)
        return 100 * min(1.0, max(0.0, share))

    def instant(self, minutes: int) -> datetime:
        return _instant(min(self.end, max(self.begin, minutes)))

    def ticks(self) -> Iterator[Tick]:
        """Yield at most six, at round instants: months, days or hours."""
        begin, end = _instant(self.begin), _instant(self.end)
        marks = [*_marks(begin, end)]
        every = (len(marks) - 1) // 6 + 1
        last = None
        for at in marks[::every]:
            label = _label(at, end - begin, first=last is None or at.year != last.year)
            # What stands at the end would run over it.
            fits = self.x(at) <= 100 - 12
            yield Tick(x=_percent(self.x(at)), label=label if fits else "")
            last = at


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A rectangle in a lane, with its text."""

    x: str
    width: str
    y: int
    height: int
    kind: str
    text: str
    title: str
    #: How a fact is named in the address; empty for what is no fact.
    name: str = ""

    @property
    def baseline(self) -> int:
        return self.y + self.height // 2 + 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLane:
    lane: Lane
    height: int
    bars: tuple[Bar, ...]
    #: Values that are not drawn.
    left_out: int
    current: bool


def axis_of(found: Lanes, *, now: datetime) -> Axis:
    """Return an axis on which all of them stand, with some room behind."""
    lines: list[FactLine | AssertionLine] = []
    for lane in found.lanes:
        lines += [*lane.facts, *lane.retracted]
    begins = [each.valid_from for each in lines] or [now - _DAY]
    ends = [each.valid_until for each in lines if each.valid_until]
    first, last = min([*begins, now]), max([*begins, *ends, now])
    span = max(last - first, timedelta(hours=1))
    minutes = int(span / _MINUTE * 1.15)
    step = next((n for n in _STEPS if minutes / n <= STEPS), minutes // STEPS + 1)
    begin = _minutes(first) // step * step
    return Axis(begin, begin + (minutes // step + 1) * step, step)


def drawn(
    found: Lanes, axis: Axis, *, at: datetime, chosen: str = ""
) -> list[DrawnLane]:
    """Draw each lane; `chosen` is the fact at hand."""
    return [_lane(lane, axis, at, chosen) for lane in found.lanes]


def _lane(lane: Lane, axis: Axis, at: datetime, chosen: str) -> DrawnLane:
    rows = _rows(lane)
    bars = [
        _fact(lane, number, line, axis, at=at, y=8 + _ROW * rows[line.value])
        for number, line in enumerate(lane.facts)
        if rows[line.value] < ROWS
    ]
    height = 16 + _ROW * max(1, min(ROWS, len({*rows.values()})))
    bars += [_believed(line, axis, y=height) for line in lane.believed]
    height += _LINE if lane.believed else 0
    for gone in lane.retracted:
        bars.append(_retracted(gone, axis, y=height))
        height += _LINE
    return DrawnLane(
        lane=lane,
        height=height,
        bars=tuple(bars),
        left_out=max(0, len({*rows.values()}) - ROWS),
        current=any(bar.name and bar.name == chosen for bar in bars),
    )


def _rows(lane: Lane) -> dict[str, int]:
    """By value, the row it stands in: one for all where one holds at a time."""
    values = dict.fromkeys(fact.value for fact in lane.facts)
    if lane.cardinality == "single":
        return dict.fromkeys(values, 0)
    return {value: row for row, value in enumerate(values)}


def _fact(
    lane: Lane, number: int, line: FactLine, axis: Axis, *, at: datetime, y: int
) -> Bar:
    kind = "fact now" if line.holds(at) else "fact"
    if line.id in lane.late:
        kind += " late"
    more = f", {line.confirmations} confirmations" if line.confirmations > 1 else ""
    return _bar(
        axis,
        line.valid_from,
        line.valid_until,
        y=y,
        height=_BAR,
        kind=kind,
        text=line.value + more,
        title=f"{line.value}{more}",
        name=f"{line.id}-{lane.first + number}",
    )


def _retracted(line: AssertionLine, axis: Axis, *, y: int) -> Bar:
    why = "retracted as wrong" if line.wrong else "retracted"
    return _bar(
        axis,
        line.valid_from,
        line.valid_until,
        y=y,
        height=_THIN,
        kind="wrong",
        text=line.value,
        title=f"{line.value}, {why}",
    )


def _believed(line: FactLine, axis: Axis, *, y: int) -> Bar:
    return _bar(
        axis,
        line.valid_from,
        line.valid_until,
        y=y,
        height=_THIN,
        kind="was",
        text=line.value,
        title=f"{line.value}, as it was believed before",
    )


def _bar(
    axis: Axis,
    begin: datetime,
    end: datetime | None,
    *,
    y: int,
    height: int,
    kind: str,
    text: str,
    title: str,
    name: str = "",
) -> Bar:
    left, right = axis.x(begin), axis.x(end)
    # What would not fit is cut by its own bar; a character is about a percent.
    room = max(1, int((right - left) * 0.9))
    short = text if len(text) <= room else f"{text[: max(0, room - 1)]}…"
    return Bar(
        x=_percent(left),
        width=_percent(max(0.4, right - left)),
        y=y,
        height=height,
        kind=kind,
        text=short if room > 2 else "",  # characters
        title=title,
        name=name,
    )


def _marks(begin: datetime, end: datetime) -> Iterable[datetime]:
    span = end - begin
    if span > 2 * _MONTH:
        at = begin.replace(day=1, hour=0, minute=0)
        while at <= end:
            if at >= begin:
                yield at
            at = (at + _MONTH + _DAY).replace(day=1)
        return
    unit = _DAY if span > 2 * _DAY else timedelta(hours=1)
    at = begin.replace(hour=0, minute=0)
    while at <= end:
        if at >= begin:
            yield at
        at += unit


def _label(at: datetime, span: timedelta, *, first: bool) -> str:
    if span > 2 * _MONTH:
        return f"{at:%b %Y}" if first else f"{at:%b}"
    return f"{at.day} {at:%b}" if span > 2 * _DAY else f"{at:%H:%M}"


def _minutes(at: datetime) -> int:
    return int(at.timestamp() // 60)


def _instant(minutes: int) -> datetime:
    return datetime.fromtimestamp(minutes * 60, UTC)


def _percent(share: float) -> str:
    return f"{share:.2f}%"


def mark_places(found: Lanes) -> Sequence[tuple[str, str]]:
    """Return where each assertion stands on the slider of recording, and its kind."""
    head = max(1, found.home.head_seq if found.home else 1)
    return [
        (
            _percent(100 * mark.seq / head),
            "gone" if mark.retracted else "hot" if mark.late else "",
        )
        for mark in found.marks
    ]
