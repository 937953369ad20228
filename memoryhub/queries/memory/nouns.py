"""The nouns of working memory that are compared and shown, a line each."""

from __future__ import annotations

from typing import Any

from memoryhub.queries.memory import notes, tasks
from memoryhub.queries.memory.slice_views import SliceView

COMPARED: tuple[SliceView[Any], ...] = (
    tasks.VIEW,
    notes.VIEW,
)
#: Those whose newest records the overview shows, by name.
NEWEST = tuple(each.slice.name for each in COMPARED if each.newest is not None)
