"""Filling: use the room left by estimates, so only what cannot fit is cut. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from memoryhub.kernel.packing import choosing
from memoryhub.kernel.packing.choosing import Candidate, Pick, Taken, Unit


class Sized(Protocol):
    """A request with counted tokens."""

    @property
    def tokens(self) -> int: ...


RequestT = TypeVar("RequestT", bound=Sized)


class Attempt(NamedTuple, Generic[RequestT]):
    """All units that may stand in a request, the chosen units, and how to build it."""

    units: Sequence[Unit]
    taken: Taken
    make: Callable[[Taken], RequestT]
    #: Counts the true cost of a whole unit.
    count: Callable[[Unit], int]
    #: Cuts a unit to that many tokens; None if the unit must stay as it is.
    grow: Callable[[Unit, int], Unit | None]


def fill_request(tried: Attempt[RequestT], made: RequestT, limit: int) -> RequestT:
    """Add units that were left out only because costs were estimated too high."""
    units, taken, over = tried.units, dict(tried.taken), set[int]()
    while places := choosing.list_fitting_units(
        units, taken, room=limit - made.tokens, count=tried.count, without=over
    ):
        found = {**taken, **{place: units[place] for place in places}}
        again = tried.make(found)
        if again.tokens <= limit:
            taken, made = found, again
            continue
        # One of these units costs more than counted: only the bytes tell which.
        for place in places:
            made = _try_whole_unit(tried, taken, made, place, limit)
            if taken.get(place) is not units[place]:
                over.add(place)
    # The text beside a page may cost less or more once that page is whole.
    cut = [n for n in taken if taken[n] is not units[n] and n not in over]
    for place in cut:
        made = _try_whole_unit(tried, taken, made, place, limit)
    for place in [n for n in taken if taken[n] is not units[n]]:
        made = _grow_unit(tried, taken, made, place, limit)
    return made


def _grow_unit(
    tried: Attempt[RequestT],
    taken: dict[int, Unit],
    made: RequestT,
    place: int,
    limit: int,
) -> RequestT:
    """Give the rest of the room to a unit whose texts have their middle left out."""
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


def _try_whole_unit(
    tried: Attempt[RequestT],
    taken: dict[int, Unit],
    made: RequestT,
    place: int,
    limit: int,
) -> RequestT:
    """Build the request with that unit whole, and keep the result if it fits."""
    again = tried.make({**taken, place: tried.units[place]})
    if again.tokens > limit:
        return made
    taken[place] = tried.units[place]
    return again


def append_newest(
    units: Sequence[Unit],
    taken: Mapping[int, Unit],
    first: tuple[Pick, int] | None,
    forms: Sequence[Candidate],
) -> tuple[Sequence[Unit], Taken]:
    """Return all units and the chosen units, each with the newest message last."""
    if first is None:
        return units, taken
    whole = Unit((Pick(forms[0], "exchange"),), forms[0].cost)
    shown = Unit((first[0],), first[1])
    return [*units, whole], {**taken, len(units): whole if shown == whole else shown}
