"""The paging part of a thread's state: frames, hot list, pins, TLB, budgets. Pure.

Every seq in it is the thread's clock: a fork's seqs follow on those it inherits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple, TypeVar

from rpds import HashTrieMap

from memoryhub.kernel.state.pages import Entry, Location
from memoryhub.kernel.state.paging_config import Settings
from memoryhub.kernel.state.tlb import Tlb
from memoryhub.kernel.state.tuples import with_quick_replace

#: Turns and pages after which the anti-thrash history forgets.
HISTORY_TURNS = 20
HISTORY_PAGES = 1_024
#: A fault on a page that left or came within so many turns is a refault.
REFAULT_TURNS = 5
#: Refusals of one exchange that are journaled; more are only answered.
REFUSALS_KEPT = 10
#: Exchanges that the resident rate is of.
EXCHANGES_KEPT = 20
#: Turns whose recording is known, so that a repeat writes nothing.
PACKED_KEPT = 20
#: Live pages of a thread; slots count.
MAX_PAGES = 10_000_000

Name = TypeVar("Name")
Value = TypeVar("Value")


class PagePart(NamedTuple):
    """A part of a page that is in the working set."""

    #: In tokens; None at the end of the text.
    offset: int
    end: int | None
    cost: int
    #: In which it was fetched.
    turn: int
    #: At which it was fetched.
    seq: int = 0


@with_quick_replace
class Frame(NamedTuple):
    """A page's place in the working set."""

    entry: Entry
    level: int
    #: Of its line at that level.
    tokens: int
    #: Since when it is mapped; its place in the context, unless it joins that later.
    mapped_seq: int
    referenced_seq: int
    referenced_turn: int
    references: int
    #: It was fetched back, and is shown so.
    recalled: bool
    #: Seq of the event that put it where it is.
    cause_seq: int
    #: Seq at which the exchange was over that it is a message of; 0 for what stands in
    #: the context since it was mapped.
    joined_seq: int = 0
    #: Those that are shown instead of all of FULL; in the order of the text.
    parts: tuple[PagePart, ...] = ()

    @property
    def page_id(self) -> str:
        return self.entry.page_id

    @property
    def place(self) -> tuple[int, int]:
        """Sorts frames as they stand in the context; never moves once it is there.

        Messages of one exchange join it together, in the order they were said.
        """
        return self.joined_seq or self.mapped_seq, self.entry.slot or 0


class Hot(NamedTuple):
    """A page that just left the working set, or found no room in it."""

    entry: Entry
    referenced_seq: int
    referenced_turn: int
    references: int
    #: Seq of the event that made it hot.
    since_seq: int

    @property
    def page_id(self) -> str:
        return self.entry.page_id


@with_quick_replace
class Past(NamedTuple):
    """When a page last came and went; what anti-thrash goes by."""

    faulted_turn: int | None = None
    evicted_turn: int | None = None
    #: Tokens the thread had evicted in all when this page went.
    evicted_tokens: int = 0
    #: It was mapped again since it went.
    back: bool = False

    @property
    def last_turn(self) -> int:
        return max(self.faulted_turn or 0, self.evicted_turn or 0)


class UserSlot(NamedTuple):
    """A message of the user: where an exchange begins."""

    slot: int
    seq: int


class Spent(NamedTuple):
    """What faults of this exchange have cost so far."""

    faults: int = 0
    tokens: int = 0
    refusals: int = 0


class Exchanges(NamedTuple):
    """Of how many exchanges the model fetched nothing: all it needed was resident."""

    begun: int = 0
    #: In which a page was fetched.
    faulted: int = 0
    #: Of the last `EXCHANGES_KEPT`, oldest first: whether nothing was fetched.
    last: tuple[bool, ...] = ()

    @property
    def faulted_lately(self) -> int:
        """In how many of the last a page was fetched."""
        return self.last.count(False)

    @property
    def rate(self) -> float | None:
        """Over the last of them; None before the first."""
        return resident_rate(len(self.last), self.faulted_lately)

    @property
    def rate_in_all(self) -> float | None:
        return resident_rate(self.begun, self.faulted)

    def begin(self, number: int) -> Exchanges:
        """Note a turn of that exchange."""
        if number <= self.begun:
            return self
        return Exchanges(number, self.faulted, (*self.last, True)[-EXCHANGES_KEPT:])

    def fault(self) -> Exchanges:
        """Note that a page was fetched in the exchange that goes on, if one does."""
        if not self.last or not self.last[-1]:
            return self
        return Exchanges(self.begun, self.faulted + 1, (*self.last[:-1], False))


class OwnTools(NamedTuple):
    """The definitions of an agent's own tools: where they lie, and what they take."""

    place: Location
    #: Keyed; of their text.
    digest: str
    tokens: int


class Brought(NamedTuple):
    """A page that a turn brought along unasked, of which its use is awaited."""

    page_id: str
    #: How it was found: a word of `levels.recalls.SOURCES`.
    source: str
    turn: int
    used: bool = False


class ToolUse(NamedTuple):
    """A tool of the agent's, and how often each page was read before it was called."""

    #: Keyed; of its name.
    digest: str
    #: The most often first.
    pages: tuple[tuple[str, int], ...] = ()


@with_quick_replace
class Paging(NamedTuple):
    """Residency of pages, and the counters of paging. Everything persistent.

    A tuple, for every event replaces it: a dataclass takes five times as long to.
    """

    #: Of the thread's config; derived, so no part of the canonical form.
    settings: Settings = Settings()
    frames: HashTrieMap[str, Frame] = HashTrieMap()
    #: Sum of the frames' tokens.
    used: int = 0
    hot: HashTrieMap[str, Hot] = HashTrieMap()
    #: Ids of the pages that were pinned by a command.
    pins: HashTrieMap[str, bool] = HashTrieMap()
    tlb: Tlb = Tlb()
    history: HashTrieMap[str, Past] = HashTrieMap()
    spent: Spent = Spent()
    exchanges: Exchanges = Exchanges()
    own_tools: OwnTools | None = None
    #: By the keyed digest of a call's id: the page that it has fetched, and where from.
    calls: tuple[tuple[str, tuple[str, Location]], ...] = ()
    #: Slots of this exchange that only called tools of ours, which brought nothing.
    asking: tuple[int, ...] = ()
    #: The newest user slot, and how many came since the last turn.
    last_user: UserSlot | None = None
    users_since_turn: int = 0
    #: Turns whose requests were recorded last, newest last.
    packed: tuple[int, ...] = ()
    #: What turns brought along of late; and pages that the newest request shows so.
    brought: tuple[Brought, ...] = ()
    in_recall: tuple[str, ...] = ()
    #: Tools as they were called, the last one last; and pages read since.
    tools: tuple[ToolUse, ...] = ()
    read_since: tuple[str, ...] = ()
    #: What is read before tools is noted: since its first request of a packer that
    #: brings it along, so that journals from before fold as they did.
    learns: bool = False
    #: Live pages, slots included.
    pages: int = 0
    #: Tokens evicted from the working set in all.
    evicted_tokens: int = 0
    #: (turn, refaults) of the turns that `REFAULT_TURNS` reaches back to.
    refaults: tuple[tuple[int, int], ...] = ()
    #: By page: the turn in which it last came back too soon.
    thrashing: HashTrieMap[str, int] = HashTrieMap()
    #: Cumulative, by closed words such as `fault.reason.speculative`.
    counts: HashTrieMap[str, int] = HashTrieMap()
    #: As they were when this turn began.
    turn_counts: HashTrieMap[str, int] = HashTrieMap()
    #: Hits and misses when this turn began.
    turn_lookups: tuple[int, int] = (0, 0)

    @property
    def resident(self) -> int:
        """Count the pages at hand: of the working set, and of the hot list."""
        return len(self.frames) + len(self.hot)

    def having(self, own: OwnTools | None) -> Paging:
        """Return the same with these tools, or none."""
        settings = replace(self.settings, tools_tokens=own.tokens if own else 0)
        return self._replace(own_tools=own, settings=settings)

    def carrying(self, tokens: int) -> Paging:
        """Return the same with requests that carry so many tokens of blocks."""
        return self._replace(settings=replace(self.settings, blocks_tokens=tokens))

    def promising(self, tokens: int) -> Paging:
        """Return the same with so many tokens kept free for recall."""
        return self._replace(settings=replace(self.settings, promised_tokens=tokens))

    def logging(self, tokens: int) -> Paging:
        """Return the same with requests that carry a log of so many tokens."""
        return self._replace(settings=replace(self.settings, log_tokens=tokens))

    @property
    def utilization(self) -> float:
        return self.used / self.settings.usable

    @property
    def crowded(self) -> bool:
        """Whether there is as much in the working set as an eviction run leaves."""
        return self.utilization >= self.settings.evict_to

    def in_order(self) -> list[Frame]:
        """Return the frames as they stand in the context."""
        return sorted(values(self.frames), key=attrgetter("place"))

    def oldest_first(self) -> list[Frame]:
        """Return the frames as they were mapped."""
        return sorted(values(self.frames), key=attrgetter("mapped_seq"))

    def exchange(self, slots: int) -> int | None:
        """Return where the exchange begins: at the last user slot, else the newest."""
        if self.last_user is not None:
            return self.last_user.slot
        return slots - 1 if slots else None

    def tier(self, page_id: str) -> str | None:
        """Return `L0` or `L1`; None for a page that is at home."""
        if page_id in self.frames:
            return "L0"
        return "L1" if page_id in self.hot else None

    def refault_count(self, turn: int) -> int:
        """Count refaults in the last `REFAULT_TURNS` turns, this one included."""
        return sum(n for at, n in self.refaults if at > turn - REFAULT_TURNS)


def resident_rate(exchanges: int, faulted: int) -> float | None:
    """Return the share of exchanges in which nothing was fetched; None of none."""
    return (exchanges - faulted) / exchanges if exchanges else None


def lately(exchanges: int) -> int:
    """Return how many of so many exchanges a rate looks at: the last ones."""
    return min(exchanges, EXCHANGES_KEPT)


def listed(pages: HashTrieMap[Name, Value]) -> list[tuple[Name, Value]]:
    """Return a map's items, in no order that would mean anything.

    By how it is pickled, which lists all at once: its iterator takes one after the
    other out of a map of its own, and needs twenty times as long.
    """
    items: list[tuple[Name, Value]]
    items = pages.__reduce__()[1][0]  # type: ignore[assignment]  # what it is made of
    return items


def values(pages: HashTrieMap[str, Value]) -> list[Value]:
    return [value for _, value in listed(pages)]


def counted(
    counts: HashTrieMap[str, int], names: Iterable[str], *, by: int = 1
) -> HashTrieMap[str, int]:
    """Move each of these counters on."""
    for name in names:
        counts = counts.insert(name, counts.get(name, 0) + by)
    return counts
