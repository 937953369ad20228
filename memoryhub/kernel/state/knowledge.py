"""Knowledge: the assertions of a subject's home thread, by the seqs of their events.

The content of an assertion is sealed in a payload and in rows. Home threads are no
forks, so a seq is a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple

from rpds import HashTrieMap

from memoryhub.kernel.state.paging import list_items

Origin = Literal["agent", "model", "operator", "import"]
Cardinality = Literal["single", "multi"]


class AssertionState(NamedTuple):
    """State of one assertion: its origin, and its retraction if there is one."""

    origin: Origin
    retracted_seq: int | None = None
    #: Whether the assertion was retracted as wrong.
    wrong: bool = False


class FailedExchange(NamedTuple):
    """An exchange whose consolidation has failed so far."""

    begin: int
    end: int
    attempts: int
    #: Instant of the next attempt; None: the exchange was given up.
    retry_at: datetime | None


class ConsolidationState(NamedTuple):
    """Consolidated exchanges of a thread; the worker takes the newest first."""

    #: Slot before whose index all exchanges were consolidated, two exceptions aside.
    to: int = 0
    #: First exception: failed exchanges, ordered by begin.
    failed: tuple[FailedExchange, ...] = ()
    #: Second exception: exchanges that begin in [first, end), passed over for newer.
    skipped: tuple[tuple[int, int], ...] = ()

    def find_failed(self, begin: int) -> FailedExchange | None:
        """Return the failed exchange that begins at slot `begin`, or None."""
        return next((each for each in self.failed if each.begin == begin), None)

    def has_asked(self, begin: int) -> bool:
        """Return whether the model was asked about the exchange at slot `begin`."""
        skipped = any(first <= begin < end for first, end in self.skipped)
        return begin < self.to and not skipped

    def mark_asked(
        self, begin: int, to: int, skipped_from: int | None
    ) -> ConsolidationState:
        """Return a copy in which the model was asked about the exchange [begin, to).

        Exchanges from slot `skipped_from` up to `begin` count as passed over.
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
    def from_json(cls, plain: list[Any]) -> ConsolidationState:
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
    """All assertions, retracted too, and the cardinalities that operators set."""

    assertions: HashTrieMap[int, AssertionState] = HashTrieMap()
    configured: HashTrieMap[int, Cardinality | None] = HashTrieMap()
    #: Consolidation state by the id of a thread of the subject.
    consolidated: HashTrieMap[str, ConsolidationState] = HashTrieMap()
    #: Sorted hosts of the models that received exchanges.
    hosts: tuple[str, ...] = ()
    #: First slots of exchanges whose consolidation was requested, by thread, sorted.
    requested: HashTrieMap[str, tuple[int, ...]] = HashTrieMap()

    def __bool__(self) -> bool:
        return self.size > 0

    @property
    def size(self) -> int:
        return (
            len(self.assertions)
            + len(self.configured)
            + len(self.consolidated)
            + len(self.requested)
        )

    def remove_erased(self, gone: Callable[[int], bool]) -> Knowledge:
        """Return a copy without the assertions and settings whose seqs are `gone`."""
        assertions, configured = self.assertions, self.configured
        for seq in [seq for seq in assertions if gone(seq)]:
            assertions = assertions.remove(seq)
        for seq in [seq for seq in configured if gone(seq)]:
            configured = configured.remove(seq)
        return self._replace(assertions=assertions, configured=configured)

    def drop_request(self, thread: str, begin: int) -> Knowledge:
        """Return a copy without the request for the exchange, if there is one."""
        held = self.requested.get(thread, ())
        left = tuple(each for each in held if each != begin)
        if left == held:
            return self
        requested = self.requested.remove(thread)
        return self._replace(
            requested=requested.insert(thread, left) if left else requested
        )

    def to_json(self) -> dict[str, Any]:
        """Return the canonical form: plain JSON values, sorted."""
        plain: dict[str, Any] = {
            "assertions": [
                [s, *each] for s, each in sorted(list_items(self.assertions))
            ],
            "configured": [[*each] for each in sorted(list_items(self.configured))],
        }
        if self.consolidated:
            plain["consolidated"] = {
                thread: each.to_json()
                for thread, each in sorted(list_items(self.consolidated))
            }
        if self.hosts:
            plain["hosts"] = [*self.hosts]
        if self.requested:
            plain["requested"] = {
                thread: [*begins]
                for thread, begins in sorted(list_items(self.requested))
            }
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Knowledge:
        """Build knowledge from the result of `to_json`."""
        rows = plain.get("assertions", ())
        return cls(
            HashTrieMap({seq: AssertionState(*each) for seq, *each in rows}),
            HashTrieMap(dict(plain.get("configured", ()))),
            HashTrieMap(
                {
                    thread: ConsolidationState.from_json(each)
                    for thread, each in plain.get("consolidated", {}).items()
                }
            ),
            tuple(plain.get("hosts", ())),
            HashTrieMap(
                {
                    thread: tuple(begins)
                    for thread, begins in plain.get("requested", {}).items()
                }
            ),
        )
