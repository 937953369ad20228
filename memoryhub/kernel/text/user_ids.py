"""User ids: the ids by which an application knows persons, and their rules.

Pure. User ids stand in bodies, forms and on standard input. Each is therefore a line of
text that nothing on the way changes: no line break, no invisible character, no blank at
an end. See decision 37.
"""

from __future__ import annotations

from typing import Final

from memoryhub.errors import InvalidError

MAX_CHARS: Final = 256
#: The rule, in words for people whose input was refused.
RULE: Final = (
    f"1 to {MAX_CHARS} characters of one line, no blank at an end, not only of * and %"
)


def is_valid(text: str) -> bool:
    """Return whether a text can be a user id; nothing is trimmed or folded."""
    return (
        len(text) <= MAX_CHARS
        and text.isprintable()
        and text.strip() == text
        # Elsewhere `*` and `%` stand for any text, so they alone are no one's id.
        and text.strip(" *%") != ""
    )


def require(text: str) -> str:
    """Return the id. Raises InvalidError (`user_id`)."""
    if not is_valid(text):
        raise InvalidError(loc="user_id")
    return text
