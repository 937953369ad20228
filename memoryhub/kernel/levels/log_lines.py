"""The log of observations in a request's head: their texts in order, hints last. Pure.

What an observation says closes no fence: its text is that of a page of the head.
"""

from __future__ import annotations

from collections.abc import Sequence

from memoryhub.kernel.levels import lines
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.state.pages import FULL
from memoryhub.kernel.text.json_text import in_string

FENCE = "VM:LOG"
#: What lines of an observation begin with that tell what is being done, and what could
#: be said next: those of the newest one hold.
HINT = "→ "


def texts(log: Sequence[Opened]) -> list[str]:
    """Return the text of each observation, hints of the last one alone."""
    found = [lines.prose(each, level=FULL) for each in log]
    return [*map(without_hints, found[:-1]), *found[-1:]]


def tokens(opened: Opened, *, count: Count) -> int:
    """Count what an observation takes of a request's JSON."""
    return count(in_string(lines.prose(opened, level=FULL) + "\n"))


def without_hints(text: str) -> str:
    """Return the lines of an observation alone."""
    kept = [line for line in text.split("\n") if not line.startswith(HINT)]
    return "\n".join(kept)
