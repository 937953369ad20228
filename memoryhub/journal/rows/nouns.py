"""The nouns whose records have rows of their own, one per line."""

from __future__ import annotations

from typing import Any

from memoryhub.journal.rows import checkpoint_rows, key_rows, mark_rows
from memoryhub.journal.rows.current_rows import Projection
from memoryhub.journal.rows.knowledge import assertion_rows

PROJECTIONS: tuple[Projection[Any], ...] = (
    key_rows.KEYS,
    checkpoint_rows.CHECKPOINTS,
    mark_rows.MARKED_TURNS,
    assertion_rows.ASSERTIONS,
)
