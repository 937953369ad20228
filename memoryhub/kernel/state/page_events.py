"""Event bodies of paging: the journal is the mutation log. Pydantic, frozen, strict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from pydantic import Field

from memoryhub.kernel.state.bodies import (
    Body,
    Count,
    Event,
    Figure,
    Flag,
    Parts,
    Searched,
    Share,
    Size,
    Token,
)
from memoryhub.kernel.state.context_bodies import (
    LogMarksBody,
    ManifestBody,
    RecallBody,
    SectionBody,
)
from memoryhub.kernel.state.pages import Level, Modality, PageType, Tier
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
#: On whose account it happened.
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
    """Where a level lies, and what it weighs."""

    seq: Count
    tokens: Count
    #: Of its line in the context.
    cost: Count
    #: Only when it is an ancestor's.
    thread: Token | None = None


class PlaceBody(Body):
    """Where a text lies that is no level."""

    seq: Count
    thread: Token | None = None


class EntryBody(Body):
    """A page-table entry that a miss has read, so that the fold needs no row."""

    version: Count
    type: PageType
    modality: Modality
    importance: Share
    created_seq: Count
    created_turn: Count
    role: Name | None = None
    slot: Count | None = None
    home: Tier = "L2"
    hint: PlaceBody | None = None
    #: By level, FULL first; None where there is none.
    levels: list[LevelBody | None]


class PageEvent(Event):
    """What every step of paging tells."""

    turn: Count
    cause: Cause = "command"
    by: By = "tool"


class LookUp(PageEvent):
    """A step that named one page, which was looked up."""

    page_id: Name
    lookup: Lookup | None = None
    #: With a miss that found something, and where a page comes from home unasked.
    entry: EntryBody | None = None


class SlotPage(Body):
    """The page that a slot makes by being appended."""

    type: PageType
    modality: Modality
    importance: Share
    #: Of its line in the context.
    cost: Count
    mapped: Flag
    #: The page that the hot list pushed out for it.
    displaced: Name | None = None
    #: First slot of the exchange that ends with this one: what of it is mapped joins
    #: the context here. Journals from before do without.
    ends: Count | None = None
    #: It only calls tools of ours, which brought nothing: it leaves with its exchange.
    asks: Flag = False


class ObservedBody(Body):
    """The slots that an observation stands for, and what it took to make it."""

    begin: Count = Field(alias="from")
    end: Count = Field(alias="to")
    #: Tokens of the slots as they were said.
    raw: Count
    #: Of its text as it stands in requests.
    shown: Count
    method: Literal["model", "extractive", "agent"]
    #: Of a reflection: the observations that it stands for, in order.
    covers: list[Token] | None = None
    tokens_in: Count = 0
    tokens_out: Count = 0
    cost: Figure | None = None
    #: Of the model, which was given the messages.
    host: Token | None = None
    prompt: Token | None = None


class PageCreated(PageEvent):
    """A page came into being. Payload: content, hint, meta."""

    event_type = "page.created"
    sealed = True
    searched = Searched("page", ("content",))

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
    #: Where the texts lie that it was made of.
    sources: list[PlaceBody] | None = None
    #: The payload has a hint.
    hinted: Flag = False
    mapped: Flag
    displaced: Name | None = None
    #: It is an observation, or a reflection.
    observed: ObservedBody | None = None

    @property
    def recurring(self) -> bool:
        """Whether we made it of messages that are there, or had it made by a model."""
        return self.observed is not None and self.observed.method != "agent"


class PageUpdated(LookUp):
    """A new version of a page, or another importance or hint. Payload: what changed."""

    event_type = "page.updated"
    sealed = True
    searched = Searched("page", ("content",))

    #: The version from here on; one more only when the content changed.
    version: Count
    type: PageType
    modality: Modality
    #: None while the content stays.
    tokens: Count | None = None
    cost: Count | None = None
    bytes: Size | None = None
    importance: Share
    #: The payload has another hint.
    hinted: Flag = False
    #: What the page was made of from here on; None while it is as was said before.
    provenance: list[Name] | None = None
    derived_from: list[Name] | None = None
    #: Where the texts lie that this one was made of: a hint is made of the page's own.
    sources: list[PlaceBody] | None = None


class LevelMade(Body):
    level: Level
    tokens: Count
    cost: Count


class PageCompressed(PageEvent):
    """A producer made levels of a version. Payload: the levels."""

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
    #: Of the payload, all levels together.
    bytes: Size
    levels: list[LevelMade]
    #: Where FULL lies, which they were made of.
    source: PlaceBody | None = None


class PageMapped(LookUp):
    """A page entered the working set, or stands there at another level."""

    event_type = "page.mapped"

    level: Level
    tokens: Count
    tier_before: Tier


class PageFaulted(LookUp):
    """A page was fetched back for the model."""

    event_type = "page.faulted"

    level: Level
    #: Of its frame; None when it was not mapped.
    level_before: Level | None = None
    #: Charged: those of the text that was served.
    tokens: Count
    cost: Count
    reason: Reason
    tier_before: Tier
    tier_after: Tier
    #: It stands in the working set at this level now.
    promoted: Flag
    #: The parts of it that stand there now: first token, the one behind the last or
    #: None at the end, cost, turn. Characters would tell what the text is like, and
    #: follow from it. None: all of the level.
    parts: list[Parts] | None = None
    #: Keyed digest of the id of the model's call.
    call: Token | None = None
    displaced: Name | None = None


class FaultRefused(PageEvent):
    """A fault was refused. Payload: the id that was asked for, if it is unknown."""

    event_type = "fault.refused"
    sealed = True

    refusal: Refused
    level: Level
    #: None when there never was such a page.
    page_id: Name | None = None
    reason: Reason
    lookup: Lookup | None = None
    entry: EntryBody | None = None


class PagesSearched(PageEvent):
    """The model has searched the thread, for words that stand nowhere."""

    event_type = "pages.searched"

    #: Pages that it was told of.
    results: Count


class PageReferenced(LookUp):
    """A page in use was named again."""

    event_type = "page.referenced"

    how: Literal["cited", "read", "fault"]


class PageEvicted(PageEvent):
    """A page left a tier: the working set, or the hot list."""

    event_type = "page.evicted"

    page_id: Name
    tokens: Count
    #: The keep score it lost by; None where someone asked for it.
    score: Figure | None = None
    policy: Policy
    tier_before: Tier
    tier_after: Tier
    lookup: Lookup | None = None
    entry: EntryBody | None = None
    displaced: Name | None = None

    def can_join(self, last: PageEvicted) -> bool:
        """Whether one event may tell of the page that left before it, and of this."""
        return (
            (self.turn, self.cause, self.by, self.policy, self.tier_before)
            == (last.turn, last.cause, last.by, last.policy, last.tier_before)
            and self.tier_before == "L0"
            and self.lookup is None
            and last.lookup is None
            and (self.score is None) == (last.score is None)
            # Once the hot list is full, each that comes pushes one out.
            and (last.displaced is None or self.displaced is not None)
        )


class PagesEvicted(PageEvent):
    """Pages left the working set one after the other, for the same reason.

    Events of before are one `page.evicted` each; a page that leaves alone is one still.
    """

    event_type = "pages.evicted"

    page_ids: list[Name]
    #: Of each page.
    tokens: list[Count]
    #: The keep score that each lost by; None where they were not compared.
    scores: list[Figure] | None = None
    policy: Policy
    #: The pages that the hot list pushed out for the last of these, one for each.
    displaced: list[Name] = Field(default_factory=list)

    @classmethod
    def join(cls, pages: Sequence[PageEvicted]) -> PagesEvicted:
        """Join evictions, of which each `can_join` the one before it."""
        first = pages[0]
        scores = [page.score for page in pages if page.score is not None]
        return cls(
            turn=first.turn,
            cause=first.cause,
            by=first.by,
            page_ids=[page.page_id for page in pages],
            tokens=[page.tokens for page in pages],
            scores=scores or None,
            policy=first.policy,
            displaced=[page.displaced for page in pages if page.displaced is not None],
        )

    def split(self) -> Iterator[PageEvicted]:
        """Yield the evictions that it joins."""
        number = len(self.page_ids)
        scores: Sequence[float | None] = self.scores or [None] * number
        displaced = [*[None] * (number - len(self.displaced)), *self.displaced]
        each = zip(self.page_ids, self.tokens, scores, displaced, strict=True)
        for page_id, tokens, score, out in each:
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
            )


def list_evictions(event: Event) -> Iterable[PageEvicted]:
    """List the evictions that an event tells of: none, itself, or those it joins."""
    if isinstance(event, PagesEvicted):
        return event.split()
    return [event] if isinstance(event, PageEvicted) else []


def split_event(event: Event) -> Sequence[Event]:
    """Return the evictions that an event joins, or the event itself."""
    return [*event.split()] if isinstance(event, PagesEvicted) else [event]


class PageLowered(PageEvent):
    """A frame was replaced by a less faithful level, in place."""

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
    """A page is gone from the table, and its payloads are purged."""

    event_type = "page.deleted"

    tier_before: Tier


class TurnBegan(Event):
    """One model call of the agent begins."""

    event_type = "turn.began"

    n: Count
    mode: Mode | None = None
    #: It goes on with the exchange of the turn before, and with its fault budget.
    continues: Flag = False
    #: Which exchange it is of, from 1. Journals from before do without.
    exchange: Count | None = None
    #: Not everything that has to be shown could be mapped.
    over_budget: Flag = False
    #: Begun by an import, to look at paging on recorded traffic.
    simulated: Flag = False
    #: Tokens of the blocks in requests from here on; None: as before.
    blocks: Count | None = None
    #: Tokens kept free for recall from here on; None: as before.
    promised: Count | None = None


class TurnPacked(Event):
    """What a turn's request was made of. Payload: its SHA-256, and where it is cut."""

    event_type = "turn.packed"
    sealed = True
    recurs = True

    turn: Count
    #: The state that was packed.
    as_of_seq: Count
    packer: Token
    rules: Token | None = None
    tools: Token | None = None
    mode: Mode
    budget: Count
    sections: list[SectionBody]
    manifest: ManifestBody | None = None
    recall: RecallBody | None = None
    #: Tokens for it that the thread asks for; None where it says nothing of them.
    recall_asked: Count | None = None
    #: What no longer holds of what the log tells; None: all of it does.
    log_marks: list[LogMarksBody] | None = None
    tokens: Count
    bytes: Size
    #: Who counted all tokens of it; None: est/1.
    tokenizer: Token | None = None
    #: In common with the request of the turn before, from its first byte on.
    prefix_tokens: Count | None = None
    #: Of the agent's own tools.
    own_tools: PlaceBody | None = None
    simulated: Flag = False


class TlbInvalidated(PageEvent):
    """Entries of one page or of one tier were dropped."""

    event_type = "tlb.invalidated"

    page_id: Name | None = None
    tier: Tier | None = None
    dropped: Count


class TlbFlushed(PageEvent):
    """All entries were dropped."""

    event_type = "tlb.flushed"

    dropped: Count
