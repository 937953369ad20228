"""Commands of paging. Frozen values, checked already; content is JSON text, UTF-8."""

from __future__ import annotations

from dataclasses import dataclass

from memoryhub.kernel.commands import Command, MadeLevels, NewSlot
from memoryhub.kernel.levels.block_lines import Carried
from memoryhub.kernel.levels.contexts import Record
from memoryhub.kernel.state.page_events import By, ObservedBody, Reason
from memoryhub.kernel.state.pages import Location, Modality, PageType, Tier
from memoryhub.kernel.state.paging_config import Mode


class PageCommand(Command):
    """Base of these commands."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPage:
    """A page to make, or the next version of one that is there."""

    page_id: str
    type: PageType
    modality: Modality
    #: One JSON object: content, and hint and meta where they were sent.
    payload: bytes
    tokens: int
    cost: int
    bytes: int
    #: The tokenizer that we counted by; None: its agent sent the count.
    counted_by: str | None = None
    #: None: the default of a new page, and no change of an old one.
    importance: float | None = None
    #: None: no source of a new page, and no change of an old one.
    provenance: tuple[str, ...] | None = None
    hinted: bool = False
    map: bool = True
    role: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewObservation:
    """What was observed of a range of slots, or a reflection of observations."""

    observed: ObservedBody
    #: One JSON object: content, and the hints that came with it.
    payload: bytes
    #: Of its text, and of its line where it is brought as a page.
    tokens: int
    cost: int
    bytes: int
    #: Where the texts lie that it was made of.
    sources: tuple[Location, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A part of a page's FULL, made beforehand, outside the transaction."""

    page_id: str
    version: int
    #: In tokens.
    offset: int
    #: Its first character, and the one behind its last.
    start: int
    end: int
    #: Of its text, and of its line in a request.
    tokens: int
    cost: int
    #: None at the end of the text.
    next_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePages(PageCommand):
    """Make pages; all or none. An id that exists is refused, unless `replace`."""

    pages: tuple[NewPage, ...]
    replace: bool = False
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatePage(PageCommand):
    """Change a page's content, importance or hint."""

    page_id: str
    #: One JSON object of what changes: content, hint, meta.
    payload: bytes
    importance: float | None = None
    #: These with a new content.
    type: PageType | None = None
    modality: Modality | None = None
    tokens: int | None = None
    cost: int | None = None
    bytes: int | None = None
    counted_by: str | None = None
    hinted: bool = False
    #: None: as it was said before.
    provenance: tuple[str, ...] | None = None
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePage(PageCommand):
    page_id: str
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteLevels(PageCommand):
    made: MadeLevels
    by: By = "system"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPage(PageCommand):
    page_id: str
    level: int = 0
    made: MadeLevels | None = None
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictPage(PageCommand):
    page_id: str
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinPage(PageCommand):
    page_id: str
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpinPage(PageCommand):
    page_id: str
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferencePages(PageCommand):
    page_ids: tuple[str, ...]
    how: str = "read"
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPage(PageCommand):
    """Fetch a page back for the model, at `level` or the nearest more faithful one."""

    #: Any text: a model may ask for what is no page at all.
    page_id: str
    level: int = 2
    reason: Reason = "resolve_reference"
    made: MadeLevels | None = None
    #: A part of FULL instead of a level.
    range: Range | None = None
    #: Of the model's call, as the model gave it.
    call_id: str | None = None
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTools(PageCommand):
    """Keep what a model may call besides our own tools."""

    #: Their definitions as chat completions take them: JSON text of a list.
    definitions: bytes
    names: tuple[str, ...]
    tokens: int
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTurn(PageCommand):
    """Append what came since, then begin a model call."""

    slots: tuple[NewSlot, ...] = ()
    #: The agent's own tools from now on; None leaves them.
    tools: SetTools | None = None
    mode: Mode | None = None
    #: None: it continues when no user slot came since the turn before.
    continues: bool | None = None
    #: Of the newest user slot, should it be too large by now to be shown whole.
    made: MadeLevels | None = None
    #: The subject's, in their order; None leaves what requests carry of them.
    blocks: tuple[Carried, ...] | None = None
    #: Of an observed thread, what the extractive observer made beforehand of the next
    #: slots and of the log, should there be no room and nothing else. None: nobody has
    #: looked whether that is needed.
    observed: tuple[NewObservation, ...] | None = ()
    reflected: NewObservation | None = None
    #: Of observing, in which these were made.
    epoch: int = 0
    simulated: bool = False
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordContext(PageCommand):
    """Keep what the request of a turn was made of."""

    turn: int
    as_of_seq: int
    record: Record
    #: Sealed: a plain hash of content may stand in no body.
    sha256: str
    prefix_tokens: int | None = None
    simulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidateTlb(PageCommand):
    """Drop the entry of a page, or those of all pages that stand in a tier."""

    page_id: str | None = None
    tier: Tier | None = None
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushTlb(PageCommand):
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSearch(PageCommand):
    """The model has searched, and was told of so many pages."""

    results: int
