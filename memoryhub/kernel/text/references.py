"""References: ids that a message has in common with earlier ones. Pure, bounded."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator

#: Most ids of one text, most ids remembered, and most slots remembered per id.
IDS_OF_TEXT = 64
IDS_KEPT = 1_024
SLOTS_KEPT = 8
#: Least and most characters of an id: shorter words are too often no id, longer ones
#: are blobs.
LEAST, MOST = 5, 64

_WORD = re.compile(r"\w+", re.ASCII)


class References:
    """Index of ids in a thread: the newest slots that contain each id."""

    def __init__(self) -> None:
        self._slots: OrderedDict[str, tuple[int, ...]] = OrderedDict()

    def note(self, slot: int, text: str) -> list[tuple[int, ...]]:
        """Record a slot's text; return the earlier slots that contain each of its ids.

        Newest first; ids that no earlier slot contains are left out. From now on the
        index lists this slot for all its ids.
        """
        shared = []
        for each in list_ids(text):
            earlier = self._slots.pop(each, ())
            if earlier:
                shared.append(earlier)
            self._slots[each] = (slot, *earlier)[:SLOTS_KEPT]
        while len(self._slots) > IDS_KEPT:
            self._slots.popitem(last=False)
        return shared


def list_ids(text: str) -> list[str]:
    """List the likely ids of a text, each once: words of letters and digits."""
    found: dict[str, None] = {}
    for word in _iter_ids(text):
        found[word] = None
        if len(found) == IDS_OF_TEXT:
            break
    return list(found)


def _iter_ids(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text):
        word = match[0]
        if LEAST <= len(word) <= MOST and not word.isalpha():
            letters = any(each.isalpha() for each in word)
            if letters and any(each.isdigit() for each in word):
                yield word
