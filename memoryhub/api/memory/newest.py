"""Newest records of a noun, in the overview of working memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestNoun:
    """A noun in the overview of working memory: its field's name, type and example."""

    name: str
    #: The type of the field.
    kind: Any
    #: Example of one record.
    example: Mapping[str, Any]
    #: Statistics of the example that differ from 1.
    figures: Mapping[str, Any] = field(default_factory=dict)
