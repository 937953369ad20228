"""Drawing of fact lanes on a time axis, in percent of its width. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from memoryhub.queries.knowledge.facts import AssertionLine, FactLine
from memoryhub.queries.knowledge.lanes import Lane, Lanes

#: Rows of a lane, for values that hold at once.
ROWS = 8
#: Heights in pixels: a row of facts, a line of past values, and their bars.
_ROW, _LINE, _BAR, _THIN = 36, 30, 28, 20
_MINUTE = timedelta(minutes=1)
#: Step sizes of the slider, in minutes; the smallest that needs at most STEPS is used.
_STEPS = (1, 5, 15, 60, 360, 1_440, 10_080)
STEPS = 800
_MONTH, _DAY = timedelta(days=31), timedelta(days=1)
#: Units of ticks; the largest that an axis has more than twice is used.
_UNITS = (_DAY, timedelta(hours=1), 10 * _MINUTE, 5 * _MINUTE)
#: The axis of facts of this minute.
_LEAST_SPAN = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTick:
    x: str
    label: str


@dataclass(frozen=True, slots=True)
class LaneAxis:
    """Time axis of the lanes; begin, end and step are minutes since 1970."""

    begin: int
    end: int
    step: int
    #: Whether facts began before the axis.
    cut: bool = False
    #: Whether facts end after the axis.
    cut_end: bool = False

    @property
    def begins_at(self) -> datetime:
        return _from_minutes(self.begin)

    @property
    def ends_at(self) -> datetime:
        return _from_minutes(self.end)

    @property
    def days(self) -> bool:
        """Whether instants are whole days, shown without a time."""
        return self.step >= 1_440  # minutes of a day

    def to_percent(self, at: datetime | None) -> float:
        """Convert an instant to a percentage of the axis; None is the end."""
        if at is None:
            return 100.0
        share = (_to_minutes(at) - self.begin) / max(1, self.end - self.begin)
        return 100 * min(1.0, max(0.0, share))

    def to_instant(self, minutes: int) -> datetime:
        return _from_minutes(min(self.end, max(self.begin, minutes)))

    def iter_ticks(self) -> Iterator[LaneTick]:
        """Yield at most six ticks, at round instants: from months to minutes."""
        begin, end = _from_minutes(self.begin), _from_minutes(self.end)
        marks = [*_iter_tick_times(begin, end)]
        every = (len(marks) - 1) // 6 + 1
        last = None
        for at in marks[::every]:
            label = _render_label(
                at, end - begin, first=last is None or at.year != last.year
            )
            # A label at the end would run over the edge, and a rule alone says nothing.
            if (share := self.to_percent(at)) <= 100 - 12:
                yield LaneTick(x=_render_percent(share), label=label)
            last = at


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneBar:
    """Rectangle in a lane, with its text."""

    x: str
    width: str
    y: int
    height: int
    kind: str
    text: str
    title: str
    #: Name of a fact in the address.
    name: str
    #: Event of the home thread as of which the fact held, if it holds no longer.
    known_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLane:
    lane: Lane
    height: int
    bars: tuple[LaneBar, ...]
    #: Number of values that are not drawn.
    left_out: int
    current: bool


def build_axis(
    found: Lanes, *, now: datetime, chosen: int | None = None, whole: bool = False
) -> LaneAxis:
    """Build an axis for all facts and assertions, with some room at the end.

    Unless the axis is `whole`, a few facts that began long before the others are cut at
    its begin, and what lies further ahead than half of what was is cut at its end. The
    axis covers the minute that is chosen.
    """
    lines: list[FactLine | AssertionLine] = []
    for lane in found.lanes:
        lines += [*lane.facts, *lane.retracted]
    begins = sorted([each.valid_from for each in lines] or [now - _DAY])
    ends = [each.valid_until for each in lines if each.valid_until]
    ahead = max([*begins, *ends, now])
    first = begins[0] if whole else _choose_begin(begins, ahead)
    first = min(first, now)
    last = ahead if whole else min(ahead, max(now + (now - first) / 2, begins[-1]))
    if chosen is not None:
        first = min(first, _from_minutes(chosen))
        last = max(last, _from_minutes(chosen))
    span = max(last - first, _LEAST_SPAN)
    minutes = int(span / _MINUTE * 1.15)
    step = next((n for n in _STEPS if minutes / n <= STEPS), minutes // STEPS + 1)
    begin = _to_minutes(first) // step * step
    cut = _from_minutes(begin) > begins[0]
    end = begin + (minutes // step + 1) * step
    return LaneAxis(begin, end, step, cut, ahead > _from_minutes(end))


def _choose_begin(begins: Sequence[datetime], last: datetime) -> datetime:
    """Choose a begin: without up to a fifth of the facts, if that halves the axis."""
    later = begins[len(begins) // 5]
    return later if last - later < (last - begins[0]) / 2 else begins[0]


def draw_lanes(
    found: Lanes, axis: LaneAxis, *, at: datetime, chosen: str = ""
) -> list[DrawnLane]:
    """Draw each lane; `chosen` names the open fact."""
    return [_draw_lane(lane, axis, at, chosen) for lane in found.lanes]


def _draw_lane(lane: Lane, axis: LaneAxis, at: datetime, chosen: str) -> DrawnLane:
    rows = _assign_rows(lane)
    bars = [
        _draw_fact(lane, number, line, axis, at=at, y=8 + _ROW * rows[line.value])
        for number, line in enumerate(lane.facts)
        if rows[line.value] < ROWS
    ]
    height = 16 + _ROW * max(1, min(ROWS, len({*rows.values()})))
    for line in lane.believed:
        title = f"{line.value}, as believed earlier"
        bar = _draw_bar(
            axis, line, y=height, kind="was", title=title, name=f"{line.id}"
        )
        bars.append(replace(bar, known_at=max(lane.late) - 1))
    height += _LINE if lane.believed else 0
    for gone in lane.retracted:
        why = "retracted (was wrong)" if gone.wrong else "retracted"
        title = f"{gone.value}, {why}"
        bar = _draw_bar(
            axis, gone, y=height, kind="wrong", title=title, name=f"{gone.seq}"
        )
        bars.append(replace(bar, known_at=(gone.retracted_seq or 1) - 1))
        height += _LINE
    return DrawnLane(
        lane=lane,
        height=height,
        bars=tuple(bars),
        left_out=max(0, len({*rows.values()}) - ROWS),
        current=any(bar.name == chosen for bar in bars),
    )


def _assign_rows(lane: Lane) -> dict[str, int]:
    """Assign each value a row of the lane; a single-valued lane has one row."""
    values = dict.fromkeys(fact.value for fact in lane.facts)
    if lane.cardinality == "single":
        return dict.fromkeys(values, 0)
    return {value: row for row, value in enumerate(values)}


def _draw_fact(
    lane: Lane, number: int, line: FactLine, axis: LaneAxis, *, at: datetime, y: int
) -> LaneBar:
    kind = "fact now" if line.is_valid_at(at) else "fact"
    if line.id in lane.late:
        kind += " late"
    more = f", stated {line.confirmations} times" if line.confirmations > 1 else ""
    title, name = line.value + more, f"{line.id}-{lane.first + number}"
    return _draw_bar(axis, line, y=y, kind=kind, title=title, name=name)


def _draw_bar(
    axis: LaneAxis,
    line: FactLine | AssertionLine,
    *,
    y: int,
    kind: str,
    title: str,
    name: str,
) -> LaneBar:
    """Draw a bar: high for a fact, thin for a past value."""
    left, right = axis.to_percent(line.valid_from), axis.to_percent(line.valid_until)
    return LaneBar(
        x=_render_percent(left),
        width=_render_percent(max(0.4, right - left)),
        y=y,
        height=_THIN if kind in ("was", "wrong") else _BAR,
        kind=kind,
        text=line.value,
        title=title,
        name=name,
    )


def _iter_tick_times(begin: datetime, end: datetime) -> Iterable[datetime]:
    span = end - begin
    if span > 2 * _MONTH:
        at = begin.replace(day=1, hour=0, minute=0)
        while at <= end:
            if at >= begin:
                yield at
            at = (at + _MONTH + _DAY).replace(day=1)
        return
    unit = next(unit for unit in _UNITS if span > 2 * unit or unit == _UNITS[-1])
    at = begin.replace(hour=0, minute=0)
    while at <= end:
        if at >= begin:
            yield at
        at += unit


def _render_label(at: datetime, span: timedelta, *, first: bool) -> str:
    if span > 2 * _MONTH:
        return f"{at:%b %Y}" if first else f"{at:%b}"
    return f"{at.day} {at:%b}" if span > 2 * _DAY else f"{at:%H:%M}"


def _to_minutes(at: datetime) -> int:
    return int(at.timestamp() // 60)


def _from_minutes(minutes: int) -> datetime:
    return datetime.fromtimestamp(minutes * 60, UTC)


def _render_percent(share: float) -> str:
    return f"{share:.2f}%"


def list_slider_marks(found: Lanes) -> Sequence[tuple[str, str]]:
    """List each assertion's place on the slider of recorded time, with its kind."""
    head = max(1, found.home.head_seq if found.home else 1)
    return [
        (
            _render_percent(100 * mark.seq / head),
            "gone" if mark.retracted else "hot" if mark.late else "",
        )
        for mark in found.marks
    ]
