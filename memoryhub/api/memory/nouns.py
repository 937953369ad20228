"""Nouns that the overview of working memory shows beside keys and task."""

from __future__ import annotations

from memoryhub.api.memory import notes
from memoryhub.api.memory.newest import NewestNoun

NEWEST: tuple[NewestNoun, ...] = (
    notes.NEWEST,
)  # fmt: skip
