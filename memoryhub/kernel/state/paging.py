"""The paging part of a thread's state: frames, hot list, pins, TLB, budgets. Pure.

Every seq in it is the thread's clock: a fork's seqs follow on those it inherits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple, TypeVar

from rpds import HashTrieMap

from memoryhub.kernel.state.pages import Location, PageEntry
from memoryhub.kernel.state.paging_config import PagingSettings
from memoryhub.kernel.state.tlb import Tlb
from memoryhub.kernel.state.tuples import add_quick_replace

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
    """A part of a page in the working set."""

    #: Begin and end in tokens; an end of None is the end of the text.
    offset: int
    end: int | None
    cost: int
    #: Turn in which the part was fetched.
    turn: int
    #: Seq at which the part was fetched.
    seq: int = 0


@add_quick_replace
class Frame(NamedTuple):
    """A page's place in the working set."""

    entry: PageEntry
    level: int
    #: Tokens of the page's line at that level.
    tokens: int
    #: Seq since which the page is mapped: its place in the context, unless the page
    #: joins the context later.
    mapped_seq: int
    referenced_seq: int
    referenced_turn: int
    references: int
    #: Whether the page was fetched back, and is shown as recalled.
    recalled: bool
    #: Seq of the event that put the page into this frame.
    cause_seq: int
    #: Seq at which the message's exchange ended; 0 for a page that entered the context
    #: when it was mapped. See decision 13.
    joined_seq: int = 0
    #: Parts shown instead of all of FULL, in the order of the text.
    parts: tuple[PagePart, ...] = ()
    #: Whether the page was used since the hand of `sieve` last passed the frame.
    #: Only a thread with that policy sets the bit.
    visited: bool = False

    @property
    def page_id(self) -> str:
        return self.entry.page_id

    @property
    def place(self) -> tuple[int, int]:
        """Sort key of a frame in the context; fixed once the frame is there.

        Messages of one exchange join the context together, in order of slots.
        """
        return self.joined_seq or self.mapped_seq, self.entry.slot or 0


class Hot(NamedTuple):
    """A page of the hot list: just evicted, or without room in the working set."""

    entry: PageEntry
    referenced_seq: int
    referenced_turn: int
    references: int
    #: Seq of the event that made the page hot.
    since_seq: int

    @property
    def page_id(self) -> str:
        return self.entry.page_id


@add_quick_replace
class Past(NamedTuple):
    """Turns of a page's last fault and eviction, used against thrashing."""

    faulted_turn: int | None = None
    evicted_turn: int | None = None
    #: Tokens the thread had evicted in total when this page left.
    evicted_tokens: int = 0
    #: Whether the page was mapped again since its eviction.
    back: bool = False

    @property
    def last_turn(self) -> int:
        return max(self.faulted_turn or 0, self.evicted_turn or 0)


class UserSlot(NamedTuple):
    """A message of the user, which begins an exchange."""

    slot: int
    seq: int


class FaultSpend(NamedTuple):
    """Cost of the page faults of the current exchange so far."""

    faults: int = 0
    tokens: int = 0
    refusals: int = 0


class Exchanges(NamedTuple):
    """Counts of exchanges with and without page faults."""

    begun: int = 0
    #: Exchanges in which a page was fetched.
    faulted: int = 0
    #: Whether nothing was fetched, for the last `EXCHANGES_KEPT`, oldest first.
    last: tuple[bool, ...] = ()

    @property
    def faulted_lately(self) -> int:
        """Number of the last exchanges in which a page was fetched."""
        return self.last.count(False)

    @property
    def rate(self) -> float | None:
        """Share of the last exchanges without a fault; None before the first."""
        return compute_resident_rate(len(self.last), self.faulted_lately)

    @property
    def rate_in_all(self) -> float | None:
        return compute_resident_rate(self.begun, self.faulted)

    def begin(self, number: int) -> Exchanges:
        """Return a copy after a turn of exchange `number` began."""
        if number <= self.begun:
            return self
        return Exchanges(number, self.faulted, (*self.last, True)[-EXCHANGES_KEPT:])

    def fault(self) -> Exchanges:
        """Return a copy after a page was fetched in the current exchange, if any."""
        if not self.last or not self.last[-1]:
            return self
        return Exchanges(self.begun, self.faulted + 1, (*self.last[:-1], False))


class OwnTools(NamedTuple):
    """Place and size of the definitions of an agent's own tools."""

    place: Location
    #: Keyed digest of the definitions' text.
    digest: str
    tokens: int


class RecalledPage(NamedTuple):
    """A page that a turn recalled unasked and that the model may still use."""

    page_id: str
    #: Way the page was found: a word of `levels.recalls.SOURCES`.
    source: str
    turn: int
    used: bool = False


class ToolReads(NamedTuple):
    """A tool of the agent, and how often each page was read before a call of it."""

    #: Keyed digest of the tool's name.
    digest: str
    #: Pairs (page id, reads), most frequent first.
    pages: tuple[tuple[str, int], ...] = ()


class ClaimUse(NamedTuple):
    """A claim, and how often it was referred to or fetched, in any tier."""

    page_id: str
    uses: int
    #: Clock of the newest use.
    clock: int


@add_quick_replace
class Paging(NamedTuple):
    """Residency of pages, and the counters of paging, in persistent collections.

    A tuple, since every event replaces the whole: a dataclass takes five times as long.
    """

    #: Derived from the thread's config, so no part of the canonical form.
    settings: PagingSettings = PagingSettings()
    frames: HashTrieMap[str, Frame] = HashTrieMap()
    #: Sum of the frames' tokens.
    used: int = 0
    hot: HashTrieMap[str, Hot] = HashTrieMap()
    #: Place of `sieve`'s hand: the `mapped_seq` of the page that it took last.
    hand: int = 0
    #: Ids of the pages that a command pinned.
    pins: HashTrieMap[str, bool] = HashTrieMap()
    tlb: Tlb = Tlb()
    history: HashTrieMap[str, Past] = HashTrieMap()
    spent: FaultSpend = FaultSpend()
    exchanges: Exchanges = Exchanges()
    own_tools: OwnTools | None = None
    #: Pages fetched by tool calls: (keyed digest of call id, (page id, place)).
    calls: tuple[tuple[str, tuple[str, Location]], ...] = ()
    #: Slots of this exchange that only called tools of the hub, without a result.
    asking: tuple[int, ...] = ()
    #: Newest user slot, and the number of user slots since the last turn.
    last_user: UserSlot | None = None
    users_since_turn: int = 0
    #: Turns whose requests were recorded last, newest last.
    packed: tuple[int, ...] = ()
    #: Pages that recent turns recalled, and those that the newest request shows.
    brought: tuple[RecalledPage, ...] = ()
    in_recall: tuple[str, ...] = ()
    #: Tools in the order of their calls, newest last, and pages read since.
    tools: tuple[ToolReads, ...] = ()
    read_since: tuple[str, ...] = ()
    #: Whether reads before tool calls are noted: from the first request of a packer
    #: that recalls by these reads, so that older journals fold unchanged.
    learns: bool = False
    #: Most used claims, and whether their uses are counted: from the first request of
    #: a packer that recalls claims of any tier.
    claims: tuple[ClaimUse, ...] = ()
    counts_claims: bool = False
    #: Live pages, slots included.
    pages: int = 0
    #: Tokens evicted from the working set in total.
    evicted_tokens: int = 0
    #: (turn, refaults) of the turns that `REFAULT_TURNS` reaches back to.
    refaults: tuple[tuple[int, int], ...] = ()
    #: By page: turn in which the page last returned too soon.
    thrashing: HashTrieMap[str, int] = HashTrieMap()
    #: Cumulative, by closed words such as `fault.reason.speculative`.
    counts: HashTrieMap[str, int] = HashTrieMap()
    #: The counts when this turn began.
    turn_counts: HashTrieMap[str, int] = HashTrieMap()
    #: Hits and misses when this turn began.
    turn_lookups: tuple[int, int] = (0, 0)

    @property
    def resident(self) -> int:
        """Number of pages in the working set and in the hot list."""
        return len(self.frames) + len(self.hot)

    def set_own_tools(self, own: OwnTools | None) -> Paging:
        """Return a copy with the agent's own tools, or with none."""
        settings = replace(self.settings, tools_tokens=own.tokens if own else 0)
        return self._replace(own_tools=own, settings=settings)

    def set_blocks_tokens(self, tokens: int) -> Paging:
        """Return a copy whose requests carry so many tokens of blocks."""
        return self._replace(settings=replace(self.settings, blocks_tokens=tokens))

    def set_promised_tokens(self, tokens: int) -> Paging:
        """Return a copy that keeps so many tokens free for recall."""
        return self._replace(settings=replace(self.settings, promised_tokens=tokens))

    def set_log_tokens(self, tokens: int) -> Paging:
        """Return a copy whose requests carry a log of so many tokens."""
        return self._replace(settings=replace(self.settings, log_tokens=tokens))

    @property
    def utilization(self) -> float:
        return self.used / self.settings.usable

    @property
    def is_crowded(self) -> bool:
        """Whether the working set is at least as full as after an eviction run."""
        return self.utilization >= self.settings.evict_to

    def list_in_context_order(self) -> list[Frame]:
        """List the frames in the order of the context."""
        return sorted(list_values(self.frames), key=attrgetter("place"))

    def list_oldest_first(self) -> list[Frame]:
        """List the frames in the order of their mapping, oldest first."""
        return sorted(list_values(self.frames), key=attrgetter("mapped_seq"))

    def list_hand_order(self) -> list[Frame]:
        """List the frames in the order in which the hand of `sieve` would take them.

        The hand goes from the page after the last victim to the newest, then on from
        the oldest. The first round takes pages without the bit, the second all others.
        """
        return sorted(
            list_values(self.frames),
            key=lambda each: (
                each.visited,
                each.mapped_seq <= self.hand,
                each.mapped_seq,
            ),
        )

    def move_hand(self, frame: Frame) -> Paging:
        """Return a copy whose hand stands at a frame; clears the bits that it passed.

        A frame with the bit is taken in the second round, so the hand passed all.
        """
        to, hand, frames = frame.mapped_seq, self.hand, self.frames
        for each in list_values(frames):
            if each.visited and (
                frame.visited
                or (hand < each.mapped_seq <= to)
                or (to <= hand and not to < each.mapped_seq <= hand)
            ):
                frames = frames.insert(each.page_id, each._replace(visited=False))
        return self._replace(frames=frames, hand=to)

    def find_exchange_begin(self, slots: int) -> int | None:
        """Find the slot that begins the exchange: last user slot, else the newest."""
        if self.last_user is not None:
            return self.last_user.slot
        return slots - 1 if slots else None

    def find_tier(self, page_id: str) -> str | None:
        """Find a page's tier: `L0` or `L1`; None for a page in its home tier."""
        if page_id in self.frames:
            return "L0"
        return "L1" if page_id in self.hot else None

    def count_refaults(self, turn: int) -> int:
        """Count refaults in the last `REFAULT_TURNS` turns, including `turn`."""
        return sum(n for at, n in self.refaults if at > turn - REFAULT_TURNS)


def compute_resident_rate(exchanges: int, faulted: int) -> float | None:
    """Compute the share of exchanges without a page fault; None for 0 exchanges."""
    return (exchanges - faulted) / exchanges if exchanges else None


def count_rated_exchanges(exchanges: int) -> int:
    """Return the number of last exchanges, of `exchanges`, that a rate covers."""
    return min(exchanges, EXCHANGES_KEPT)


def list_items(pages: HashTrieMap[Name, Value]) -> list[tuple[Name, Value]]:
    """List a map's items, in arbitrary order.

    Reads the pickled form, which lists all items at once: the map's iterator removes
    items one by one from a copy, and takes twenty times as long.
    """
    items: list[tuple[Name, Value]]
    items = pages.__reduce__()[1][0]  # type: ignore[assignment]  # what it is made of
    return items


def list_values(pages: HashTrieMap[str, Value]) -> list[Value]:
    """List a map's values, in arbitrary order."""
    return [value for _, value in list_items(pages)]


def add_counts(
    counts: HashTrieMap[str, int], names: Iterable[str], *, by: int = 1
) -> HashTrieMap[str, int]:
    """Return the counters with `by` added to each named counter."""
    for name in names:
        counts = counts.insert(name, counts.get(name, 0) + by)
    return counts
