"""Visible text: what is seen of a text, and what only shapes the rest. Pure."""

from __future__ import annotations

import re
from typing import Final

#: A character that is neither a blank, nor a control, nor of no width.
VISIBLE: Final = (
    r"[^\x00- \x7f-\xa0\xad\u034f\u061c\u1680\u180b-\u180f"
    r"\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff"
    r"\uffa0]"
)
_VISIBLE: Final = re.compile(VISIBLE)


def has_visible(text: str) -> bool:
    """Return whether anything is seen of a text. Linear."""
    return _VISIBLE.search(text) is not None
