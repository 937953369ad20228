"""Base class and field types of event bodies: pydantic, frozen, strict.

A body is stored unencrypted. The type of each field says what the field may hold: a
name, a closed word, an id, a `ServerMade` value, or a value that a client chose within
bounds that tell nothing of a person. A test looks through all event bodies. See
decision 43.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from memoryhub.kernel.text.padding import pad_size

#: Largest number that a client may choose; at most seven digits, or ten million.
MAX_NUMBER = 10_000_000
_MIB = 1_048_576


class ServerMade:
    """Mark of a field whose value the server made, counted or took from its clock."""


class ClientChosen:
    """Mark of a field whose value a client chose within the field's bounds."""


def check_whole_mib(number: int) -> int:
    """Check that a number is small, or of whole MiB. Raises ValueError."""
    if number > MAX_NUMBER and number % _MIB:
        raise ValueError("beyond ten million only whole MiB")
    return number


Count = Annotated[int, ServerMade()]
#: Bytes of a sealed content, padded to the step of its size.
Size = Annotated[int, AfterValidator(pad_size), ServerMade()]
Figure = Annotated[float, ServerMade()]
Flag = Annotated[bool, ServerMade()]
Instant = Annotated[datetime, ServerMade()]
#: A digest, a version, or a word of the server's vocabulary.
Token = Annotated[str, ServerMade()]
#: Places and parts of texts, in lists of mixed element types.
Parts = Annotated[list[Any], ServerMade()]

Number = Annotated[int, Field(ge=-MAX_NUMBER, le=MAX_NUMBER), ClientChosen()]
#: Number of bytes that a client chooses; above ten million in whole MiB.
Bytes = Annotated[int, AfterValidator(check_whole_mib), ClientChosen()]
#: A time to live; a year at most.
Seconds = Annotated[int, Field(ge=0, le=31_536_000), ClientChosen()]
#: A share of four decimals; an importance has two.
Share = Annotated[float, ClientChosen()]
Switch = Annotated[bool, ClientChosen()]
#: Instant in whole seconds after which a value is swept.
Until = Annotated[datetime, ClientChosen()]


class Body(BaseModel):
    # Each of 90 validators is built when its event is first read or written: few of
    # the types are in a log, and none before the first request.
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        validate_by_name=True,
        defer_build=True,
    )


class SearchSpec(NamedTuple):
    """Members of a payload that are searched, and the kind of their records."""

    kind: str
    #: Members of the payload, in order; None: all of it.
    members: tuple[str, ...] | None = None
    #: The members make one line.
    sentence: bool = False


class EventBody(Body):
    """Base of all events; an event that is `sealed` carries a payload."""

    event_type: ClassVar[str]
    sealed: ClassVar[bool] = False
    #: Sealed content may lawfully return after its erasure: somebody says the content
    #: anew each time, or the server made the content from texts that are there.
    recurs: ClassVar[bool] = False
    #: An agent sends the content over and over. Its erasure blocks no later copy, but
    #: a value that was erased elsewhere does not come back in the content.
    resent: ClassVar[bool] = False
    #: None: a search does not look at the payload.
    searched: ClassVar[SearchSpec | None] = None
    #: Payload members that make one value. Once erased, the value as a whole may not
    #: come back, however short; each member alone may.
    together: ClassVar[tuple[str, ...]] = ()

    @property
    def is_recurring(self) -> bool:
        """Whether the sealed content of this event recurs, its type aside."""
        return self.recurs
