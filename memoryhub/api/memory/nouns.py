"""The nouns that the overview of working memory shows beside keys and task."""

from __future__ import annotations

from memoryhub.api.memory import note_schemas
from memoryhub.api.memory.newest import Newest

NEWEST: tuple[Newest, ...] = (
    note_schemas.NEWEST,
)  # fmt: skip
