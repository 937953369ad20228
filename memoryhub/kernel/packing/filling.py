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


def filled(tried: Attempt[Made], made: Made, limit: int) -> Made:
    """With what was cut or left out only because costs are the most a page can take."""
    units, taken = tried.units, dict(tried.taken)
    while places := choosing.more(
        units, taken, room=limit - made.tokens, count=tried.count
    ):
        found = {**taken, **{place: units[place] for place in places}}
        again = tried.make(found)
        if again.tokens > limit:
            break
        taken, made = found, again
    # What stands beside a page may take less or more with it: only bytes tell.
    cut = [n for n in taken if taken[n] is not units[n] and n not in places]
    for place in (*cut, *places):
        again = tried.make({**taken, place: units[place]})
        if again.tokens <= limit:
            taken[place], made = units[place], again
    return made


def opened(
    units: Sequence[Unit],
    taken: Mapping[int, Unit],
    first: tuple[Choice, int] | None,
    forms: Sequence[Candidate],
) -> tuple[Sequence[Unit], Taken]:
    """With the newest message as the last of all units, as it is and as it would be."""
    if first is None:
        return units, taken
    whole = Unit((Choice(forms[0], "exchange"),), forms[0].cost)
    shown = Unit((first[0],), first[1])
    return [*units, whole], {**taken, len(units): whole if shown == whole else shown}
