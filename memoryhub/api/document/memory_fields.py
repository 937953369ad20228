"""Fields of working memory on the wire, and the conditions of its writes."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any, Final

from django.http import HttpRequest
from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from memoryhub.api.document.fields import (
    In,
    Name,
    Out,
    RefusedError,
    Time,
    TtlSeconds,
    example,
)
from memoryhub.errors import BadPreconditionError
from memoryhub.kernel.memory.keys import Expiry
from memoryhub.kernel.memory.memory_commands import Expected
from memoryhub.kernel.text import names, strict_json
from memoryhub.queries.memory.comparisons import HEAD

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


def sized(most: int, *, least: int = 0) -> AfterValidator:
    def check(text: str) -> str:
        if not least <= len(text.encode()) <= most:
            raise RefusedError("value")
        return text

    return AfterValidator(check)


def _checkpoint_name(text: str) -> str:
    # Where a checkpoint is named, digits are its number and `head` is now.
    if text.isdecimal() or text == HEAD:
        says = f"a name that is no number and not `{HEAD}`"
        raise RefusedError("name", allowed=says)
    return text


def named_checkpoint(value: object) -> int | str:
    """Read a checkpoint's number or name; any other text names none that exists."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise RefusedError("type")
    return int(value) if _VERSION.fullmatch(value) else value


def text_schema(most: int, *, least: int = 0) -> WithJsonSchema:
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
Remark = Annotated[str, sized(MAX_REMARK_BYTES), text_schema(MAX_REMARK_BYTES)]
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
        """Return the expiry that was sent. Raises RefusedError when both were."""
        given = self.model_fields_set & {"ttl_seconds", "expires_at"}
        ttl = self.ttl_seconds
        return Expiry(
            given=bool(given),
            ttl=None if ttl is None else timedelta(seconds=ttl),
            at=self.expires_at,
        )


def one_expiry(sent: Any) -> Any:
    """Check before anything else of a body that it gives one expiry only."""
    if isinstance(sent, dict) and {"ttl_seconds", "expires_at"} <= sent.keys():
        says = "nothing beside `ttl_seconds`: one of the two"
        raise RefusedError("value", allowed=says, loc=("expires_at",))
    return sent


def expected(request: HttpRequest) -> Expected:
    """Read If-Match with a version, or If-None-Match `*`.

    Raises BadPreconditionError.
    """
    match = request.META.get("HTTP_IF_MATCH")
    none = request.META.get("HTTP_IF_NONE_MATCH")
    if none is not None and (none != "*" or match is not None):
        raise BadPreconditionError
    return Expected(
        version=None if match is None else version(match), absent=none is not None
    )


def version(text: str) -> int:
    text = unquoted(text)
    if not _VERSION.fullmatch(text) or abs(int(text)) > strict_json.MAX_INTEGER:
        raise BadPreconditionError
    return int(text)


def unquoted(tag: str) -> str:
    """Return an entity tag without its quotes, which clients of HTTP send."""
    return tag[1:-1] if len(tag) > 1 and tag[0] == tag[-1] == '"' else tag


class EmptyIn(In):
    """Nothing: the path says it all."""

    model_config = example({})


class ExistedOut(Out):
    model_config = example({"existed": True, "seq": 45})

    existed: bool
    seq: int | None = Field(description="Of the deletion; null if there was nothing.")


class ClearedOut(Out):
    model_config = example({"cleared": 2, "seq": 46})

    cleared: int
    seq: int = Field(description="The thread's head.")
