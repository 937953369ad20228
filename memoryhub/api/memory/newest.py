"""Newest records of a noun on the wire, in the overview of working memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """What the overview says of a noun."""

    name: str
    #: The type of the field.
    kind: Any
    #: Of one record.
    example: Mapping[str, Any]
    #: Statistics of the example, where one of each does not say it.
    figures: Mapping[str, Any] = field(default_factory=dict)
