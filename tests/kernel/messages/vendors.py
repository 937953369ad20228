"""Checks of a request's messages by the vendors' own types."""

from __future__ import annotations

from typing import Any

from anthropic.types import MessageParam
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from memoryhub.kernel.messages.message import Vendor
from memoryhub.kernel.messages.writing import FORMATS

_TYPES: dict[str, TypeAdapter[Any]] = {
    "chat": TypeAdapter(list[ChatCompletionMessageParam]),
    "responses": TypeAdapter(list[ResponseInputItemParam]),
    "anthropic": TypeAdapter(list[MessageParam]),
}


def require_types(vendor: Vendor, request: dict[str, Any]) -> None:
    """Require messages that the vendor's own types take, sequences as far as read.

    Gemini's types need an environment of their own: tests/client/test_frameworks.py.
    """
    if vendor not in _TYPES:
        return
    listed = request[FORMATS[vendor].field]
    _read(_TYPES[vendor].validate_python(listed, strict=True, extra="forbid"))


def _read(value: Any) -> None:
    if isinstance(value, dict):
        value = value.values()
    if not isinstance(value, str | float | int | None):
        for each in value:
            _read(each)
