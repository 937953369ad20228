"""Observing: the slots that observations replace in requests. Pure.

Positions are slot indexes, ranges half-open, clocks the thread's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import Any, Literal, NamedTuple

#: Task of the model: observe messages, or reflect on observations.
ObserverRole = Literal["observer", "reflector"]


class Observation(NamedTuple):
    """A page that replaces a range of slots; a reflection replaces observations."""

    page_id: str
    begin: int
    end: int
    #: Tokens of the text as requests show it, and of the original slots.
    tokens: int
    raw: int
    #: Clock of the event that made the observation and holds its text.
    clock: int
    #: Observations that a reflection was made of, in order.
    covers: tuple[Observation, ...] = ()

    def to_json(self) -> list[Any]:
        return [*self[:-1], [each.to_json() for each in self.covers]]

    @classmethod
    def from_json(cls, plain: list[Any]) -> Observation:
        page_id, begin, end, tokens, raw, clock, covers = plain
        inner = tuple(map(cls.from_json, covers))
        return cls(page_id, begin, end, tokens, raw, clock, inner)


class FailureStreak(NamedTuple):
    """Consecutive failures of the observer or reflector, and when to retry."""

    times: int = 0
    retry_at: datetime | None = None
    #: Failures in which the model answered, but uselessly.
    useless: int = 0
    #: Tokens of the log at the last failure.
    log_tokens: int = 0

    def is_waiting(self, now: datetime) -> bool:
        """Return whether the next attempt after a failure is not due yet."""
        return self.retry_at is not None and now < self.retry_at

    def to_json(self) -> list[Any]:
        times, at, *rest = self
        return [times, at and at.isoformat(), *rest]

    @classmethod
    def from_json(cls, plain: list[Any]) -> FailureStreak:
        times, at, *rest = plain
        return cls(times, at and datetime.fromisoformat(at), *rest)


class OwnInstructions(NamedTuple):
    """A thread's own instructions to a role: where their text is, and its digest."""

    role: ObserverRole
    #: Clock of the event that holds the text.
    clock: int
    #: Keyed digest of the text.
    digest: str


class Observing(NamedTuple):
    """Observations of a thread, and the progress of its observer and reflector."""

    #: The log covers all slots before the cursor, and chunks cover those up to the
    #: watermark, except for gaps, whose observations were erased.
    cursor: int = 0
    watermark: int = 0
    #: Observations that wait (`chunks`), and those shown in requests (`log`). Only the
    #: first of the log can be a reflection.
    chunks: tuple[Observation, ...] = ()
    log: tuple[Observation, ...] = ()
    #: A reflection that waits until the log is long enough.
    ahead: Observation | None = None
    #: Number of reflections that entered the log.
    generation: int = 0
    #: Work that was begun in an earlier epoch is refused.
    epoch: int = 0
    paused: bool = False
    observer: FailureStreak = FailureStreak()
    reflector: FailureStreak = FailureStreak()
    #: Sorted hosts of the models that received messages.
    hosts: tuple[str, ...] = ()
    #: The thread's own instructions, which replace those of the project, by role.
    instructions: tuple[OwnInstructions, ...] = ()

    def __bool__(self) -> bool:
        return self != Observing()

    @property
    def log_tokens(self) -> int:
        return sum(each.tokens for each in self.log)

    @property
    def covered_tokens(self) -> int:
        """Raw tokens of the slots that the log covers."""
        return sum(each.raw for each in self.log)

    @property
    def observed_tokens(self) -> int:
        """Raw tokens of all slots that observations cover."""
        return self.covered_tokens + sum(each.raw for each in self.chunks)

    @property
    def covered_slots(self) -> int:
        return sum(each.end - each.begin for each in self.log)

    def list_gaps(self) -> list[tuple[int, int]]:
        """List the ranges of slots before the watermark that no observation covers.

        No gap spans the cursor, so a new observation goes either to log or to chunks.
        """
        logged = _iter_gaps(0, self.log, self.cursor)
        return [*logged, *_iter_gaps(self.cursor, self.chunks, self.watermark)]

    def list_uncovered(self, slots: int) -> list[tuple[int, int]]:
        """List the ranges, of the first `slots` slots, that requests show verbatim."""
        behind = [(self.cursor, slots)] if self.cursor < slots else []
        return [*_iter_gaps(0, self.log, self.cursor), *behind]

    def find_range_end(self, begin: int, slots: int) -> int | None:
        """Find the greatest end of an observation that begins at slot `begin`.

        None unless `begin` is the start of a gap or the watermark.
        """
        ends = dict(self.list_gaps())
        return ends.get(begin, slots if begin == self.watermark else None)

    def add_observation(self, made: Observation) -> Observing:
        """Return a copy with an observation, of a gap or of the slots that follow."""
        after = self._replace(
            watermark=max(self.watermark, made.end), observer=FailureStreak()
        )
        if made.begin >= self.cursor:
            return after._replace(chunks=_sort_observations((*self.chunks, made)))
        kept = self.ahead
        if kept is not None and made.begin < kept.end:
            # The waiting reflection no longer covers the beginning of the log.
            kept = None
        return after._replace(log=_sort_observations((*self.log, made)), ahead=kept)

    def activate_until(self, to: int) -> Observing:
        """Return a copy with the chunks that end by slot `to` moved to the log."""
        come = tuple(each for each in self.chunks if each.end <= to)
        return self._replace(
            cursor=to, chunks=self.chunks[len(come) :], log=(*self.log, *come)
        )

    def add_reflection(self, made: Observation) -> Observing:
        """Return a copy with a reflection that waits."""
        return self._replace(ahead=made, reflector=FailureStreak())

    def replace_reflected(self) -> Observing:
        """Return a copy whose waiting reflection has replaced its part of the log."""
        made = self.ahead
        assert made is not None
        left = self.log[len(made.covers) :]
        return self._replace(
            log=(made, *left), ahead=None, generation=self.generation + 1
        )

    def add_host(self, host: str | None) -> Observing:
        """Return a copy that lists the host of a model that received messages."""
        if host is None or host in self.hosts:
            return self
        return self._replace(hosts=tuple(sorted((*self.hosts, host))))

    def find_instructions(self, role: ObserverRole) -> OwnInstructions | None:
        """Find the thread's own instructions; None where the project's hold."""
        return next((each for each in self.instructions if each.role == role), None)

    def set_instructions(
        self, role: ObserverRole, own: OwnInstructions | None
    ) -> Observing:
        """Return a copy with these instructions to a role; None for the project's."""
        found = [each for each in self.instructions if each.role != role]
        found += [] if own is None else [own]
        return self._replace(instructions=tuple(sorted(found)))

    def set_failing(self, role: ObserverRole, failing: FailureStreak) -> Observing:
        """Return a copy with the failures of the observer or the reflector."""
        if role == "observer":
            return self._replace(observer=failing)
        return self._replace(reflector=failing)

    def remove_erased(self, gone: Callable[[int], bool]) -> Observing:
        """Return a copy without erased observations; work under way becomes void.

        An erased observation leaves a gap, an erased reflection the observations that
        the reflection covered. Erased instructions yield to those of the project.
        """
        ahead = self.ahead
        if ahead is not None and any(gone(each.clock) for each in _iter_all((ahead,))):
            ahead = None
        return self._replace(
            chunks=tuple(_iter_remaining(self.chunks, gone)),
            log=tuple(_iter_remaining(self.log, gone)),
            ahead=ahead,
            epoch=self.epoch + 1,
            instructions=tuple(
                each for each in self.instructions if not gone(each.clock)
            ),
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
        # Same bytes as before threads had instructions.
        del plain["instructions"]
        if self.instructions:
            plain["instructions"] = [[*each] for each in self.instructions]
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Observing:
        """Build the state from the result of `to_json`."""
        fields = dict(plain)
        for name in ("chunks", "log"):
            fields[name] = tuple(map(Observation.from_json, plain[name]))
        fields["hosts"] = tuple(plain["hosts"])
        fields["ahead"] = plain["ahead"] and Observation.from_json(plain["ahead"])
        for name in ("observer", "reflector"):
            fields[name] = FailureStreak.from_json(plain[name])
        fields["instructions"] = tuple(
            OwnInstructions(*each) for each in plain.get("instructions", ())
        )
        return cls(**fields)


def _iter_gaps(
    at: int, found: Iterable[Observation], end: int
) -> Iterator[tuple[int, int]]:
    """Yield the ranges from `at` to `end` that sorted observations leave uncovered."""
    for each in found:
        if at < each.begin:
            yield at, each.begin
        at = each.end
    if at < end:
        yield at, end


def _sort_observations(found: Iterable[Observation]) -> tuple[Observation, ...]:
    return tuple(sorted(found, key=lambda each: each.begin))


def _iter_all(found: Iterable[Observation]) -> Iterable[Observation]:
    """Yield observations and, recursively, the observations that they cover."""
    return chain.from_iterable((each, *_iter_all(each.covers)) for each in found)


def _iter_remaining(
    found: Iterable[Observation], gone: Callable[[int], bool]
) -> Iterable[Observation]:
    for each in found:
        if not gone(each.clock):
            yield each
        else:
            yield from _iter_remaining(each.covers, gone)
