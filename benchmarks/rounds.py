"""Rounds: a thing and its references measured in turns, their medians compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

ROUNDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Measurement of one turn: so many requests in so many seconds."""

    requests: int
    seconds: float
    #: Of the process that served them; None where the system does not tell.
    cpu_seconds: float | None = None
    #: Seconds of every request, where they were noted.
    times: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """Turns of one measured thing."""

    samples: tuple[Sample, ...]

    @property
    def rate(self) -> float:
        """Requests per second, the median of the turns."""
        return median(each.requests / each.seconds for each in self.samples)

    @property
    def cpu_us(self) -> float | None:
        """CPU microseconds per request, the median of the turns."""
        known = [
            each.cpu_seconds / each.requests
            for each in self.samples
            if each.cpu_seconds is not None
        ]
        return median(known) * 1e6 if known else None

    def percentile(self, share: int) -> float:
        """Return the seconds that so many in a hundred of all requests took at most."""
        taken = sorted(time for each in self.samples for time in each.times)
        return taken[len(taken) * share // 100]

    def described(self) -> str:
        cpu = "" if self.cpu_us is None else f" at {self.cpu_us:,.0f} µs CPU"
        return f"{self.rate:,.0f}/s{cpu}"


def take_turns(
    things: Mapping[str, Callable[[], Sample]], *, rounds: int = ROUNDS
) -> dict[str, Series]:
    """Measure each thing once a round, after one round that does not count.

    Every other round goes backwards, so that a drift of the machine favours nobody.
    """
    taken: dict[str, list[Sample]] = {name: [] for name in things}
    for thing in things.values():
        thing()
    for number in range(rounds):
        names = list(things) if number % 2 == 0 else [*things][::-1]
        for name in names:
            taken[name].append(things[name]())
    return {name: Series(tuple(samples)) for name, samples in taken.items()}


def ratio(thing: Series, reference: Series) -> float:
    """Return the median of the rounds' own ratios: each compares neighbours in time."""
    pairs = zip(thing.samples, reference.samples, strict=True)
    return median(
        (ours.requests / ours.seconds) / (theirs.requests / theirs.seconds)
        for ours, theirs in pairs
    )
