"""The log of observations in a request's head: their texts in order, hints last. Pure.

What an observation says closes no fence: its text is that of a page of the head. What
of it no longer holds stands behind the line that tells it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Final

from memoryhub.kernel.levels import lines, marks
from memoryhub.kernel.levels.contexts import Mark, SlotMarks, Texts
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.levels.tokens import Count
from memoryhub.kernel.state.pages import FULL
from memoryhub.kernel.text.json_text import in_string, inert

FENCE = "VM:LOG"
#: What lines of an observation begin with that tell what is being done, and what could
#: be said next: those of the newest one hold.
HINT = "→ "
_NOTHING: Final[Texts] = MappingProxyType({})
#: The slots that a line is of, which it ends with.
_SLOTS: Final = re.compile(r"- .* \[([0-9]+)(?:-([0-9]+))?\]")


def list_texts(
    log: Sequence[Opened],
    log_marks: Iterable[SlotMarks] = (),
    told_by: Texts = _NOTHING,
) -> list[str]:
    """Return the text of each observation, hints of the last one alone.

    With marks behind the lines that tell what no longer holds; of those that cover its
    slot behind the one of the fewest slots. `told_by` has the assertions.
    """
    found = [lines.prose(each, level=FULL) for each in log]
    found = [*map(without_hints, found[:-1]), *found[-1:]]
    every = [*log_marks]
    if not every:
        return found
    rows = [text.split("\n") for text in found]
    spans = [
        (int(slots[2] or slots[1]) - int(slots[1]), int(slots[1]), n, at)
        for n, lined in enumerate(rows)
        for at, row in enumerate(lined)
        if (slots := _SLOTS.fullmatch(row))
    ]
    spans.sort()
    behind: dict[tuple[int, int], list[Mark]] = {}
    for slot, marked in every:
        for size, first, *place in spans:
            if first <= slot <= first + size:
                behind.setdefault((place[0], place[1]), []).extend(marked)
                break
    for (n, at), every_mark in behind.items():
        rows[n][at] += f" {inert(marks.text(every_mark, told_by))}"
    return ["\n".join(lined) for lined in rows]


def tokens(opened: Opened, *, count: Count) -> int:
    """Count what an observation takes of a request's JSON."""
    return count(in_string(lines.prose(opened, level=FULL) + "\n"))


def without_hints(text: str) -> str:
    """Return the lines of an observation alone."""
    kept = [line for line in text.split("\n") if not line.startswith(HINT)]
    return "\n".join(kept)
