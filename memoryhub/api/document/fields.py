"""Field types of bodies and queries; each refuses with the code its reference names."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from math import isfinite
from typing import Annotated, Any, Final, Literal, Self
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
from memoryhub.kernel.state.bodies import check_whole_mib
from memoryhub.kernel.state.events import LabelValue
from memoryhub.kernel.state.pages import (
    BLOCK_PATTERN,
    REFERENCE,
    is_block_name,
    is_reserved_id,
)
from memoryhub.kernel.state.state import MAX_LABELS
from memoryhub.kernel.text import names, strict_json, times, user_ids
from memoryhub.kernel.text.strict_json import MAX_INTEGER

MAX_LIMIT: Final = 200
MAX_TEXT_BYTES: Final = 16 * 1024
MAX_HINT_BYTES: Final = 1024
MAX_TTL_SECONDS: Final = 31_536_000

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_ID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


#: Originators that an agent may name; `system` is never one.
By = Literal["user", "model", "tool"]

#: Most changes that one request may make.
MAX_BATCH = 200


def build_example(value: dict[str, Any]) -> ConfigDict:
    """Return a model configuration with one schema example."""
    return ConfigDict(json_schema_extra={"examples": [value]})


class In(BaseModel):
    """A strict request schema; unknown fields are refused."""

    # Pydantic builds a schema when a request first needs the schema, not at the start.
    model_config = ConfigDict(
        extra="forbid", strict=True, validate_by_name=False, defer_build=True
    )


class Out(BaseModel):
    """An answer schema; values are valid already.

    Query records become answers by their attribute names, nested records too. A field
    whose attribute has another name sets `validation_alias`.
    """

    model_config = ConfigDict(
        validate_by_name=True,
        validate_by_alias=True,
        from_attributes=True,
        defer_build=True,
    )

    @classmethod
    def from_record(cls, record: object, /, **others: Any) -> Self:
        """Build the answer from the record's attributes; `others` override fields."""
        same = cls.model_fields.keys() - others.keys()
        return cls(**{name: getattr(record, name) for name in same}, **others)


class FieldRefusedError(ValueError):
    """A value that a field refuses; `code` says why, no message shows the value.

    `allowed` says what the field takes where its schema does not. `loc` names the field
    that is meant when a whole object is refused.
    """

    def __init__(
        self, code: str, *, allowed: str = "", loc: tuple[str | int, ...] = ()
    ) -> None:
        self.code = code
        self.allowed = allowed
        self.loc = loc
        super().__init__(code)


def _check_name(text: str) -> str:
    if not names.is_valid(text):
        raise FieldRefusedError("name")
    return text


def check_thread_name(text: str) -> str:
    """Check that a thread's name is valid and not reserved."""
    # Clients may read home threads; the journal refuses to create a home thread.
    if names.is_reserved(text) and not text.startswith(names.HOME):
        raise FieldRefusedError("reserved_name")
    return _check_name(text)


def _check_type(text: str) -> str:
    if names.is_valid(text.replace(".", "")) and not names.is_qualified(text):
        raise FieldRefusedError("type_not_qualified")
    if text.strip(".") != text:
        raise FieldRefusedError("type_not_qualified")
    return _check_name(text)


def parse_time(value: object) -> datetime:
    """Parse an RFC 3339 time and return the time in UTC."""
    try:
        return times.read(value)
    except InvalidError as refusal:
        raise FieldRefusedError(refusal.invalid_code) from None


def _check_label(value: object) -> LabelValue:
    if isinstance(value, str):
        return _check_name(value)
    if not isinstance(value, bool | int | float):
        raise FieldRefusedError("type")
    if not isfinite(value):
        raise FieldRefusedError("value")
    return value


def _check_labels(labels: dict[str, LabelValue]) -> dict[str, LabelValue]:
    if len(labels) > MAX_LABELS:
        raise FieldRefusedError("value")
    return labels


def build_integer_reader(
    code: str, *, low: int = 0, high: int = MAX_INTEGER
) -> Callable[[Any], int]:
    """Build a reader of query integers that refuses any other value with `code`."""

    def read(value: object) -> int:
        if not isinstance(value, str) or not _WHOLE.fullmatch(value):
            raise FieldRefusedError(code)
        if not low <= (number := int(value)) <= high:
            raise FieldRefusedError(code)
        return number

    return read


def build_range_check(low: int, high: int, *, code: str = "value") -> AfterValidator:
    """Build a validator that refuses a body integer outside a range."""

    def check(number: int) -> int:
        if not low <= number <= high:
            raise FieldRefusedError(code)
        return number

    return AfterValidator(check)


def _build_size_check(size: int) -> AfterValidator:
    """Build a validator that refuses a text of more than `size` bytes in UTF-8."""

    def check(text: str) -> str:
        if len(text.encode()) > size:
            raise FieldRefusedError("value")
        return text

    return AfterValidator(check)


def build_range_schema(low: int, high: int) -> WithJsonSchema:
    """Return the JSON schema of an integer within a range."""
    return WithJsonSchema({"type": "integer", "minimum": low, "maximum": high})


def build_bounded_type(limit: Capacity) -> Any:
    """Build the type of a setting that bounds a noun; an absent setting keeps its
    default."""
    low, high = limit.least, limit.most
    number = Annotated[int, build_range_check(low, high), build_range_schema(low, high)]
    return Annotated[number | None, Field(default=None)]


def _check_own_page_id(text: str) -> str:
    """Check the id of a page that the agent creates; refuse ids of other routes."""
    if is_reserved_id(text):
        raise FieldRefusedError("reserved_id")
    return _check_name(text)


def _check_block_name(text: str) -> str:
    if is_reserved_id(text):
        raise FieldRefusedError("reserved_id")
    if not is_block_name(text):
        raise FieldRefusedError("name")
    return text


def _check_whole_mib(number: int) -> int:
    try:
        return check_whole_mib(number)
    except ValueError:
        raise FieldRefusedError("value") from None


def check_token_count(count: int | None, info: ValidationInfo) -> int | None:
    """Check an agent's token count against the field before: a token is at least a
    byte.

    Contents with pictures or other media are exempt: the address may be all that is
    sent.
    """
    content = info.data.get("content", info.data.get("text"))
    if (
        count is None
        or content is None
        or count <= len(strict_json.dump_stored(content))
    ):
        return count
    if any(media.iter_weights(reading.read(content))):
        return count
    raise FieldRefusedError("value")


def _check_share(number: float) -> float:
    if not 0 <= number <= 1:
        raise FieldRefusedError("value")
    return number


def _parse_id(text: str) -> UUID:
    """Parse an id in an address; any other form names nothing that exists."""
    if not _ID.fullmatch(text):
        raise NotFoundError
    return UUID(text)


NAME_SCHEMA = {"type": "string", "pattern": names.NAME_PATTERN}
_TIME_SCHEMA = {"type": "string", "format": "date-time"}

Id = Annotated[
    UUID,
    PlainValidator(_parse_id),
    WithJsonSchema({"type": "string", "format": "uuid"}),
]
Name = Annotated[str, AfterValidator(_check_name), WithJsonSchema(NAME_SCHEMA)]
ThreadName = Annotated[
    str, AfterValidator(check_thread_name), WithJsonSchema(NAME_SCHEMA)
]
OwnPageId = Annotated[
    str, AfterValidator(_check_own_page_id), WithJsonSchema(NAME_SCHEMA)
]
BlockName = Annotated[
    str,
    AfterValidator(_check_block_name),
    WithJsonSchema({"type": "string", "pattern": BLOCK_PATTERN}),
]
Hint = Annotated[
    str,
    _build_size_check(MAX_HINT_BYTES),
    WithJsonSchema({"type": "string", "description": "At most 1 KiB of UTF-8."}),
]
Importance = Annotated[
    float,
    AfterValidator(_check_share),
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
    AfterValidator(_check_type),
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
    _build_size_check(MAX_TEXT_BYTES),
    WithJsonSchema({"type": "string", "description": "At most 16 KiB of UTF-8."}),
]
#: Not checked here: a look-up takes any id that a person ever had, and refuses others.
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
Time = Annotated[datetime, PlainValidator(parse_time), WithJsonSchema(_TIME_SCHEMA)]
Label = Annotated[
    LabelValue,
    PlainValidator(_check_label),
    WithJsonSchema({"anyOf": [NAME_SCHEMA, {"type": "number"}, {"type": "boolean"}]}),
]
Labels = Annotated[
    dict[Name, Label],
    AfterValidator(_check_labels),
    Field(json_schema_extra={"maxProperties": MAX_LABELS}),
]
MaxSlots = Annotated[
    int, build_range_check(1, 10_000_000), build_range_schema(1, 10_000_000)
]
RetentionDays = Annotated[
    int, build_range_check(1, 36_500), build_range_schema(1, 36_500)
]
MaxKeyBytes = Annotated[
    int,
    build_range_check(1024, 2**30),
    AfterValidator(_check_whole_mib),
    WithJsonSchema(
        {
            "type": "integer",
            "minimum": 1024,
            "maximum": 2**30,
            "description": "Above 10,000,000 in whole MiB.",
        }
    ),
]
TtlSeconds = Annotated[
    int, build_range_check(1, MAX_TTL_SECONDS), build_range_schema(1, MAX_TTL_SECONDS)
]
Tokens = Annotated[
    int, build_range_check(0, 2**31 - 1), build_range_schema(0, 2**31 - 1)
]
#: Token count of the content or text field that precedes this field.
SentTokens = Annotated[Tokens | None, AfterValidator(check_token_count)]
Limit = Annotated[
    int,
    BeforeValidator(build_integer_reader("limit", low=1, high=MAX_LIMIT)),
    build_range_schema(1, MAX_LIMIT),
]
#: A limit in a body.
BodyLimit = Annotated[
    int, build_range_check(1, MAX_LIMIT, code="limit"), build_range_schema(1, MAX_LIMIT)
]
Seq = Annotated[
    int, BeforeValidator(build_integer_reader("at")), build_range_schema(0, MAX_INTEGER)
]
AtTurn = Annotated[
    int, BeforeValidator(build_integer_reader("at")), build_range_schema(0, MAX_INTEGER)
]
Turn = Annotated[
    int,
    BeforeValidator(build_integer_reader("value")),
    build_range_schema(0, MAX_INTEGER),
]
PageLevel = Annotated[
    int,
    BeforeValidator(build_integer_reader("value", low=0, high=REFERENCE)),
    build_range_schema(0, REFERENCE),
]
LevelNumber = Annotated[
    int, build_range_check(0, REFERENCE), build_range_schema(0, REFERENCE)
]
Bound = Annotated[
    int,
    BeforeValidator(build_integer_reader("value", low=-MAX_INTEGER)),
    build_range_schema(-MAX_INTEGER, MAX_INTEGER),
]
