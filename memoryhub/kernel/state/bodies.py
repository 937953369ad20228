"""What all event bodies are made of: pydantic, frozen, strict.

A body stands in the clear. Each of its fields says by its type what may stand there: a
name, a closed word, an id, what is `Ours`, or what a client chose within bounds that
tell nothing of a person. A test looks through all of them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from memoryhub.kernel.text.padding import padded

#: Numbers that a client chooses have seven digits, or are ten million.
MOST = 10_000_000
_MIB = 1_048_576


class Ours:
    """Marks what we made, counted or took from our clock."""


class Chosen:
    """Marks what a client chose, within its bounds."""


def whole_mib(number: int) -> int:
    """Check that a number is small, or of whole MiB. Raises ValueError."""
    if number > MOST and number % _MIB:
        raise ValueError("beyond ten million only whole MiB")
    return number


Count = Annotated[int, Ours()]
#: Bytes of what is sealed: as many as its step has, whoever forgot to round.
Size = Annotated[int, AfterValidator(padded), Ours()]
Figure = Annotated[float, Ours()]
Flag = Annotated[bool, Ours()]
Instant = Annotated[datetime, Ours()]
#: A digest, a version, a word of ours.
Token = Annotated[str, Ours()]
#: Places and parts of them, in lists that differ in kind.
Parts = Annotated[list[Any], Ours()]

Number = Annotated[int, Field(ge=-MOST, le=MOST), Chosen()]
#: Above ten million in whole MiB.
Bytes = Annotated[int, AfterValidator(whole_mib), Chosen()]
#: A time to live; a year at most.
Seconds = Annotated[int, Field(ge=0, le=31_536_000), Chosen()]
#: A share of four decimals; an importance has two.
Share = Annotated[float, Chosen()]
Switch = Annotated[bool, Chosen()]
#: A whole second, by which values are swept.
Until = Annotated[datetime, Chosen()]


class Body(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, validate_by_name=True
    )


class Searched(NamedTuple):
    """What of an event's payload is searched, and as records of which kind."""

    kind: str
    #: Members of the payload, in order; None: all of it.
    members: tuple[str, ...] | None = None
    #: They make one line.
    sentence: bool = False


class Event(Body):
    """Base of all events; `sealed` ones carry a payload."""

    event_type: ClassVar[str]
    sealed: ClassVar[bool] = False
    #: What is sealed comes again lawfully, though it was erased before: it is said anew
    #: each time, or we made it of what is there.
    recurs: ClassVar[bool] = False
    #: An agent sends it over and over, whatever was erased: erasing it keeps nothing
    #: out, but what was erased elsewhere does not come back in it.
    resent: ClassVar[bool] = False
    #: None: nobody finds it by its words.
    searched: ClassVar[Searched | None] = None
    #: Members of what is sealed that make one value, which stays out once it is erased,
    #: however short; each alone may come again.
    together: ClassVar[tuple[str, ...]] = ()

    @property
    def recurring(self) -> bool:
        """Whether what this one has sealed recurs, whatever others of its type do."""
        return self.recurs
