"""Fields of working memory on the wire, and the conditions of its writes."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any, Final

from django.http import HttpRequest
from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from memoryhub.api.document.fields import (
    FieldRefusedError,
    In,
    Name,
    Out,
    Time,
    TtlSeconds,
    build_example,
)
from memoryhub.errors import BadPreconditionError
from memoryhub.kernel.memory.keys import Expiry
from memoryhub.kernel.memory.memory_commands import Expected
from memoryhub.kernel.text import names, strict_json
from memoryhub.queries.memory.comparisons import HEAD

MAX_REMARK_BYTES: Final = 1024

#: A version that a fork inherits is 0 or negative; see decision 15.
_VERSION = re.compile(r"0|-?[1-9][0-9]{0,18}")


def _check_key(text: str) -> str:
    if names.is_reserved(text):
        raise FieldRefusedError("reserved_key")
    if not names.is_valid(text):
        raise FieldRefusedError("name")
    return text


def _check_glob(text: str) -> str:
    if names.is_reserved(text):
        raise FieldRefusedError("reserved_key")
    return text


def build_size_check(most: int, *, least: int = 0) -> AfterValidator:
    def check(text: str) -> str:
        if not least <= len(text.encode()) <= most:
            raise FieldRefusedError("value")
        return text

    return AfterValidator(check)


def _check_checkpoint_name(text: str) -> str:
    # In a checkpoint reference, digits are a number and `head` is the present.
    if text.isdecimal() or text == HEAD:
        says = f"a name that is no number and not `{HEAD}`"
        raise FieldRefusedError("name", allowed=says)
    return text


def parse_checkpoint(value: object) -> int | str:
    """Parse a checkpoint's number or name; an unknown text is kept as a name."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise FieldRefusedError("type")
    return int(value) if _VERSION.fullmatch(value) else value


def build_text_schema(most: int, *, least: int = 0) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "type": "string",
            "minLength": least,
            "description": f"At most {most} bytes of UTF-8.",
        }
    )


_KEY_SCHEMA = {"type": "string", "pattern": names.NAME_PATTERN}

KeyName = Annotated[str, AfterValidator(_check_key), WithJsonSchema(_KEY_SCHEMA)]
Glob = Annotated[
    str,
    AfterValidator(_check_glob),
    WithJsonSchema({"type": "string", "maxLength": 128, "examples": ["seat.*"]}),
]
Remark = Annotated[
    str, build_size_check(MAX_REMARK_BYTES), build_text_schema(MAX_REMARK_BYTES)
]
CheckpointName = Annotated[Name, AfterValidator(_check_checkpoint_name)]
CheckpointRef = Annotated[
    int | str,
    PlainValidator(parse_checkpoint),
    WithJsonSchema({"anyOf": [{"type": "integer"}, _KEY_SCHEMA]}),
]
CheckpointPath = Annotated[
    str, AfterValidator(str), WithJsonSchema({"type": "string", "maxLength": 128})
]


class ExpiringIn(In):
    """Expiry: `ttl_seconds` or `expires_at`, not both; null is never."""

    ttl_seconds: TtlSeconds | None = None
    expires_at: Time | None = None

    def build_expiry(self) -> Expiry:
        """Build the expiry from the sent fields; an absent expiry is not `given`."""
        given = self.model_fields_set & {"ttl_seconds", "expires_at"}
        ttl = self.ttl_seconds
        return Expiry(
            given=bool(given),
            ttl=None if ttl is None else timedelta(seconds=ttl),
            at=self.expires_at,
        )


def check_one_expiry(sent: Any) -> Any:
    """Check, before any other field, that a body gives at most one expiry."""
    if isinstance(sent, dict) and {"ttl_seconds", "expires_at"} <= sent.keys():
        says = "nothing beside `ttl_seconds`: one of the two"
        raise FieldRefusedError("value", allowed=says, loc=("expires_at",))
    return sent


def parse_expected(request: HttpRequest) -> Expected:
    """Parse If-Match with a version, or If-None-Match `*`.

    Raises BadPreconditionError.
    """
    match = request.META.get("HTTP_IF_MATCH")
    none = request.META.get("HTTP_IF_NONE_MATCH")
    if none is not None and (none != "*" or match is not None):
        raise BadPreconditionError
    return Expected(
        version=None if match is None else parse_version(match), absent=none is not None
    )


def parse_version(text: str) -> int:
    text = strip_quotes(text)
    if not _VERSION.fullmatch(text) or abs(int(text)) > strict_json.MAX_INTEGER:
        raise BadPreconditionError
    return int(text)


def strip_quotes(tag: str) -> str:
    """Return an entity tag without the quotes that HTTP clients send."""
    return tag[1:-1] if len(tag) > 1 and tag[0] == tag[-1] == '"' else tag


class EmptyIn(In):
    """An empty body."""

    model_config = build_example({})


class ExistedOut(Out):
    model_config = build_example({"existed": True, "seq": 45})

    existed: bool
    seq: int | None = Field(description="Of the deletion; null if there was nothing.")


class ClearedOut(Out):
    model_config = build_example({"cleared": 2, "seq": 46})

    cleared: int
    seq: int = Field(description="The thread's head.")
