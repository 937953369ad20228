"""Progress of a project's search, which the page posts back. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

from memoryhub.queries.search.hits import Closeness
from memoryhub.queries.search.project_search import PASSES, ThreadFound
from memoryhub.queries.search.term_filters import Fit

#: A search goes on by itself for so many milliseconds of search, and so many hits with
#: the phrase. It shows so many hits with all words, and with some, and counts others.
BUDGET, CLOSE, WEAKER = 10_000, 200, 40
_CLOSEST: Mapping[Fit, Closeness] = {
    "phrase": "phrase",
    "unknown": "phrase",
    "all": "words",
    "some": "some",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectScan:
    """Progress of a project's search.

    No field may have the name of a built-in property of a form element.
    """

    #: Cursor of the next thread; empty at the beginning.
    cursor: str = ""
    #: Threads to search, counted as it began; threads passed, and threads with hits.
    threads: int = 0
    looked: int = 0
    found_in: int = 0
    #: Matches in total, and hits shown, by how close they are to the typed words.
    total: int = 0
    phrase_hits: int = 0
    word_hits: int = 0
    partial_hits: int = 0
    #: Milliseconds searched, and how often the operator has let the search go on.
    spent: int = 0
    further: int = 0
    #: Index of the pass in `PASSES`.
    later: int = 0
    #: `running`: the page asks for more by itself. `ended`: no threads are left.
    running: bool = True
    ended: bool = False

    @classmethod
    def from_post(cls, sent: Mapping[str, str]) -> ProjectScan:
        """Read the progress that a page posts back; an invalid number is 0."""
        numbers: Mapping[str, Any] = {
            name: _parse_count(sent.get(name, "")) for name, _ in cls().numbers
        }
        return cls(cursor=sent.get("cursor", ""), running="stop" not in sent, **numbers)

    @property
    def numbers(self) -> list[tuple[str, int]]:
        """Return the numbers that the page posts back, by name."""
        names = (each.name for each in fields(self) if each.type == "int")
        return [(name, getattr(self, name)) for name in names]

    @property
    def shown_hits(self) -> int:
        """Return the number of hits shown."""
        return self.phrase_hits + self.word_hits + self.partial_hits

    @property
    def closest(self) -> Closeness:
        """Return the closest hits that the threads of this pass can have."""
        return _CLOSEST[PASSES[min(self.later, len(PASSES) - 1)]]

    @property
    def awaits_closer(self) -> bool:
        """Tell whether closer hits than those shown may still come by themselves."""
        classes = get_args(Closeness)
        shown = (self.phrase_hits, self.word_hits, self.partial_hits)
        return self.running and not any(shown[: classes.index(self.closest) + 1])

    @property
    def next_further(self) -> int:
        """Return `further` as it is after the operator lets the search go on again."""
        return self.further + 1

    @property
    def can_go_on(self) -> bool:
        """Tell whether the search may go on by itself."""
        # A thread of a later pass holds no text with the phrase, or with all words.
        classes = get_args(Closeness)
        coming = classes[classes.index(self.closest) :]
        can_show = self.can_show("phrase") and any(map(self.can_show, coming))
        return can_show and self.spent < BUDGET * self.next_further

    def can_show(self, closeness: Closeness) -> bool:
        """Tell whether one more hit may be shown before the operator asks for more."""
        most = CLOSE if closeness == "phrase" else WEAKER
        shown = {
            "phrase": self.phrase_hits,
            "words": self.word_hits,
            "some": self.partial_hits,
        }
        return shown[closeness] < most * self.next_further

    def add_thread(self, found: ThreadFound, cursor: str) -> ProjectScan:
        """Return the progress after one more thread."""
        return replace(
            self,
            cursor=cursor,
            looked=self.looked + 1 if found.place.pass_at == self.later else 1,
            later=found.place.pass_at,
            found_in=self.found_in + bool(found.result.items),
            total=self.total + found.result.total,
        )

    def add_hits(self, shown: Iterable[Closeness]) -> ProjectScan:
        """Return the progress after hits were shown."""
        count = Counter(shown)
        return replace(
            self,
            phrase_hits=self.phrase_hits + count["phrase"],
            word_hits=self.word_hits + count["words"],
            partial_hits=self.partial_hits + count["some"],
        )


def _parse_count(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
