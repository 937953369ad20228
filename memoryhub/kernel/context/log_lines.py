"""The log of observations in a request's head: texts in order, hints last. Pure.

An observation's text cannot close a fence, as it is that of a page of the head. Marks
of parts that no longer hold stand behind the line that states them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Final

from memoryhub.kernel.context import lines, marks
from memoryhub.kernel.context.contexts import OutdatedMark, SlotMarks, Texts
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.context.tokens import Count
from memoryhub.kernel.state.pages import FULL
from memoryhub.kernel.text.json_text import escape_for_string, make_inert

FENCE = "VM:LOG"
#: Prefix of an observation's lines about current work and what could be said next; only
#: those of the newest observation hold.
HINT = "→ "
_NOTHING: Final[Texts] = MappingProxyType({})
#: Slots that a line covers, named at the line's end.
_SLOTS: Final = re.compile(r"- .* \[([0-9]+)(?:-([0-9]+))?\]")


def list_texts(
    log: Sequence[OpenedPage],
    log_marks: Iterable[SlotMarks] = (),
    told_by: Texts = _NOTHING,
) -> list[str]:
    """Return the text of each observation, with hints only in the last one.

    Marks stand behind the lines that state what no longer holds. If several lines cover
    a slot, the line of the fewest slots gets the mark. `told_by` has the assertions.
    """
    found = [lines.render_prose(each, level=FULL) for each in log]
    found = [*map(remove_hints, found[:-1]), *found[-1:]]
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
    behind: dict[tuple[int, int], list[OutdatedMark]] = {}
    for slot, marked in every:
        for size, first, *place in spans:
            if first <= slot <= first + size:
                behind.setdefault((place[0], place[1]), []).extend(marked)
                break
    for (n, at), every_mark in behind.items():
        rows[n][at] += f" {make_inert(marks.render_marks(every_mark, told_by))}"
    return ["\n".join(lined) for lined in rows]


def count_tokens(opened: OpenedPage, *, count: Count) -> int:
    """Count the tokens of an observation in a request's JSON."""
    return count(escape_for_string(lines.render_prose(opened, level=FULL) + "\n"))


def remove_hints(text: str) -> str:
    """Return the lines of an observation without its hints."""
    kept = [line for line in text.split("\n") if not line.startswith(HINT)]
    return "\n".join(kept)
