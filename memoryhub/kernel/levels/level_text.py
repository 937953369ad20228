"""Levels of a text by `extract/1`: an excerpt, its beginning, its first line.

Pure, deterministic, linear. Each function gives None where nothing useful fits.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from memoryhub.kernel.levels.tokens import Count, fitting

GAP, END = " […] ", "[…]"

#: The end of a unit, a sentence or a line. It begins with one of a few characters and
#: looks at two more at most, so that no text makes the search slow.
_UNIT_END = re.compile(r"""[.!?。！？\n](?:(?<=[。！？\n])|["'”’)\]]?(?=\s))""")
_WINDOW = 4_096
#: What has no unit end within so many characters has no units worth the name.
_FARTHEST = 65_536
#: Rounds for a count that does not simply add up.
_ROUNDS = 4


def reduced(text: str, *, cap: int, count: Count) -> str | None:
    """Return whole units from the start to 70 % of `cap`, and from the end up to it."""
    text = text.strip()
    return _capped(lambda room: _excerpt(text, room, count), cap, count)


def abstract(text: str, *, cap: int, count: Count) -> str | None:
    """Return the leading whole units that fit `cap`."""
    text = text.strip()
    return _capped(lambda room: _beginning(text, room, count), cap, count)


def reference(text: str, *, label: str, cap: int, count: Count) -> str | None:
    """`label` and the first line that is not empty."""
    first = text.lstrip().partition("\n")[0].rstrip()

    def made(room: int) -> str:
        kept = shortened(first, room - count(label), count=count)
        return label + kept if kept else ""

    return _capped(made, cap, count)


def shortened(text: str, room: int, *, count: Count) -> str:
    """Return `text` if it fits, else its beginning and a mark.

    Empty if not one character fits.
    """
    if count(text) <= room:
        return text
    kept = text[: fitting(text, room - count(END), count=count)].rstrip()
    return kept + END if kept else ""


def _capped(make: Callable[[int], str], cap: int, count: Count) -> str | None:
    """What `make` makes of a room of `cap`, or of less if that comes out too large."""
    room = cap
    for _ in range(_ROUNDS):
        made = make(room) if room > 0 else ""
        over = count(made) - cap
        if over <= 0:
            return made or None
        room -= over
    return None


def _excerpt(text: str, room: int, count: Count) -> str:
    head = _leading(text, room * 7 // 10, count).rstrip()
    if not head:
        head = text[: fitting(text, room * 7 // 10, count=count)].rstrip()
    rest = room - count(head) - count(GAP)
    tail = _trailing(text[len(head) :], rest, count).lstrip()
    if head and tail:
        return head + GAP + tail
    # The last unit is too long to be shown whole, so the beginning has all the room.
    return _beginning(text, room, count)


def _beginning(text: str, room: int, count: Count) -> str:
    head = _leading(text, room - count(" " + END), count).rstrip()
    if head:
        return f"{head} {END}"
    kept = text[: fitting(text, room - count(END), count=count)].rstrip()
    return kept + END if kept else ""


def _leading(text: str, room: int, count: Count) -> str:
    """Whole units from the start."""
    end = fitting(text, room, count=count)
    if end == len(text):
        return text
    window = _WINDOW
    while end > 0:
        # One character more, as a sentence ends before a space.
        found = _UNIT_END.finditer(text, max(0, end - window), end + 1)
        ends = [match.end() for match in found if match.end() <= end]
        if ends:
            return text[: ends[-1]]
        if window >= min(end, _FARTHEST):
            break
        window *= 2
    return ""


def _trailing(text: str, room: int, count: Count) -> str:
    """Whole units from the end."""
    kept = fitting(text, room, count=count, last=True)
    if kept == len(text):
        return text
    # A unit may end on the very character before those that fit.
    start = len(text) - kept - 1
    found = _UNIT_END.search(text, start, start + _FARTHEST)
    return text[found.end() :] if found else ""
