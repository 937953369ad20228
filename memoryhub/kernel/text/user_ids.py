"""User ids: how an application knows a person; what can be one, everywhere.

Pure. They stand in bodies, forms and on standard input, so each is a line of text that
nothing on the way changes: no line break, no character that can't be seen, no blank at
an end.
"""

from __future__ import annotations

from typing import Final

from memoryhub.errors import InvalidError

MAX_CHARS: Final = 256
#: The rule, as those read it who typed something else.
RULE: Final = (
    f"1 to {MAX_CHARS} characters of one line, no blank at an end, not only of * and %"
)


def valid(text: str) -> bool:
    """Return whether a text can be a user id; nothing is trimmed or folded."""
    return (
        len(text) <= MAX_CHARS
        and text.isprintable()
        and text.strip() == text
        # Nobody's id, and never everybody's: what elsewhere stands for any text.
        and text.strip(" *%") != ""
    )


def require(text: str) -> str:
    """Return the id. Raises InvalidError (`user_id`)."""
    if not valid(text):
        raise InvalidError(loc="user_id")
    return text
