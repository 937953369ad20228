"""References: ids that a message has in common with earlier ones. Pure, bounded."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator

#: Ids of one text that count, and ids and messages by id that are remembered.
IDS_OF_TEXT = 64
IDS_KEPT = 1_024
SLOTS_KEPT = 8
#: Shorter words are too often no id, longer ones are blobs.
LEAST, MOST = 5, 64

_WORD = re.compile(r"\w+", re.ASCII)


class References:
    """Which slots of a thread hold which ids, the newest of each."""

    def __init__(self) -> None:
        self._slots: OrderedDict[str, tuple[int, ...]] = OrderedDict()

    def note(self, slot: int, text: str) -> list[tuple[int, ...]]:
        """Note a slot's text; return the earlier slots that hold each id of it too.

        Newest first; ids that no earlier slot holds are left out. From now on this slot
        holds them all.
        """
        shared = []
        for each in ids(text):
            earlier = self._slots.pop(each, ())
            if earlier:
                shared.append(earlier)
            self._slots[each] = (slot, *earlier)[:SLOTS_KEPT]
        while len(self._slots) > IDS_KEPT:
            self._slots.popitem(last=False)
        return shared


def ids(text: str) -> list[str]:
    """List what looks like an id, each once: a word of letters and digits."""
    found: dict[str, None] = {}
    for word in _words(text):
        found[word] = None
        if len(found) == IDS_OF_TEXT:
            break
    return list(found)


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text):
        word = match[0]
        if LEAST <= len(word) <= MOST and not word.isalpha():
            letters = any(each.isalpha() for each in word)
            if letters and any(each.isdigit() for each in word):
                yield word
