"""Levels of a text by `extract/1`: an excerpt, its beginning, its first line.

Pure, deterministic, linear. Each function returns None where nothing useful fits.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from memoryhub.kernel.context.tokens import Count, count_fitting

GAP, END = " […] ", "[…]"

#: The end of a unit, a sentence or a line. It begins with one of a few characters and
#: looks at two more at most, so that no text makes the search slow.
_UNIT_END = re.compile(r"""[.!?。！？\n](?:(?<=[。！？\n])|["'”’)\]]?(?=\s))""")
_WINDOW = 4_096
#: Characters searched for a unit end; a text without one there has no useful units.
_FARTHEST = 65_536
#: Rounds for a tokenizer whose counts do not simply add up.
_ROUNDS = 4


def reduce_text(text: str, *, cap: int, count: Count) -> str | None:
    """Return whole units from the start to 70 % of `cap`, and from the end up to it."""
    text = text.strip()
    return _fit_cap(lambda room: _build_excerpt(text, room, count), cap, count)


def abstract_text(text: str, *, cap: int, count: Count) -> str | None:
    """Return the leading whole units that fit `cap`."""
    text = text.strip()
    return _fit_cap(lambda room: _build_beginning(text, room, count), cap, count)


def render_text_reference(
    text: str, *, label: str, cap: int, count: Count
) -> str | None:
    """Render `label` and the first line that is not empty."""
    first = text.lstrip().partition("\n")[0].rstrip()

    def render_within(room: int) -> str:
        kept = shorten_text(first, room - count(label), count=count)
        return label + kept if kept else ""

    return _fit_cap(render_within, cap, count)


def shorten_text(text: str, room: int, *, count: Count) -> str:
    """Return `text` if it fits, else its beginning and a mark.

    Empty if not one character fits.
    """
    if count(text) <= room:
        return text
    kept = text[: count_fitting(text, room - count(END), count=count)].rstrip()
    return kept + END if kept else ""


def _fit_cap(make: Callable[[int], str], cap: int, count: Count) -> str | None:
    """Call `make` with a room of `cap`; retry with less if its text is too large."""
    room = cap
    for _ in range(_ROUNDS):
        made = make(room) if room > 0 else ""
        over = count(made) - cap
        if over <= 0:
            return made or None
        room -= over
    return None


def _build_excerpt(text: str, room: int, count: Count) -> str:
    head = _take_leading_units(text, room * 7 // 10, count).rstrip()
    if not head:
        head = text[: count_fitting(text, room * 7 // 10, count=count)].rstrip()
    rest = room - count(head) - count(GAP)
    tail = _take_trailing_units(text[len(head) :], rest, count).lstrip()
    if head and tail:
        return head + GAP + tail
    # The last unit is too long to be shown whole, so the beginning gets all the room.
    return _build_beginning(text, room, count)


def _build_beginning(text: str, room: int, count: Count) -> str:
    head = _take_leading_units(text, room - count(" " + END), count).rstrip()
    if head:
        return f"{head} {END}"
    kept = text[: count_fitting(text, room - count(END), count=count)].rstrip()
    return kept + END if kept else ""


def _take_leading_units(text: str, room: int, count: Count) -> str:
    """Return the leading whole units that fit."""
    end = count_fitting(text, room, count=count)
    if end == len(text):
        return text
    window = _WINDOW
    while end > 0:
        # Search one character further, as a sentence ends before a space.
        found = _UNIT_END.finditer(text, max(0, end - window), end + 1)
        ends = [match.end() for match in found if match.end() <= end]
        if ends:
            return text[: ends[-1]]
        if window >= min(end, _FARTHEST):
            break
        window *= 2
    return ""


def _take_trailing_units(text: str, room: int, count: Count) -> str:
    """Return the trailing whole units that fit."""
    kept = count_fitting(text, room, count=count, last=True)
    if kept == len(text):
        return text
    # A unit may end on the very character before those that fit.
    start = len(text) - kept - 1
    found = _UNIT_END.search(text, start, start + _FARTHEST)
    return text[found.end() :] if found else ""
