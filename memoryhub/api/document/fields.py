"""Fields of bodies and queries: each refuses with the code the reference names."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from math import isfinite
from typing import Annotated, Any, Final, Self
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)

from memoryhub.errors import InvalidError, NotFoundError
from memoryhub.kernel.messages import media, reading
from memoryhub.kernel.parts import Capacity
from memoryhub.kernel.state.bodies import whole_mib
from memoryhub.kernel.state.events import LabelValue
from memoryhub.kernel.state.pages import REFERENCE, is_reserved_id
from memoryhub.kernel.state.state import MAX_LABELS
from memoryhub.kernel.text import names, strict_json, times, user_ids
from memoryhub.kernel.text.strict_json import MAX_INTEGER

MAX_LIMIT: Final = 200
MAX_TEXT_BYTES: Final = 16 * 1024
MAX_HINT_BYTES: Final = 1024
MAX_TTL_SECONDS: Final = 31_536_000

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_ID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


#: Changes that one request makes.
MAX_BATCH = 200


def example(value: dict[str, Any]) -> ConfigDict:
    """Return a schema's example, as its configuration."""
    return ConfigDict(json_schema_extra={"examples": [value]})


class In(BaseModel):
    """What is sent: strict, and nothing beside what is named here."""

    # Pydantic builds a schema when a request first needs the schema, not at the start.
    model_config = ConfigDict(
        extra="forbid", strict=True, validate_by_name=False, defer_build=True
    )


class Out(BaseModel):
    """What is answered; made from values that are right already.

    Records of queries become it by the names of their attributes, inside of it as well;
    a field whose attribute has another name says so by `validation_alias`.
    """

    model_config = ConfigDict(
        validate_by_name=True,
        validate_by_alias=True,
        from_attributes=True,
        defer_build=True,
    )

    @classmethod
    def from_record(cls, record: object, /, **others: Any) -> Self:
        """Read the record's attributes by the names of the fields, but for `others`."""
        same = cls.model_fields.keys() - others.keys()
        return cls(**{name: getattr(record, name) for name in same}, **others)


class RefusedError(ValueError):
    """A value that a field does not take; `code` says why, nothing shows the value.

    `allowed` says what it takes, where its schema does not; `loc` which of its fields
    is meant, where a whole is refused.
    """

    def __init__(
        self, code: str, *, allowed: str = "", loc: tuple[str | int, ...] = ()
    ) -> None:
        self.code = code
        self.allowed = allowed
        self.loc = loc
        super().__init__(code)


def _name(text: str) -> str:
    if not names.valid(text):
        raise RefusedError("name")
    return text


def thread_name(text: str) -> str:
    """Check a thread's name, which must not be one that we keep for ourselves."""
    # Home threads are read like any other; the journal lets nobody make one.
    if names.reserved(text) and not text.startswith(names.HOME):
        raise RefusedError("reserved_name")
    return _name(text)


def _type(text: str) -> str:
    if names.valid(text.replace(".", "")) and not names.qualified(text):
        raise RefusedError("type_not_qualified")
    if text.strip(".") != text:
        raise RefusedError("type_not_qualified")
    return _name(text)


def time(value: object) -> datetime:
    """Parse a moment by RFC 3339, as UTC."""
    try:
        return times.read(value)
    except InvalidError as refusal:
        raise RefusedError(refusal.invalid_code) from None


def _label(value: object) -> LabelValue:
    if isinstance(value, str):
        return _name(value)
    if not isinstance(value, bool | int | float):
        raise RefusedError("type")
    if not isfinite(value):
        raise RefusedError("value")
    return value


def _labels(labels: dict[str, LabelValue]) -> dict[str, LabelValue]:
    if len(labels) > MAX_LABELS:
        raise RefusedError("value")
    return labels


def whole(code: str, *, low: int = 0, high: int = MAX_INTEGER) -> Callable[[Any], int]:
    """Return a reader of integers in a query; anything else is refused with `code`."""

    def read(value: object) -> int:
        if not isinstance(value, str) or not _WHOLE.fullmatch(value):
            raise RefusedError(code)
        if not low <= (number := int(value)) <= high:
            raise RefusedError(code)
        return number

    return read


def within(low: int, high: int, *, code: str = "value") -> AfterValidator:
    """Return the type of an integer of a body within a range."""

    def check(number: int) -> int:
        if not low <= number <= high:
            raise RefusedError(code)
        return number

    return AfterValidator(check)


def _at_most(size: int) -> AfterValidator:
    """A text of at most so many bytes of UTF-8."""

    def check(text: str) -> str:
        if len(text.encode()) > size:
            raise RefusedError("value")
        return text

    return AfterValidator(check)


def counted(low: int, high: int) -> WithJsonSchema:
    """Return the description of an integer within a range."""
    return WithJsonSchema({"type": "integer", "minimum": low, "maximum": high})


def bounded(limit: Capacity) -> Any:
    """The type of a setting that bounds a noun; absent, its default holds."""
    low, high = limit.least, limit.most
    number = Annotated[int, within(low, high), counted(low, high)]
    return Annotated[number | None, Field(default=None)]


def _own_page_id(text: str) -> str:
    """The id of a page that its agent makes: none that is made by other routes."""
    if is_reserved_id(text):
        raise RefusedError("reserved_id")
    return _name(text)


def _whole_mib(number: int) -> int:
    try:
        return whole_mib(number)
    except ValueError:
        raise RefusedError("value") from None


def fitting(count: int | None, info: ValidationInfo) -> int | None:
    """Check an agent's count of the field before: no token is less than a byte.

    But for pictures and the like, of which an address may be all that is sent.
    """
    content = info.data.get("content", info.data.get("text"))
    if count is None or content is None or count <= len(strict_json.as_sent(content)):
        return count
    if any(media.weights(reading.read(content))):
        return count
    raise RefusedError("value")


def _share(number: float) -> float:
    if not 0 <= number <= 1:
        raise RefusedError("value")
    return number


def _id(text: str) -> UUID:
    """An id of ours in an address; in any other form it is none that there is."""
    if not _ID.fullmatch(text):
        raise NotFoundError
    return UUID(text)


_NAME_SCHEMA = {"type": "string", "pattern": names.NAME_PATTERN}
_TIME_SCHEMA = {"type": "string", "format": "date-time"}

Id = Annotated[
    UUID,
    PlainValidator(_id),
    WithJsonSchema({"type": "string", "format": "uuid"}),
]
Name = Annotated[str, AfterValidator(_name), WithJsonSchema(_NAME_SCHEMA)]
ThreadName = Annotated[str, AfterValidator(thread_name), WithJsonSchema(_NAME_SCHEMA)]
OwnPageId = Annotated[str, AfterValidator(_own_page_id), WithJsonSchema(_NAME_SCHEMA)]
Hint = Annotated[
    str,
    _at_most(MAX_HINT_BYTES),
    WithJsonSchema({"type": "string", "description": "At most 1 KiB of UTF-8."}),
]
Importance = Annotated[
    float,
    AfterValidator(_share),
    WithJsonSchema(
        {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "description": "Kept with two decimals.",
        }
    ),
]
SlotType = Annotated[
    str,
    AfterValidator(_type),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^[A-Za-z0-9][A-Za-z0-9_:@-]*(\.[A-Za-z0-9_:@-]+)+$",
            "maxLength": 128,
            "description": "A name with a package: `airline.agent.Refund`.",
        }
    ),
]
Text = Annotated[
    str,
    _at_most(MAX_TEXT_BYTES),
    WithJsonSchema({"type": "string", "description": "At most 16 KiB of UTF-8."}),
]
#: Whatever was a person's once is looked for; what can be nobody's is refused then.
UserId = Annotated[
    str,
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": user_ids.MAX_CHARS,
            "description": f"The person's id: {user_ids.RULE}. `Ann` and `ann` are two "
            "people: nothing is folded or trimmed.",
        }
    ),
]
Time = Annotated[datetime, PlainValidator(time), WithJsonSchema(_TIME_SCHEMA)]
Label = Annotated[
    LabelValue,
    PlainValidator(_label),
    WithJsonSchema({"anyOf": [_NAME_SCHEMA, {"type": "number"}, {"type": "boolean"}]}),
]
Labels = Annotated[
    dict[Name, Label],
    AfterValidator(_labels),
    Field(json_schema_extra={"maxProperties": MAX_LABELS}),
]
MaxSlots = Annotated[int, within(1, 10_000_000), counted(1, 10_000_000)]
RetentionDays = Annotated[int, within(1, 36_500), counted(1, 36_500)]
MaxKeyBytes = Annotated[
    int,
    within(1024, 2**30),
    AfterValidator(_whole_mib),
    WithJsonSchema(
        {
            "type": "integer",
            "minimum": 1024,
            "maximum": 2**30,
            "description": "Above 10,000,000 in whole MiB.",
        }
    ),
]
TtlSeconds = Annotated[int, within(1, MAX_TTL_SECONDS), counted(1, MAX_TTL_SECONDS)]
Tokens = Annotated[int, within(0, 2**31 - 1), counted(0, 2**31 - 1)]
#: Of the content or text that stands before it.
SentTokens = Annotated[Tokens | None, AfterValidator(fitting)]
Limit = Annotated[
    int, BeforeValidator(whole("limit", low=1, high=MAX_LIMIT)), counted(1, MAX_LIMIT)
]
#: In a body.
BodyLimit = Annotated[int, within(1, MAX_LIMIT, code="limit"), counted(1, MAX_LIMIT)]
Seq = Annotated[int, BeforeValidator(whole("at")), counted(0, MAX_INTEGER)]
AtTurn = Annotated[int, BeforeValidator(whole("at")), counted(0, MAX_INTEGER)]
Turn = Annotated[int, BeforeValidator(whole("value")), counted(0, MAX_INTEGER)]
PageLevel = Annotated[
    int, BeforeValidator(whole("value", low=0, high=REFERENCE)), counted(0, REFERENCE)
]
LevelNumber = Annotated[int, within(0, REFERENCE), counted(0, REFERENCE)]
Bound = Annotated[
    int,
    BeforeValidator(whole("value", low=-MAX_INTEGER)),
    counted(-MAX_INTEGER, MAX_INTEGER),
]
