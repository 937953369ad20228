"""Contents of pages on the wire: one schema for each modality."""

from __future__ import annotations

import base64
import binascii
from math import isfinite
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, ConfigDict, ValidationError, model_validator

from memoryhub.api import allowed
from memoryhub.api.document.fields import FieldRefusedError, In
from memoryhub.kernel.text import strict_json

MAX_EMBEDDING: Final = 4_096
MAX_META_BYTES: Final = 16 * 1024


def _check_base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise FieldRefusedError("value", allowed="standard base64") from None
    return text


def _check_seconds(number: float) -> float:
    if not (isfinite(number) and number >= 0):
        raise FieldRefusedError("value", allowed="seconds, 0 or more")
    return number


def _check_embedding(numbers: list[float]) -> list[float]:
    if not 1 <= len(numbers) <= MAX_EMBEDDING or not all(map(isfinite, numbers)):
        says = f"1 to {MAX_EMBEDDING} numbers"
        raise FieldRefusedError("value", allowed=says)
    return numbers


def _check_size(numbers: list[int]) -> list[int]:
    if len(numbers) != 2 or min(numbers) < 1:
        raise FieldRefusedError(
            "value", allowed="width and height in pixels, 1 or more"
        )
    return numbers


Base64 = Annotated[str, AfterValidator(_check_base64)]
Seconds = Annotated[float, AfterValidator(_check_seconds)]


class TextContent(In):
    text: str


class ImageContent(In):
    caption: str | None = None
    url: str | None = None
    base64: Base64 | None = None
    embedding: Annotated[list[float], AfterValidator(_check_embedding)] | None = None

    @model_validator(mode="after")
    def something_to_go_by(self) -> Self:
        if self.caption is None and self.url is None and self.base64 is None:
            says = "a text, unless `url` or `base64` is sent"
            raise FieldRefusedError("value", allowed=says, loc=("caption",))
        return self


class Stamp(In):
    at_seconds: Seconds
    text: str


class Scene(In):
    at_seconds: Seconds
    caption: str


class AudioContent(In):
    transcript: str | None = None
    timestamps: list[Stamp] = []
    duration_seconds: Seconds | None = None
    url: str | None = None
    base64: Base64 | None = None


class VideoContent(In):
    scenes: list[Scene] = []
    transcript: str | None = None
    duration_seconds: Seconds | None = None
    topic: str | None = None
    url: str | None = None
    base64: Base64 | None = None


class StructuredContent(In):
    data: Any
    schema_name: str | None = None


class Meta(In):
    """Metadata of a page beside its content; other members are kept as sent."""

    model_config = ConfigDict(extra="allow", strict=True)

    mime_type: str | None = None
    dimensions: Annotated[list[int], AfterValidator(_check_size)] | None = None


_SHAPES: dict[str, type[In]] = {
    "text": TextContent,
    "image": ImageContent,
    "audio": AudioContent,
    "video": VideoContent,
    "structured": StructuredContent,
}


def check_content(content: dict[str, Any], *, modality: str) -> dict[str, Any]:
    """Check a content against the schema of its modality; return the content unchanged.

    Raises FieldRefusedError if the content does not match.
    """
    return _check_shape(_SHAPES[modality], content)


def check_meta(meta: dict[str, Any]) -> dict[str, Any]:
    """Check metadata and return it unchanged. Raises FieldRefusedError."""
    if len(strict_json.dump_stored(meta)) > MAX_META_BYTES:
        raise FieldRefusedError("value", allowed="at most 16 KiB of JSON")
    return _check_shape(Meta, meta)


def _check_shape(shape: type[In], value: dict[str, Any]) -> dict[str, Any]:
    try:
        shape.model_validate(value)
    except ValidationError as error:
        raise _build_refusal(shape, value, error) from None
    return value


def _build_refusal(
    shape: type[In], value: dict[str, Any], error: ValidationError
) -> FieldRefusedError:
    """Build a refusal from the first validation error, in the words of the schema."""
    first = error.errors(include_url=False, include_input=False)[0]
    loc, schema = first["loc"], shape.model_json_schema()
    inner = first.get("ctx", {}).get("error")
    says = ""
    if isinstance(inner, FieldRefusedError):
        loc, says = loc + inner.loc, inner.allowed
    elif first["type"] == "extra_forbidden":
        within = allowed.resolve_schema(schema, loc[:-1])
        says = allowed.describe_nearest_members(within, schema, near=str(loc[-1]))
        holder: Any = value
        for step in loc[:-1]:
            holder = holder[step]
        # Use the member's number: its name is the client's text.
        loc = (*loc[:-1], [*holder].index(loc[-1]))
    says = says or allowed.describe_schema(allowed.resolve_schema(schema, loc), schema)
    return FieldRefusedError("value", allowed=says, loc=loc)
