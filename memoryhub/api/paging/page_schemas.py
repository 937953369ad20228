"""Schemas of pages."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import (
    AfterValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from memoryhub.api.document import contents
from memoryhub.api.document.fields import (
    MAX_BATCH,
    By,
    FieldRefusedError,
    Hint,
    Importance,
    In,
    Name,
    Out,
    OwnPageId,
    PageLevel,
    SentTokens,
    build_example,
)
from memoryhub.api.document.samples import PAGE, PLACE
from memoryhub.api.document.schemas import AsOf, Pagination
from memoryhub.errors import InvalidError
from memoryhub.kernel.state.pages import (
    AgentPageType,
    Modality,
    PageEntry,
    PageType,
    Tier,
)
from memoryhub.queries.paging.pages import PageLine
from memoryhub.queries.turns.envelopes import Envelope
from memoryhub.services.paging.pages import PageChange, PageDraft

MAX_PROVENANCE = 64
Rule = Literal["explicit", "system", "exchange", "recent", "claim"]


_PAGE_IN = {
    "type": "artifact",
    "modality": "text",
    "content": {"text": "Fares of class Q can be changed once, at no cost."},
    "importance": 0.7,
    "provenance": ["slot-4"],
    "hint": "fare rules of class Q",
    "meta": {"mime_type": "text/plain"},
}
_WRITTEN = {
    **PLACE,
    "seq": 14,
    "page_id": "fare-rules",
    "version": 1,
    "mapped": True,
    "evictions": ["slot-0"],
}
ENVELOPE = {
    "page_id": "fare-rules",
    "modality": "text",
    "level": 0,
    "tier": "L0",
    "content": _PAGE_IN["content"],
    "meta": {
        "source_tier": "L2",
        "mime_type": "text/plain",
        "size_bytes": 60,
        "dimensions": None,
        "duration_seconds": None,
    },
}


def _check_provenance(ids: list[str]) -> list[str]:
    if len(ids) > MAX_PROVENANCE:
        raise FieldRefusedError("value")
    return ids


Provenance = Annotated[
    list[Name],
    AfterValidator(_check_provenance),
    Field(json_schema_extra={"maxItems": MAX_PROVENANCE}),
]


class PagePut(In):
    """A page to write: content by its modality, and metadata."""

    model_config = build_example(_PAGE_IN)

    type: AgentPageType
    modality: Modality
    content: dict[str, Any] = Field(
        description="text `{text}`; image `{caption?, url?, base64?, embedding?}`; "
        "audio `{transcript?, timestamps?, duration_seconds?, url?, base64?}`; video "
        "`{scenes?, transcript?, duration_seconds?, topic?, url?, base64?}`; "
        "structured `{data, schema_name?}`."
    )
    importance: Importance | None = None
    provenance: Provenance | None = Field(
        None, description="Pages it was made of. Absent: none, or the same as before."
    )
    hint: Hint | None = None
    meta: dict[str, Any] = Field({}, description="`mime_type`, `dimensions`, and more.")
    tokens: SentTokens = Field(
        None, description="Needed where the thread's tokenizer is not run here."
    )
    map: Annotated[
        bool, Field(description="False: where the page stands, it stays.")
    ] = True
    by: By = "tool"

    @field_validator("content")
    @classmethod
    def check_modality(
        cls, content: dict[str, Any], info: ValidationInfo
    ) -> dict[str, Any]:
        if "modality" not in info.data:
            return content
        return contents.check_content(content, modality=info.data["modality"])

    @field_validator("meta")
    @classmethod
    def check_meta(cls, meta: dict[str, Any]) -> dict[str, Any]:
        return contents.check_meta(meta)

    def to_draft(self, page_id: str) -> PageDraft:
        sources = self.provenance
        if sources is not None and page_id in sources:
            raise InvalidError(
                code="unknown_page", loc="provenance", allowed="other pages than itself"
            )
        return PageDraft(
            page_id=page_id,
            type=self.type,
            modality=self.modality,
            content=self.content,
            importance=self.importance,
            provenance=None if sources is None else tuple(sources),
            hint=self.hint,
            meta=self.meta,
            tokens=self.tokens,
            map=self.map,
        )


class PageIn(PagePut):
    model_config = build_example({"page_id": "fare-rules", **_PAGE_IN})

    page_id: OwnPageId | None = Field(None, description="Absent: one is made.")


def _check_batch(items: list[PageIn]) -> list[PageIn]:
    if not 1 <= len(items) <= MAX_BATCH:
        raise FieldRefusedError("batch_size")
    return items


class PagesIn(In):
    model_config = build_example({"items": [{"page_id": "fare-rules", **_PAGE_IN}]})

    items: Annotated[
        list[PageIn],
        AfterValidator(_check_batch),
        Field(json_schema_extra={"minItems": 1, "maxItems": MAX_BATCH}),
    ]
    by: By = "tool"


class PagePatch(In):
    """Changes of a page; new content is a new version."""

    model_config = build_example({"importance": 0.9, "hint": "what class Q may change"})

    content: dict[str, Any] | None = None
    importance: Importance | None = None
    hint: Hint | None = None
    tokens: SentTokens = Field(None, description="Of the new content.")
    by: By = "tool"

    @model_validator(mode="after")
    def tokens_of_a_content(self) -> Self:
        if self.tokens is not None and self.content is None:
            says = "null where there is no new `content`"
            raise FieldRefusedError("value", allowed=says, loc=("tokens",))
        return self

    def to_change(self) -> PageChange:
        return PageChange(
            content=self.content,
            importance=self.importance,
            hint=self.hint,
            tokens=self.tokens,
        )


class PromptIn(In):
    model_config = build_example({"text": "You book flights."})

    text: str
    tokens: SentTokens = None


class PagesQuery(AsOf, Pagination):
    type: PageType | None = None
    modality: Modality | None = None
    tier: Tier | None = None
    pinned: Literal["true", "false"] | None = None


class PageQuery(AsOf):
    level: PageLevel = 0


class HistoryQuery(AsOf, Pagination):
    pass


class WrittenOut(Out):
    model_config = build_example(_WRITTEN)

    thread: str
    thread_id: UUID
    seq: int
    page_id: str
    version: int
    mapped: bool
    evictions: list[str]


class WrittenBatchOut(Out):
    model_config = build_example({"items": [_WRITTEN]})

    items: list[WrittenOut]


class DeletedOut(Out):
    model_config = build_example({**PLACE, "seq": 18, "page_id": "fare-rules"})

    thread: str
    thread_id: UUID
    seq: int
    page_id: str


class LevelOut(Out):
    level: int
    tokens: int

    @classmethod
    def from_entry(cls, entry: PageEntry) -> list[Self]:
        """Build the answers of all levels that a page has."""
        return [
            cls(level=number, tokens=held.tokens)
            for number, held in enumerate(entry.levels)
            if held is not None
        ]


class PageOut(Out):
    """An entry of the page table, and the page's place."""

    page_id: str
    version: int
    type: PageType
    modality: Modality
    importance: float
    role: str | None
    slot: int | None
    tokens: int
    thread_id: UUID = Field(description="Whose journal holds its text.")
    seq: int
    levels: list[LevelOut]
    tier: Tier
    level: int | None = Field(description="As it is mapped; null when it is not.")
    pinned: Rule | None

    @classmethod
    def from_line(cls, line: PageLine, **others: Any) -> Self:
        entry = line.entry
        return cls.from_record(
            entry,
            tokens=entry.full.tokens,
            thread_id=entry.full.location.thread,
            seq=entry.full.location.seq,
            levels=LevelOut.from_entry(entry),
            tier=line.tier,
            level=line.level,
            pinned=line.pinned,
            **others,
        )


class PagesOut(Out):
    model_config = build_example({"tokenizer": "est/1", "items": [PAGE], "next": None})

    tokenizer: str = Field(description="Who counts in this thread.")
    items: list[PageOut]
    next: str | None


class MetaOut(Out):
    source_tier: Tier
    mime_type: str | None
    size_bytes: int
    dimensions: list[int] | None
    duration_seconds: float | None


class EnvelopeOut(Out):
    page_id: str
    modality: Modality
    level: int = Field(description="The level that was served.")
    tier: Tier
    content: dict[str, Any]
    meta: MetaOut

    @classmethod
    def from_envelope(cls, envelope: Envelope) -> Self:
        return cls.model_validate(envelope.to_dict())


class PageViewOut(PageOut):
    """A page with its content at a level; reading it has no effect."""

    model_config = build_example(
        {
            **PAGE,
            "tokenizer": "est/1",
            "hint": _PAGE_IN["hint"],
            "provenance": ["slot-4"],
            "page": ENVELOPE,
        }
    )

    tokenizer: str = Field(description="Who counted `tokens`.")
    hint: str | None
    provenance: list[str]
    page: EnvelopeOut
