"""Keys on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, Field, model_validator

from memoryhub.api.document.fields import MAX_BATCH, In, Out, RefusedError, example
from memoryhub.api.document.memory_fields import ExpiringIn, Glob, KeyName, one_expiry
from memoryhub.api.document.samples import AT, PLACE, UNTIL
from memoryhub.api.document.schemas import AsOf, Pagination

VERSION = "Of the key, for If-Match: a seq; 0 or less of what a fork inherits."

_KEY = {
    "key": "seat",
    "seq": 41,
    "set_at": AT,
    "expires_at": UNTIL,
    "bytes": 64,
}
KEY_VALUE = {**_KEY, "value": {"letter": "A", "row": 12}, "erased": False}
_CHANGES = [
    {"op": "set", "key": "seat", "value": "12B", "if_match": 41},
    {"op": "delete", "key": "hold"},
]


class KeyIn(ExpiringIn):
    model_config = example({"value": {"letter": "A", "row": 12}, "ttl_seconds": 3600})

    value: Any = Field(description="Any JSON; null is a value.")

    _one = model_validator(mode="before")(one_expiry)


class RetimeIn(ExpiringIn):
    """Another expiry. One of the two must be sent."""

    model_config = example({"expires_at": UNTIL})

    _one = model_validator(mode="before")(one_expiry)

    @model_validator(mode="after")
    def one_of_them(self) -> Self:
        if not self.model_fields_set:
            says = "that or `expires_at` must be sent; null is never"
            raise RefusedError("missing", allowed=says, loc=("ttl_seconds",))
        return self


class KeyChangeIn(ExpiringIn):
    """A set, which needs a `value`, or a delete, which takes none."""

    op: Literal["set", "delete"]
    key: KeyName
    value: Any = None
    if_match: int | None = Field(None, description=VERSION)
    if_none_match: Literal["*"] | None = None

    _one = model_validator(mode="before")(one_expiry)

    @model_validator(mode="after")
    def whole(self) -> Self:
        sent = self.model_fields_set
        if self.op == "set" and "value" not in sent:
            raise RefusedError("missing", allowed="a set needs it", loc=("value",))
        for name in ("value", "ttl_seconds", "expires_at"):
            if self.op == "delete" and name in sent:
                says = "a delete takes none"
                raise RefusedError("extra_field", allowed=says, loc=(name,))
        if self.if_match is not None and self.if_none_match is not None:
            says = "null beside `if_match`"
            raise RefusedError("value", allowed=says, loc=("if_none_match",))
        return self


def _distinct(items: list[KeyChangeIn]) -> list[KeyChangeIn]:
    if not 1 <= len(items) <= MAX_BATCH:
        raise RefusedError("batch_size")
    seen: set[str] = set()
    for n, item in enumerate(items):
        if item.key in seen:
            raise RefusedError("value", allowed="each key once", loc=(n, "key"))
        seen.add(item.key)
    return items


class KeyChangesIn(In):
    model_config = example({"items": _CHANGES})

    items: Annotated[
        list[KeyChangeIn],
        AfterValidator(_distinct),
        Field(json_schema_extra={"minItems": 1, "maxItems": MAX_BATCH}),
    ]


class KeysQuery(AsOf, Pagination):
    glob: Glob = Field("*", description="`*`, `?`, `[abc]`, `[a-c]`, `[!a]`.")
    values: Literal["true", "false"] = "false"
    sort: Literal["name", "expiry", "bytes"] = "name"


class SetOut(Out):
    model_config = example({**PLACE, "seq": 41, "key": "seat", "expires_at": UNTIL})

    thread: str
    thread_id: UUID
    seq: int
    key: str
    expires_at: datetime | None


class KeyOut(Out):
    key: str = Field(validation_alias="name")
    seq: int = Field(description=VERSION, validation_alias="version")
    set_at: datetime
    expires_at: datetime | None
    bytes: int


class KeyValueOut(KeyOut):
    model_config = example(KEY_VALUE)

    value: Any
    erased: bool = Field(
        description="The value is gone for good, as of the past; it was not null."
    )


class KeysOut(Out):
    model_config = example({"items": [_KEY], "next": None})

    items: list[KeyValueOut | KeyOut]
    next: str | None


class ChangedOut(Out):
    key: str
    seq: int | None
    expires_at: datetime | None = None
    existed: bool | None = Field(None, description="Of a delete: whether it was there.")


class ChangesOut(Out):
    model_config = example(
        {
            **PLACE,
            "items": [
                {"key": "seat", "seq": 50, "expires_at": None, "existed": None},
                {"key": "hold", "seq": None, "expires_at": None, "existed": False},
            ],
        }
    )

    thread: str
    thread_id: UUID
    items: list[ChangedOut]
