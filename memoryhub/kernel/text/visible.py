"""Visible text: characters that are seen, as opposed to blanks and controls. Pure."""

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
    """Return whether a text has a visible character. Linear."""
    return _VISIBLE.search(text) is not None
