"""Fields of working memory on the wire, and the conditions of its writes."""

from __future__ import annotations

import re
from datetime import timedelta
from math import isfinite
from typing import Annotated, Any, Final

from django.http import HttpRequest
from pydantic import AfterValidator, PlainValidator, WithJsonSchema

from memoryhub.api.document.fields import (
    In,
    Name,
    RefusedError,
    Time,
    TtlSeconds,
    within,
)
from memoryhub.errors import BadPreconditionError
from memoryhub.kernel.memory.keys import Expiry
from memoryhub.kernel.memory.memory_commands import Expected
from memoryhub.kernel.text import names, strict_json
from memoryhub.queries.memory.comparisons import HEAD

MAX_STEP: Final = 1_000_000
MAX_DESCRIPTION_BYTES: Final = 4 * 1024
MAX_DATA_BYTES: Final = 64 * 1024
MAX_NOTE_BYTES: Final = 16 * 1024
MAX_REMARK_BYTES: Final = 1024

#: Of an inherited version the sign is a minus, or the number 0.
_VERSION = re.compile(r"0|-?[1-9][0-9]{0,18}")


def _key(text: str) -> str:
    if names.reserved(text):
        raise RefusedError("reserved_key")
    if not names.valid(text):
        raise RefusedError("name")
    return text


def _glob(text: str) -> str:
    if names.reserved(text):
        raise RefusedError("reserved_key")
    return text


def _sized(most: int, *, least: int = 0) -> AfterValidator:
    def check(text: str) -> str:
        if not least <= len(text.encode()) <= most:
            raise RefusedError("value")
        return text

    return AfterValidator(check)


def _percent(number: float) -> float:
    if not isfinite(number) or not 0 <= number <= 100:
        raise RefusedError("value")
    return number


def _data(data: dict[str, Any]) -> dict[str, Any]:
    if len(strict_json.canonical(data)) > MAX_DATA_BYTES:
        raise RefusedError("value", allowed="an object of at most 64 KiB of JSON")
    return data


def _checkpoint_name(text: str) -> str:
    # Where a checkpoint is named, digits are its number and `head` is now.
    if text.isdecimal() or text == HEAD:
        says = f"a name that is no number and not `{HEAD}`"
        raise RefusedError("name", allowed=says)
    return text


def named_checkpoint(value: object) -> int | str:
    """A checkpoint's number or name; any other text is one that there is not."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise RefusedError("type")
    return int(value) if _VERSION.fullmatch(value) else value


def _text_schema(most: int, *, least: int = 0) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "type": "string",
            "minLength": least,
            "description": f"At most {most} bytes of UTF-8.",
        }
    )


_KEY_SCHEMA = {"type": "string", "pattern": names.NAME_PATTERN}

KeyName = Annotated[str, AfterValidator(_key), WithJsonSchema(_KEY_SCHEMA)]
Glob = Annotated[
    str,
    AfterValidator(_glob),
    WithJsonSchema({"type": "string", "maxLength": 128, "examples": ["seat.*"]}),
]
Step = Annotated[
    int,
    within(0, MAX_STEP),
    WithJsonSchema({"type": "integer", "minimum": 0, "maximum": MAX_STEP}),
]
Percent = Annotated[
    float,
    AfterValidator(_percent),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 100}),
]
Description = Annotated[
    str, _sized(MAX_DESCRIPTION_BYTES), _text_schema(MAX_DESCRIPTION_BYTES)
]
Remark = Annotated[str, _sized(MAX_REMARK_BYTES), _text_schema(MAX_REMARK_BYTES)]
NoteText = Annotated[
    str, _sized(MAX_NOTE_BYTES, least=1), _text_schema(MAX_NOTE_BYTES, least=1)
]
TaskData = Annotated[dict[str, Any], AfterValidator(_data)]
CheckpointName = Annotated[Name, AfterValidator(_checkpoint_name)]
CheckpointRef = Annotated[
    int | str,
    PlainValidator(named_checkpoint),
    WithJsonSchema({"anyOf": [{"type": "integer"}, _KEY_SCHEMA]}),
]
CheckpointPath = Annotated[
    str, AfterValidator(str), WithJsonSchema({"type": "string", "maxLength": 128})
]


class ExpiringIn(In):
    """Until when: `ttl_seconds`, or `expires_at`, not both; null is never."""

    ttl_seconds: TtlSeconds | None = None
    expires_at: Time | None = None

    def expiry(self) -> Expiry:
        """What was said. Raises RefusedError when both were."""
        said = self.model_fields_set & {"ttl_seconds", "expires_at"}
        ttl = self.ttl_seconds
        return Expiry(
            said=bool(said),
            ttl=None if ttl is None else timedelta(seconds=ttl),
            at=self.expires_at,
        )


def one_expiry(sent: Any) -> Any:
    """Before anything else of a body: that it says one thing only."""
    if isinstance(sent, dict) and {"ttl_seconds", "expires_at"} <= sent.keys():
        says = "nothing beside `ttl_seconds`: one of the two"
        raise RefusedError("value", allowed=says, loc=("expires_at",))
    return sent


def expected(request: HttpRequest) -> Expected:
    """If-Match with a version, or If-None-Match `*`. Raises BadPreconditionError."""
    match = request.META.get("HTTP_IF_MATCH")
    none = request.META.get("HTTP_IF_NONE_MATCH")
    if none is not None and (none != "*" or match is not None):
        raise BadPreconditionError
    return Expected(
        version=None if match is None else version(match), absent=none is not None
    )


def version(text: str) -> int:
    if not _VERSION.fullmatch(text) or abs(int(text)) > strict_json.MAX_INTEGER:
        raise BadPreconditionError
    return int(text)
