"""The nouns of working memory that are compared, a line each."""

from __future__ import annotations

from typing import Any

from memoryhub.queries.memory import notes, tasks
from memoryhub.queries.memory.slice_differences import SliceDifferences

COMPARED: tuple[SliceDifferences[Any], ...] = (
    tasks.DIFFERENCES,
    notes.DIFFERENCES,
)
