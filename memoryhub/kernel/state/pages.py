"""Pages: the unit of memory. Their types, levels and page-table entries. Pure."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple, get_args
from uuid import UUID

from memoryhub.kernel.text import names

#: Page types that agents make; messages are of the first two.
AgentPageType = Literal[
    "transcript", "artifact", "summary", "claim", "index", "procedure"
]
#: All page types; only home threads hold blocks.
PageType = Literal[AgentPageType, "block"]
Modality = Literal["text", "image", "audio", "video", "structured"]
Level = Literal[0, 1, 2, 3]
Tier = Literal["L0", "L1", "L2", "L3", "L4"]

PAGE_TYPES: tuple[str, ...] = get_args(PageType)
MODALITIES: tuple[str, ...] = get_args(Modality)
FULL, REDUCED, ABSTRACT, REFERENCE = 0, 1, 2, 3
#: Level number, in a location, of the page's hint, which the agent wrote.
HINT = -1
LEVEL_NAMES = ("full", "reduced", "abstract", "reference")

#: Readiness of a page type to leave the working set; 1 leaves first.
PRIORITY: dict[str, float] = {
    "block": 0.1,
    "claim": 0.1,
    "index": 0.2,
    "procedure": 0.3,
    "summary": 0.4,
    "artifact": 0.6,
    "transcript": 0.7,
}
#: Page types that pressure never lowers, since their text is exact.
NEVER_LOWERED = frozenset({"claim", "index", "summary"})
DEFAULT_IMPORTANCE = 0.5
#: Page type of blocks, and most bytes of a block's text.
BLOCK: PageType = "block"
MAX_BLOCK_BYTES = 65_536
#: Pattern of a block's name; each part between slashes begins like the first.
BLOCK_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}$"
#: Last steps of addresses that change a block.
BLOCK_ACTS = frozenset({"append", "insert", "rename", "replace", "revert", "edit"})
#: Id of the system prompt, written by its own route and first in each request.
SYSTEM_PROMPT = "system-prompt"
#: Prefixes of page ids that only other routes assign.
OBSERVATION_IDS = ("obs-", "ref-")
_RESERVED_IDS = ("slot-", *OBSERVATION_IDS)
#: Ids of pages that keep what calls of a tool have taught: a digest of the tool's name,
#: and a number that grows when such a page was erased.
_PROCEDURE_ID = re.compile(r"procedure-[0-9a-f]{16}-[0-9]{1,6}")


class Location(NamedTuple):
    """Place of a text: the payload of event (thread, seq), and the level in it."""

    thread: UUID
    seq: int
    level: int

    def find_home(self, own: UUID) -> UUID | None:
        """Return the text's thread, or None if that is `own`, which is not stored."""
        thread = self.thread
        return None if thread is own or thread == own else thread


class LevelEntry(NamedTuple):
    """One level of a page."""

    location: Location
    #: Tokens of the text itself.
    tokens: int
    #: Tokens of the text's line in the context, framing and escapes included.
    cost: int


#: One item per level, FULL first; None where the level does not exist. FULL does.
Levels = tuple[
    LevelEntry | None, LevelEntry | None, LevelEntry | None, LevelEntry | None
]


class PageEntry(NamedTuple):
    """Page-table entry of a live page, without its residency."""

    page_id: str
    version: int
    type: PageType
    modality: Modality
    importance: float
    #: Clock and turn of the thread at the event that made the page.
    created_seq: int
    created_turn: int
    levels: Levels
    #: Role of a slot's page, or of the system prompt.
    role: str | None = None
    #: Index of the page's slot.
    slot: int | None = None
    home: str = "L2"
    #: Place of the hint that the agent wrote, if any.
    hint: Location | None = None
    #: Name of a block, if that is not the block's id.
    name: str | None = None

    @property
    def called(self) -> str:
        """Name by which a block is addressed."""
        return self.name or self.page_id

    @property
    def full(self) -> LevelEntry:
        entry = self.levels[FULL]
        assert entry is not None
        return entry

    @property
    def turn(self) -> int:
        """Turn that made the page; for a message the turn of its request."""
        if self.slot is None:
            return self.created_turn
        return compute_request_turn(self.created_turn, self.role)

    def pick_level(self, level: int) -> int:
        """Return the existing level closest to `level` that is no less faithful."""
        return max(each for each in range(level + 1) if self.levels[each] is not None)

    def require_level(self, level: int) -> LevelEntry:
        """Return the entry of a level, which must exist."""
        entry = self.levels[level]
        assert entry is not None
        return entry


#: Entry fields that events, rows and snapshots have under the same names.
_SAME = (
    *("version", "type", "modality", "importance", "created_seq", "created_turn"),
    *("role", "slot", "home", "name"),
)


def copy_entry_fields(holder: Any) -> dict[str, Any]:
    """Copy a page's fields from an entry, or from an event or row that holds one.

    Not the places of texts, which each of the three stores in its own way.
    """
    return {name: getattr(holder, name) for name in _SAME}


def compute_request_turn(turns: int, role: str | None) -> int:
    """Return the turn whose request a message answers, or first could be part of.

    `turns` is the number of turns begun when the message was appended.
    """
    return turns if role == "assistant" else turns + 1


def build_slot_page_id(index: int) -> str:
    return f"slot-{index}"


def build_block_id(name: str) -> str:
    """Build the id of a new block's page: ids stand in paths and hold no slash."""
    return name.replace("/", "::")


def is_block_name(name: str) -> bool:
    """Return whether a block may have this name: one or more names between slashes.

    No last part of several is the word of an act, which ends an address.
    """
    *folders, last = name.split("/")
    if folders and last in BLOCK_ACTS:
        return False
    parts = (*folders, last, build_block_id(name))
    return all(map(names.is_valid, parts))


def is_reserved_id(page_id: str) -> bool:
    """Return whether only other routes make pages with this id."""
    return (
        page_id == SYSTEM_PROMPT
        or page_id.startswith(_RESERVED_IDS)
        or is_procedure_id(page_id)
    )


def build_procedure_id(digest: str, number: int) -> str:
    """Build the id of the page about a tool, by the digest of the tool's name."""
    return f"procedure-{digest[:16]}-{number}"


def is_procedure_id(page_id: str) -> bool:
    """Return whether a page id is that of a page about an own tool's calls."""
    return _PROCEDURE_ID.fullmatch(page_id) is not None


def is_observation(page_id: str) -> bool:
    """Return whether a page id is that of an observation or a reflection."""
    return page_id.startswith(OBSERVATION_IDS)


def is_system_prompt(entry: PageEntry) -> bool:
    """Return whether a page is a system slot or the system prompt page."""
    return entry.role == "system" or entry.page_id == SYSTEM_PROMPT


def choose_slot_type(role: str | None) -> PageType:
    """Return the page type of a slot: `artifact` for tool results."""
    return "artifact" if role == "tool" else "transcript"


def choose_slot_importance(role: str | None) -> float:
    return {"user": 0.6, "tool": 0.4}.get(role or "", DEFAULT_IMPORTANCE)
