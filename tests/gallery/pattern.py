from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

#: What a partial stands in, where it can't stand alone.
Frame = Literal[
    "",
    "threads",
    "api-keys",
    "members",
    "sources",
    "erasures",
    "subjects",
    "holds",
    "receipts",
    "scope",
    "labels",
    "list",
    "bubble",
    "text",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A partial and what it is shown with, by the name of each state."""

    template: str
    states: Mapping[str, Mapping[str, Any]]
    frame: Frame = ""
