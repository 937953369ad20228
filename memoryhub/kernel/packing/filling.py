"""Filling: what is cut or left out of a request is what has no room in it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from memoryhub.kernel.packing import choosing
from memoryhub.kernel.packing.choosing import Candidate, Choice, Taken, Unit


class Sized(Protocol):
    """A request that was counted."""

    @property
    def tokens(self) -> int: ...


Made = TypeVar("Made", bound=Sized)


class Attempt(NamedTuple, Generic[Made]):
    """All that may stand in a request, what does by its cost, and how it is made."""

    units: Sequence[Unit]
    taken: Taken
    make: Callable[[Taken], Made]
    #: What a whole unit really takes.
    count: Callable[[Unit], int]
    #: A unit cut to so many tokens; None of one that is to stay as it is.
    grow: Callable[[Unit, int], Unit | None]


def filled(tried: Attempt[Made], made: Made, limit: int) -> Made:
    """Add what was left out only because costs were estimated at their highest."""
    units, taken, over = tried.units, dict(tried.taken), set[int]()
    while places := choosing.more(
        units, taken, room=limit - made.tokens, count=tried.count, without=over
    ):
        found = {**taken, **{place: units[place] for place in places}}
        again = tried.make(found)
        if again.tokens <= limit:
            taken, made = found, again
            continue
        # One of them takes more than it was said to: only bytes tell which.
        for place in places:
            made = _tried(tried, taken, made, place, limit)
            if taken.get(place) is not units[place]:
                over.add(place)
    # What stands beside a page may take less or more with it.
    cut = [n for n in taken if taken[n] is not units[n] and n not in over]
    for place in cut:
        made = _tried(tried, taken, made, place, limit)
    for place in [n for n in taken if taken[n] is not units[n]]:
        made = _grown(tried, taken, made, place, limit)
    return made


def _grown(
    tried: Attempt[Made], taken: dict[int, Unit], made: Made, place: int, limit: int
) -> Made:
    """Give what is left of the room to texts of which the middle is left out."""
    unit = taken[place]
    if not any(each.kept for each in unit.choices):
        return made
    more = tried.grow(tried.units[place], unit.cost + limit - made.tokens)
    if more is None or not more.cost:
        return made
    again = tried.make({**taken, place: more})
    if not made.tokens < again.tokens <= limit:
        return made
    taken[place] = more
    return again


def _tried(
    tried: Attempt[Made], taken: dict[int, Unit], made: Made, place: int, limit: int
) -> Made:
    """Make the request with that unit whole, and take it if it fits."""
    again = tried.make({**taken, place: tried.units[place]})
    if again.tokens > limit:
        return made
    taken[place] = tried.units[place]
    return again


def opened(
    units: Sequence[Unit],
    taken: Mapping[int, Unit],
    first: tuple[Choice, int] | None,
    forms: Sequence[Candidate],
) -> tuple[Sequence[Unit], Taken]:
    """Return the units with the newest message last, as it is and as it would be."""
    if first is None:
        return units, taken
    whole = Unit((Choice(forms[0], "exchange"),), forms[0].cost)
    shown = Unit((first[0],), first[1])
    return [*units, whole], {**taken, len(units): whole if shown == whole else shown}
