"""Changes between two versions of a text, word by word. Pure."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Final, Literal

#: Whether a piece of a text stayed, came, or is gone.
ChangeMark = Literal["", "come", "gone"]
ChangedPiece = tuple[ChangeMark, str]
#: Most words of a text that are compared.
COMPARED: Final = 1_000
#: A word or a mark with the white space before it.
_PARTS = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")


def list_changes(before: str | None, after: str) -> list[ChangedPiece]:
    """List the pieces of a text, with what is gone since the version before.

    The text is one piece if there is no version before, or a text is too long. Words
    that are one in a hundred of a long text are compared only beside others, or agents
    could write texts whose comparison takes minutes.
    """
    old, new = _PARTS.findall(before or ""), _PARTS.findall(after)
    if before is None or max(len(old), len(new)) > COMPARED:
        return [("", after)]
    pieces = list[ChangedPiece]()
    for kind, *spans in SequenceMatcher(None, old, new).get_opcodes():
        gone, come = "".join(old[slice(*spans[:2])]), "".join(new[slice(*spans[2:])])
        if kind == "equal":
            pieces.append(("", come))
        else:
            pieces += [("gone", gone)] if gone else []
            pieces += [("come", come)] if come else []
    return pieces
