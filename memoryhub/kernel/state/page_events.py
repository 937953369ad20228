"""Event bodies of paging: the journal is the mutation log. Pydantic, frozen, strict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from pydantic import Field

from memoryhub.kernel.state.bodies import (
    Body,
    Count,
    EventBody,
    Figure,
    Flag,
    Number,
    Parts,
    SearchSpec,
    Share,
    Size,
    Switch,
    Token,
)
from memoryhub.kernel.state.context_bodies import (
    LogMarksBody,
    ManifestBody,
    RecallBody,
    SectionBody,
)
from memoryhub.kernel.state.pages import (
    Level,
    Modality,
    PageType,
    Tier,
    is_procedure_id,
)
from memoryhub.kernel.state.paging_config import Mode, Policy
from memoryhub.kernel.text.names import Name

Cause = Literal[
    "append",
    "brought",
    "command",
    "fault",
    "upgrade",
    "turn",
    "prefetch",
    "pre_pass",
    "answered",
    "pressure",
    "shrink",
    "observed",
    "restore",
]
#: Actor on whose account a step of paging happened.
By = Literal["user", "model", "tool", "system"]
Lookup = Literal["hit", "miss"]
Reason = Literal[
    "user_requested_recall", "resolve_reference", "tool_prereq", "speculative"
]
Refused = Literal[
    "page_unknown",
    "page_erased",
    "fault_confidence",
    "fault_budget",
    "fault_tokens",
    "no_room",
]


class LevelBody(Body):
    """Place and size of a level of a page."""

    seq: Count
    tokens: Count
    #: Tokens of the level's line in the context.
    cost: Count
    #: Thread that holds the text; only when an ancestor does.
    thread: Token | None = None


class PlaceBody(Body):
    """Place of a text that is no level of a page."""

    seq: Count
    thread: Token | None = None


class EntryBody(Body):
    """A page-table entry that a TLB miss read, so that the fold needs no row."""

    version: Count
    type: PageType
    modality: Modality
    importance: Share
    created_seq: Count
    created_turn: Count
    role: Name | None = None
    slot: Count | None = None
    home: Tier = "L2"
    name: Name | None = None
    hint: PlaceBody | None = None
    #: One item per level, FULL first; None where the page has no such level.
    levels: list[LevelBody | None]


class PageEvent(EventBody):
    """Base of the events of paging: the turn, the cause and the actor."""

    turn: Count
    cause: Cause = "command"
    by: By = "tool"


class LookUp(PageEvent):
    """Base of the events that looked one page up in the page table."""

    page_id: Name
    lookup: Lookup | None = None
    #: Entry that a miss has found, or of a page that leaves its home tier unasked.
    entry: EntryBody | None = None


class SlotPage(Body):
    """The page that is made with an appended slot."""

    type: PageType
    modality: Modality
    importance: Share
    #: Tokens of the page's line in the context.
    cost: Count
    mapped: Flag
    #: Page that the hot list pushed out for this page.
    displaced: Name | None = None
    #: First slot of the exchange that ends with this slot; the exchange's mapped pages
    #: join the context here. Absent in older journals.
    ends: Count | None = None
    #: The slot only calls tools of the hub, which brought nothing; the page leaves the
    #: working set with its exchange.
    asks: Flag = False


class ObservedBody(Body):
    """The slots that an observation covers, and the cost of making it."""

    begin: Count = Field(alias="from")
    end: Count = Field(alias="to")
    #: Tokens of the original slots.
    raw: Count
    #: Tokens of the observation's text as requests show it.
    shown: Count
    method: Literal["model", "extractive", "agent"]
    #: Observations that a reflection covers, in order.
    covers: list[Token] | None = None
    tokens_in: Count = 0
    tokens_out: Count = 0
    cost: Figure | None = None
    #: Host of the model that received the messages.
    host: Token | None = None
    prompt: Token | None = None


class PageCreated(PageEvent):
    """A page came into being. Payload: content, hint, meta."""

    event_type = "page.created"
    sealed = True
    searched = SearchSpec("page", ("content",))

    page_id: Name
    type: PageType
    modality: Modality
    tokens: Count
    cost: Count
    bytes: Size
    importance: Share
    role: Name | None = None
    provenance: list[Name] = Field(default_factory=list)
    derived_from: list[Name] = Field(default_factory=list)
    #: Places of the texts that the page was made from.
    sources: list[PlaceBody] | None = None
    #: The payload has a hint.
    hinted: Flag = False
    mapped: Flag
    displaced: Name | None = None
    #: Name of a block, if that is not the block's id.
    name: Name | None = None
    #: Set if the page is an observation or a reflection.
    observed: ObservedBody | None = None

    @property
    def is_recurring(self) -> bool:
        """Whether the hub or its model made the page from records that exist."""
        if is_procedure_id(self.page_id):
            return True
        return self.observed is not None and self.observed.method != "agent"


class PageUpdated(LookUp):
    """A new version of a page, or another importance or hint. Payload: what changed."""

    event_type = "page.updated"
    sealed = True
    searched = SearchSpec("page", ("content",))

    #: Version from here on; greater by one only when the content changed.
    version: Count
    type: PageType
    modality: Modality
    #: None if the content did not change.
    tokens: Count | None = None
    cost: Count | None = None
    bytes: Size | None = None
    importance: Share
    #: The payload has another hint.
    hinted: Flag = False
    #: Sources of the page from here on; None if they did not change.
    provenance: list[Name] | None = None
    derived_from: list[Name] | None = None
    #: Places of the texts that this version was made from; those of a hint: the page's.
    sources: list[PlaceBody] | None = None
    #: Name of a block, if that is not the block's id.
    name: Name | None = None
    #: Name of the block before, if this version renamed the block.
    renamed_from: Name | None = None
    #: Line after which text was inserted, if that is all that changed; 0: at the top.
    inserted: Number | None = None

    @property
    def is_recurring(self) -> bool:
        """Whether the hub made the page from calls that exist."""
        return is_procedure_id(self.page_id)


class LevelMade(Body):
    level: Level
    tokens: Count
    cost: Count


class PageCompressed(PageEvent):
    """A producer made lower levels of a page version. Payload: the levels."""

    event_type = "page.compressed"
    sealed = True
    recurs = True

    page_id: Name
    version: Count
    type: PageType
    modality: Modality
    role: Name | None = None
    slot: Count | None = None
    producer: Token
    #: Size of the payload, all levels together.
    bytes: Size
    levels: list[LevelMade]
    #: Place of FULL, which the levels were made from.
    source: PlaceBody | None = None


class PageMapped(LookUp):
    """A page entered the working set, or changed its level there."""

    event_type = "page.mapped"

    level: Level
    tokens: Count
    tier_before: Tier


class PageFaulted(LookUp):
    """A page fault: a page was fetched back for the model."""

    event_type = "page.faulted"

    level: Level
    #: Level of the page's frame; None when the page was not mapped.
    level_before: Level | None = None
    #: Charged tokens: those of the text that was served.
    tokens: Count
    cost: Count
    reason: Reason
    tier_before: Tier
    tier_after: Tier
    #: Whether the page stands in the working set at this level now.
    promoted: Flag
    #: Parts of the page in the working set now: first token, end token (exclusive; None
    #: at the end of the text), cost, turn. Not in characters, which would reveal the
    #: text's shape. None: the whole level.
    parts: list[Parts] | None = None
    #: Keyed digest of the id of the model's tool call.
    call: Token | None = None
    displaced: Name | None = None


class FaultRefused(PageEvent):
    """A page fault was refused. Payload: the requested id, if it is unknown."""

    event_type = "fault.refused"
    sealed = True

    refusal: Refused
    level: Level
    #: None when no such page ever existed.
    page_id: Name | None = None
    reason: Reason
    lookup: Lookup | None = None
    entry: EntryBody | None = None


class PagesSearched(PageEvent):
    """The model searched the thread; the words it searched for are not stored."""

    event_type = "pages.searched"

    #: Number of pages in the answer.
    results: Count


class PageReferenced(LookUp):
    """A page in use was named again."""

    event_type = "page.referenced"

    how: Literal["cited", "read", "fault"]


class CitingEvent(PageEvent):
    """Base of the events that say which pages an answer relied on."""

    #: Cited pages that were live, each once.
    page_ids: list[Name] = Field(default_factory=list)
    #: Tokens of each page in the working set; 0: the page was not mapped.
    tokens: list[Count] = Field(default_factory=list)
    #: Number of cited ids that named no live page.
    unknown: Count = 0

    def split(self) -> Iterator[PageReferenced]:
        """Yield a reference to each cited page."""
        for page_id in self.page_ids:
            yield PageReferenced(
                turn=self.turn,
                cause=self.cause,
                by=self.by,
                page_id=page_id,
                how="cited",
            )


class PagesCited(CitingEvent):
    """The model cited pages in a message, the slot that is appended next."""

    event_type = "pages.cited"

    slot: Count


class TurnRated(CitingEvent):
    """A client said how a turn's answer did; the last rating of a turn counts."""

    event_type = "turn.rated"

    rated: Count
    #: Whether the answer had to be corrected; None: not said.
    corrected: Switch | None = None


class PageEvicted(PageEvent):
    """A page left a tier: the working set, or the hot list."""

    event_type = "page.evicted"

    page_id: Name
    tokens: Count
    #: Keep score by which the page was chosen; None if someone asked for the eviction.
    score: Figure | None = None
    policy: Policy
    tier_before: Tier
    tier_after: Tier
    lookup: Lookup | None = None
    entry: EntryBody | None = None
    displaced: Name | None = None
    #: Place of `sieve`'s hand, which took the page; None if nothing moved the hand.
    hand: Count | None = None

    def can_join(self, last: PageEvicted) -> bool:
        """Return whether one event can hold this eviction and the one before."""
        return (
            (self.turn, self.cause, self.by, self.policy, self.tier_before)
            == (last.turn, last.cause, last.by, last.policy, last.tier_before)
            and self.tier_before == "L0"
            and self.lookup is None
            and last.lookup is None
            and (self.score is None) == (last.score is None)
            # Once the hot list is full, each new hot page displaces another.
            and (last.displaced is None or self.displaced is not None)
        )


class PagesEvicted(PageEvent):
    """Pages left the working set one after the other, for the same reason.

    Older journals have one `page.evicted` each; so has a page that leaves alone.
    """

    event_type = "pages.evicted"

    page_ids: list[Name]
    #: Tokens of each page.
    tokens: list[Count]
    #: Keep score by which each page was chosen; None where pages were not compared.
    scores: list[Figure] | None = None
    policy: Policy
    #: Pages that the hot list displaced, one for each of the last evicted pages.
    displaced: list[Name] = Field(default_factory=list)
    #: Place of `sieve`'s hand at each page, 0 for a page that did not move the hand;
    #: None if the hand took none.
    hands: list[Count] | None = None

    @classmethod
    def join(cls, pages: Sequence[PageEvicted]) -> PagesEvicted:
        """Join evictions into one event; each `can_join` the eviction before."""
        first = pages[0]
        scores = [page.score for page in pages if page.score is not None]
        hands = [page.hand or 0 for page in pages]
        return cls(
            turn=first.turn,
            cause=first.cause,
            by=first.by,
            page_ids=[page.page_id for page in pages],
            tokens=[page.tokens for page in pages],
            scores=scores or None,
            policy=first.policy,
            displaced=[page.displaced for page in pages if page.displaced is not None],
            hands=hands if any(hands) else None,
        )

    def list_displaced(self) -> list[tuple[str, str | None]]:
        """List each page with the page that the hot list displaced for it, if any."""
        first = len(self.page_ids) - len(self.displaced)
        displaced = [*[None] * first, *self.displaced]
        return [*zip(self.page_ids, displaced, strict=True)]

    def split(self) -> Iterator[PageEvicted]:
        """Yield the single evictions that this event joins."""
        number = len(self.page_ids)
        scores: Sequence[float | None] = self.scores or [None] * number
        hands = self.hands or [0] * number
        each = zip(self.list_displaced(), self.tokens, scores, hands, strict=True)
        for (page_id, out), tokens, score, hand in each:
            yield PageEvicted(
                turn=self.turn,
                cause=self.cause,
                by=self.by,
                page_id=page_id,
                tokens=tokens,
                score=score,
                policy=self.policy,
                tier_before="L0",
                tier_after="L1",
                displaced=out,
                hand=hand or None,
            )


def list_evictions(event: EventBody) -> Iterable[PageEvicted]:
    """List the evictions of an event: none, the event itself, or the joined ones."""
    if isinstance(event, PagesEvicted):
        return event.split()
    return [event] if isinstance(event, PageEvicted) else []


def split_event(event: EventBody) -> Sequence[EventBody]:
    """Return the evictions or references that an event joins, or the event itself."""
    if isinstance(event, PagesEvicted | CitingEvent):
        return [*event.split()]
    return [event]


class PageLowered(PageEvent):
    """A frame was replaced, in place, by a less faithful level of its page."""

    event_type = "page.lowered"

    page_id: Name
    level: Level
    level_before: Level
    tokens: Count
    tokens_before: Count
    score: Figure | None = None
    policy: Policy


class PagePinned(LookUp):
    """A page stays in the working set until it is unpinned."""

    event_type = "page.pinned"

    tier_before: Tier


class PageUnpinned(LookUp):
    """A page may leave the working set again."""

    event_type = "page.unpinned"

    tier_before: Tier


class PageDeleted(LookUp):
    """A page left the page table, and its payloads are purged."""

    event_type = "page.deleted"

    tier_before: Tier


class SlotStruck(PageDeleted):
    """A message left requests, lists and searches; its text stays."""

    event_type = "slot.struck"

    index: Count
    #: Seq of the slot's slot.appended.
    slot_seq: Count


class TurnBegan(EventBody):
    """One model call of the agent begins."""

    event_type = "turn.began"

    n: Count
    mode: Mode | None = None
    #: The turn continues the exchange of the turn before, and its fault budget.
    continues: Flag = False
    #: Number of the turn's exchange, from 1. Absent in older journals.
    exchange: Count | None = None
    #: Not every page that has to be shown could be mapped.
    over_budget: Flag = False
    #: An import began the turn, to simulate paging on recorded traffic.
    simulated: Flag = False
    #: Tokens of the blocks in requests from here on; None: unchanged.
    blocks: Count | None = None
    #: Tokens kept free for recall from here on; None: unchanged.
    promised: Count | None = None


class TurnPacked(EventBody):
    """The parts of a turn's request. Payload: SHA-256 of the request, and its cuts."""

    event_type = "turn.packed"
    sealed = True
    recurs = True

    turn: Count
    #: Seq of the state that was packed.
    as_of_seq: Count
    packer: Token
    rules: Token | None = None
    tools: Token | None = None
    mode: Mode
    budget: Count
    sections: list[SectionBody]
    manifest: ManifestBody | None = None
    recall: RecallBody | None = None
    #: Recall tokens that the thread asks for; None where its config says nothing.
    recall_asked: Count | None = None
    #: Claims of the log that no longer hold; None: the whole log holds.
    log_marks: list[LogMarksBody] | None = None
    tokens: Count
    bytes: Size
    #: Tokenizer that counted the whole request; None: est/1.
    tokenizer: Token | None = None
    #: Tokens of the prefix shared with the request of the turn before.
    prefix_tokens: Count | None = None
    #: Place of the definitions of the agent's own tools.
    own_tools: PlaceBody | None = None
    simulated: Flag = False
    #: True: uses of claims are counted from here on. None in older journals.
    counts_claims: Flag | None = None


class TlbInvalidated(PageEvent):
    """TLB entries of one page or of one tier were dropped."""

    event_type = "tlb.invalidated"

    page_id: Name | None = None
    tier: Tier | None = None
    dropped: Count


class TlbFlushed(PageEvent):
    """All TLB entries were dropped."""

    event_type = "tlb.flushed"

    dropped: Count


class PrefetchCleared(PageEvent):
    """The pages that tools usually need were forgotten."""

    event_type = "prefetch.cleared"

    #: Tools that were known, and pages of theirs.
    tools: Count
    pages: Count
