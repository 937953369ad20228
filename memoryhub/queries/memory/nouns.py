"""Nouns of working memory that comparisons and the overview show, one a line."""

from __future__ import annotations

from typing import Any

from memoryhub.queries.memory import notes, tasks
from memoryhub.queries.memory.slice_views import SliceView

COMPARED: tuple[SliceView[Any], ...] = (
    tasks.VIEW,
    notes.VIEW,
)
#: Names of nouns whose newest records the overview shows.
NEWEST = tuple(each.slice.name for each in COMPARED if each.newest is not None)
