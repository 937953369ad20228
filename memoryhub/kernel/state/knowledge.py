"""Knowledge: which assertions a subject's home thread has, by the seqs of their events.

What they say is sealed, and stands in rows for as long as it is. Home threads are no
forks, so a seq is a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from rpds import HashTrieMap

from memoryhub.kernel.state.paging import listed

Origin = Literal["agent", "model", "operator", "import"]
Cardinality = Literal["single", "multi"]


class Asserted(NamedTuple):
    """An assertion."""

    origin: Origin
    retracted_seq: int | None = None
    #: It was retracted as wrong.
    wrong: bool = False


class FailedExchange(NamedTuple):
    """An exchange of which nothing was learnt yet."""

    begin: int
    end: int
    attempts: int
    #: When it is due again; None: it was given up.
    retry_at: datetime | None


class Consolidated(NamedTuple):
    """Exchanges of a thread that were consolidated; the newest come first."""

    #: All that begin before this slot were.
    to: int = 0
    #: But for these, in the order of their begin.
    failed: tuple[FailedExchange, ...] = ()
    #: Nor were those that begin in [first, end): newer ones came before them.
    skipped: tuple[tuple[int, int], ...] = ()

    def find(self, begin: int) -> FailedExchange | None:
        """Return the failed exchange that begins there."""
        return next((each for each in self.failed if each.begin == begin), None)

    def was_asked(self, begin: int) -> bool:
        """Return whether the model was asked about the exchange that begins there."""
        skipped = any(first <= begin < end for first, end in self.skipped)
        return begin < self.to and not skipped

    def with_asked(self, begin: int, to: int, skipped_from: int | None) -> Consolidated:
        """Return it once the exchange [begin, to) was asked about.

        With `skipped_from` those that begin from there on were passed over.
        """
        skipped = list[tuple[int, int]]()
        for first, end in self.skipped:
            parts = (first, min(end, begin)), (max(first, to), end)
            skipped += [(low, high) for low, high in parts if low < high]
        if skipped_from is not None:
            skipped.append((skipped_from, begin))
        return self._replace(to=max(self.to, to), skipped=tuple(skipped))

    def to_json(self) -> list[Any]:
        failed = [
            [*each[:3], each.retry_at and each.retry_at.isoformat()]
            for each in self.failed
        ]
        skipped = [[*each] for each in self.skipped]
        return [self.to, failed, skipped] if skipped else [self.to, failed]

    @classmethod
    def from_json(cls, plain: list[Any]) -> Consolidated:
        to, failed, *skipped = plain
        return cls(
            to,
            tuple(
                FailedExchange(begin, end, n, at and datetime.fromisoformat(at))
                for begin, end, n, at in failed
            ),
            tuple((first, end) for each in skipped for first, end in each),
        )


class Knowledge(NamedTuple):
    """All assertions, retracted ones too, and what operators said of timelines."""

    assertions: HashTrieMap[int, Asserted] = HashTrieMap()
    configured: HashTrieMap[int, Cardinality | None] = HashTrieMap()
    #: By the id of a thread of the subject.
    consolidated: HashTrieMap[str, Consolidated] = HashTrieMap()
    #: Of the models that were given exchanges, sorted.
    hosts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.size > 0

    @property
    def size(self) -> int:
        return len(self.assertions) + len(self.configured) + len(self.consolidated)

    def without(self, gone: Callable[[int], bool]) -> Knowledge:
        """Return what is left once records are erased."""
        assertions, configured = self.assertions, self.configured
        for seq in [seq for seq in assertions if gone(seq)]:
            assertions = assertions.remove(seq)
        for seq in [seq for seq in configured if gone(seq)]:
            configured = configured.remove(seq)
        return self._replace(assertions=assertions, configured=configured)

    def to_json(self) -> dict[str, Any]:
        """Return the canonical form: plain JSON values, sorted."""
        plain: dict[str, Any] = {
            "assertions": [[s, *each] for s, each in sorted(listed(self.assertions))],
            "configured": [[*each] for each in sorted(listed(self.configured))],
        }
        if self.consolidated:
            plain["consolidated"] = {
                thread: each.to_json()
                for thread, each in sorted(listed(self.consolidated))
            }
        if self.hosts:
            plain["hosts"] = [*self.hosts]
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Knowledge:
        """Return the knowledge whose `to_json` this is."""
        rows = plain.get("assertions", ())
        return cls(
            HashTrieMap({seq: Asserted(*each) for seq, *each in rows}),
            HashTrieMap(dict(plain.get("configured", ()))),
            HashTrieMap(
                {
                    thread: Consolidated.from_json(each)
                    for thread, each in plain.get("consolidated", {}).items()
                }
            ),
            tuple(plain.get("hosts", ())),
        )
