"""Observing: which slots of a thread observations stand for in requests. Pure.

Positions are slot indexes, ranges half-open, clocks the thread's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import Any, Literal, NamedTuple

#: What is asked of a model: of messages, or of observations.
ObserverRole = Literal["observer", "reflector"]


class Observation(NamedTuple):
    """A page that stands for a range of slots; a reflection, for other observations."""

    page_id: str
    begin: int
    end: int
    #: Of its text as it stands in requests; and of the slots as they were said.
    tokens: int
    raw: int
    #: Of the event that made it, where its text lies.
    clock: int
    #: What a reflection was made of, in order.
    covers: tuple[Observation, ...] = ()

    def to_json(self) -> list[Any]:
        return [*self[:-1], [each.to_json() for each in self.covers]]

    @classmethod
    def from_json(cls, plain: list[Any]) -> Observation:
        page_id, begin, end, tokens, raw, clock, covers = plain
        inner = tuple(map(cls.from_json, covers))
        return cls(page_id, begin, end, tokens, raw, clock, inner)


class Failing(NamedTuple):
    """How often in a row one who is asked has failed, and when it is due again."""

    times: int = 0
    retry_at: datetime | None = None
    #: Of those, how often there was an answer that was of no use.
    useless: int = 0
    #: How long the log was then.
    log_tokens: int = 0

    def waits(self, now: datetime) -> bool:
        """Return whether it is not asked yet after a failure."""
        return self.retry_at is not None and now < self.retry_at

    def to_json(self) -> list[Any]:
        times, at, *rest = self
        return [times, at and at.isoformat(), *rest]

    @classmethod
    def from_json(cls, plain: list[Any]) -> Failing:
        times, at, *rest = plain
        return cls(times, at and datetime.fromisoformat(at), *rest)


class Observing(NamedTuple):
    """What is observed of a thread."""

    #: All slots before it are covered by the log, all before the watermark by chunks
    #: as well, but for gaps: what stood for those was erased.
    cursor: int = 0
    watermark: int = 0
    #: Observations that wait; and those that stand in requests, of which only the first
    #: can be a reflection.
    chunks: tuple[Observation, ...] = ()
    log: tuple[Observation, ...] = ()
    #: A reflection that waits until the log is long enough.
    ahead: Observation | None = None
    #: Reflections that came into the log.
    generation: int = 0
    #: What was begun in an earlier one is refused.
    epoch: int = 0
    paused: bool = False
    observer: Failing = Failing()
    reflector: Failing = Failing()
    #: Of the models that were given messages, sorted.
    hosts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self != Observing()

    @property
    def log_tokens(self) -> int:
        return sum(each.tokens for each in self.log)

    @property
    def covered_tokens(self) -> int:
        """Raw tokens of the slots that the log stands for."""
        return sum(each.raw for each in self.log)

    @property
    def observed_tokens(self) -> int:
        """Raw tokens of all slots that observations stand for."""
        return self.covered_tokens + sum(each.raw for each in self.chunks)

    @property
    def covered_slots(self) -> int:
        return sum(each.end - each.begin for each in self.log)

    def gaps(self) -> list[tuple[int, int]]:
        """Return the ranges before the watermark that nothing stands for any more.

        None reaches over the cursor: what fills it is of the log, or waits.
        """
        logged = _between(0, self.log, self.cursor)
        return [*logged, *_between(self.cursor, self.chunks, self.watermark)]

    def uncovered(self, slots: int) -> list[tuple[int, int]]:
        """Return the ranges of so many slots that requests show as they were said."""
        behind = [(self.cursor, slots)] if self.cursor < slots else []
        return [*_between(0, self.log, self.cursor), *behind]

    def range_from(self, begin: int, slots: int) -> int | None:
        """Return how far an observation may reach that begins there.

        None where one may not begin: only at a gap, or at the watermark, does one.
        """
        ends = dict(self.gaps())
        return ends.get(begin, slots if begin == self.watermark else None)

    def observed(self, made: Observation) -> Observing:
        """Return the same with an observation: of a gap, or of what comes next."""
        after = self._replace(
            watermark=max(self.watermark, made.end), observer=Failing()
        )
        if made.begin >= self.cursor:
            return after._replace(chunks=_in_order((*self.chunks, made)))
        kept = self.ahead
        if kept is not None and made.begin < kept.end:
            # It no longer stands for the begin of the log.
            kept = None
        return after._replace(log=_in_order((*self.log, made)), ahead=kept)

    def activated(self, to: int) -> Observing:
        """Return the same with the chunks before that slot in the log."""
        come = tuple(each for each in self.chunks if each.end <= to)
        return self._replace(
            cursor=to, chunks=self.chunks[len(come) :], log=(*self.log, *come)
        )

    def reflected(self, made: Observation) -> Observing:
        """Return the same with a reflection that waits."""
        return self._replace(ahead=made, reflector=Failing())

    def replaced(self) -> Observing:
        """Return the same with the reflection that waits in the log."""
        made = self.ahead
        assert made is not None
        left = self.log[len(made.covers) :]
        return self._replace(
            log=(made, *left), ahead=None, generation=self.generation + 1
        )

    def given_to(self, host: str | None) -> Observing:
        """Return the same with a model's host that was given messages."""
        if host is None or host in self.hosts:
            return self
        return self._replace(hosts=tuple(sorted((*self.hosts, host))))

    def failed(self, role: ObserverRole, failing: Failing) -> Observing:
        if role == "observer":
            return self._replace(observer=failing)
        return self._replace(reflector=failing)

    def without(self, gone: Callable[[int], bool]) -> Observing:
        """Return what is left once records are erased; what was begun is void.

        What stood for erased slots leaves a gap, an erased reflection what it covered.
        """
        ahead = self.ahead
        if ahead is not None and any(gone(each.clock) for each in _all((ahead,))):
            ahead = None
        return self._replace(
            chunks=tuple(_left(self.chunks, gone)),
            log=tuple(_left(self.log, gone)),
            ahead=ahead,
            epoch=self.epoch + 1,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the canonical form: plain JSON values."""
        plain = self._asdict()
        for name in ("chunks", "log"):
            plain[name] = [each.to_json() for each in plain[name]]
        plain["ahead"] = self.ahead and self.ahead.to_json()
        plain["hosts"] = [*self.hosts]
        for name in ("observer", "reflector"):
            plain[name] = plain[name].to_json()
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Observing:
        """Return the state whose `to_json` this is."""
        fields = dict(plain)
        for name in ("chunks", "log"):
            fields[name] = tuple(map(Observation.from_json, plain[name]))
        fields["hosts"] = tuple(plain["hosts"])
        fields["ahead"] = plain["ahead"] and Observation.from_json(plain["ahead"])
        for name in ("observer", "reflector"):
            fields[name] = Failing.from_json(plain[name])
        return cls(**fields)


def _between(
    at: int, found: Iterable[Observation], end: int
) -> Iterator[tuple[int, int]]:
    """The ranges from `at` to `end` that these, in their order, leave."""
    for each in found:
        if at < each.begin:
            yield at, each.begin
        at = each.end
    if at < end:
        yield at, end


def _in_order(found: Iterable[Observation]) -> tuple[Observation, ...]:
    return tuple(sorted(found, key=lambda each: each.begin))


def _all(found: Iterable[Observation]) -> Iterable[Observation]:
    """These and all that they stand for."""
    return chain.from_iterable((each, *_all(each.covers)) for each in found)


def _left(
    found: Iterable[Observation], gone: Callable[[int], bool]
) -> Iterable[Observation]:
    for each in found:
        if not gone(each.clock):
            yield each
        else:
            yield from _left(each.covers, gone)
