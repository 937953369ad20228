"""Commands of paging. Frozen, validated values; content is JSON text, UTF-8."""

from __future__ import annotations

from dataclasses import dataclass

from memoryhub.kernel.commands import Command, MadeLevels, NewSlot
from memoryhub.kernel.context.block_lines import CarriedBlock
from memoryhub.kernel.context.contexts import ContextRecord
from memoryhub.kernel.state.page_events import By, ObservedBody, Reason
from memoryhub.kernel.state.pages import Location, Modality, PageType, Tier
from memoryhub.kernel.state.paging_config import Mode


class PageCommand(Command):
    """Base of the paging commands."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPage:
    """A page to make, or the next version of an existing page."""

    page_id: str
    type: PageType
    modality: Modality
    #: One JSON object: content, and hint and meta where they were sent.
    payload: bytes
    tokens: int
    cost: int
    bytes: int
    #: The tokenizer of our count; None: the agent sent the count.
    counted_by: str | None = None
    #: None: the default of a new page, and no change of an old one.
    importance: float | None = None
    #: None: no source of a new page, and no change of an old one.
    provenance: tuple[str, ...] | None = None
    hinted: bool = False
    map: bool = True
    role: str | None = None
    #: Name of a block, if that is not its id. None: its id, or no change of the name.
    name: str | None = None
    #: Line after which the text was inserted into the version before, if it was.
    inserted: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewObservation:
    """An observation of a range of slots, or a reflection of observations."""

    observed: ObservedBody
    #: One JSON object: content, and the hints sent with it.
    payload: bytes
    #: Tokens of its text, and cost of its line where it is brought as a page.
    tokens: int
    cost: int
    bytes: int
    #: Locations of the texts that it was made of.
    sources: tuple[Location, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRange:
    """A part of a page's FULL, made beforehand, outside the transaction."""

    page_id: str
    version: int
    #: Offset in tokens.
    offset: int
    #: Index of the first character, and of the character behind the last.
    start: int
    end: int
    #: Tokens of its text, and cost of its line in a request.
    tokens: int
    cost: int
    #: Offset of the next part; None at the end of the text.
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
    #: One JSON object of the changed members: content, hint, meta.
    payload: bytes
    #: Version whose meta the payload repeats; None: it repeats none.
    version: int | None = None
    importance: float | None = None
    #: Fields that are set with a new content.
    type: PageType | None = None
    modality: Modality | None = None
    tokens: int | None = None
    cost: int | None = None
    bytes: int | None = None
    counted_by: str | None = None
    hinted: bool = False
    #: None: unchanged.
    provenance: tuple[str, ...] | None = None
    name: str | None = None
    inserted: int | None = None
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
class RateTurn(PageCommand):
    """Say how a turn's answer did, and which pages the answer relied on."""

    turn: int
    corrected: bool | None = None
    cited: tuple[str, ...] = ()
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPage(PageCommand):
    """Fetch a page back for the model, at `level` or the nearest more faithful one."""

    #: Any text: a model may ask for an id that is no page at all.
    page_id: str
    level: int = 2
    reason: Reason = "resolve_reference"
    made: MadeLevels | None = None
    #: A part of FULL instead of a level.
    range: PageRange | None = None
    #: Id of the model's call, as the model gave it.
    call_id: str | None = None
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTools(PageCommand):
    """Keep the definitions of the tools a model may call besides our own tools."""

    #: Tool definitions in chat-completions form: JSON text of a list.
    definitions: bytes
    names: tuple[str, ...]
    tokens: int
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTurn(PageCommand):
    """Append the new slots, then begin a model call."""

    slots: tuple[NewSlot, ...] = ()
    #: The agent's own tools from now on; None leaves them.
    tools: SetTools | None = None
    mode: Mode | None = None
    #: None: it continues when no user slot came since the turn before.
    continues: bool | None = None
    #: Levels of the newest user slot, should it be too large by now to be shown whole.
    made: MadeLevels | None = None
    #: The subject's blocks, in their order; None leaves the blocks of requests
    #: unchanged.
    blocks: tuple[CarriedBlock, ...] | None = None
    #: For an observed thread: extractive observations of the next slots, made
    #: beforehand, in case there is no room and no other observation. None: nobody has
    #: checked whether they are needed.
    observed: tuple[NewObservation, ...] | None = ()
    reflected: NewObservation | None = None
    #: Epoch of observing in which these observations were made.
    epoch: int = 0
    simulated: bool = False
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordContext(PageCommand):
    """Keep the record of the parts of a turn's request."""

    turn: int
    as_of_seq: int
    record: ContextRecord
    #: Stored sealed: a plain hash of content may stand in no body.
    sha256: str
    prefix_tokens: int | None = None
    simulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidateTlb(PageCommand):
    """Drop the TLB entry of a page, or the entries of all pages in a tier."""

    page_id: str | None = None
    tier: Tier | None = None
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushTlb(PageCommand):
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearPrefetch(PageCommand):
    """Forget which pages are read before which tools."""

    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSearch(PageCommand):
    """Count a search by the model, with its number of results."""

    results: int
