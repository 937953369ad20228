"""Pages: the unit of memory. Their types, levels and page-table entries. Pure."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args
from uuid import UUID

#: What agents make; messages are of the first two.
AgentPageType = Literal[
    "transcript", "artifact", "summary", "claim", "index", "procedure"
]
#: Blocks are the home threads' alone.
PageType = Literal[AgentPageType, "block"]
Modality = Literal["text", "image", "audio", "video", "structured"]
Level = Literal[0, 1, 2, 3]
Tier = Literal["L0", "L1", "L2", "L3", "L4"]

PAGE_TYPES: tuple[str, ...] = get_args(PageType)
MODALITIES: tuple[str, ...] = get_args(Modality)
FULL, REDUCED, ABSTRACT, REFERENCE = 0, 1, 2, 3
#: In a location, in the place of a level: the page's hint, which its agent wrote.
HINT = -1
LEVEL_NAMES = ("full", "reduced", "abstract", "reference")

#: How gladly a type leaves the working set: 1 goes first.
PRIORITY: dict[str, float] = {
    "block": 0.1,
    "claim": 0.1,
    "index": 0.2,
    "procedure": 0.3,
    "summary": 0.4,
    "artifact": 0.6,
    "transcript": 0.7,
}
#: Types that pressure never replaces by a lower level: what they say is exact.
NEVER_LOWERED = frozenset({"claim", "index", "summary"})
DEFAULT_IMPORTANCE = 0.5
#: The type of blocks, and bytes of the text of one.
BLOCK: PageType = "block"
MAX_BLOCK_BYTES = 65_536
#: The page that is written by its own route and stands first in each request.
SYSTEM_PROMPT = "system-prompt"
#: What ids of pages begin with that come about by other routes.
_OBSERVATION_IDS = ("obs-", "ref-")
_RESERVED_IDS = ("slot-", *_OBSERVATION_IDS)


class Location(NamedTuple):
    """Where a text lies: in the payload of event (thread, seq)."""

    thread: UUID
    seq: int
    level: int

    def elsewhere(self, own: UUID) -> UUID | None:
        """Return the owning thread unless it is `own`, which is not stored."""
        thread = self.thread
        return None if thread is own or thread == own else thread


class LevelEntry(NamedTuple):
    """One level of a page."""

    location: Location
    #: Of the text itself.
    tokens: int
    #: Of its line in the context, framing and escapes included.
    cost: int


#: By level, FULL first; None where there is none. FULL is always there.
Levels = tuple[
    LevelEntry | None, LevelEntry | None, LevelEntry | None, LevelEntry | None
]


class Entry(NamedTuple):
    """What the page table says of a live page; residency is no part of it."""

    page_id: str
    version: int
    type: PageType
    modality: Modality
    importance: float
    #: The thread's clock and turn at the event that made the page.
    created_seq: int
    created_turn: int
    levels: Levels
    #: Of a slot's page, or of the system prompt.
    role: str | None = None
    #: Index of the slot whose page it is.
    slot: int | None = None
    home: str = "L2"
    #: Of the hint its agent wrote, if there is one.
    hint: Location | None = None

    @property
    def full(self) -> LevelEntry:
        entry = self.levels[FULL]
        assert entry is not None
        return entry

    @property
    def turn(self) -> int:
        """Return the turn that made the page; of a message its `request_turn`."""
        if self.slot is None:
            return self.created_turn
        return request_turn(self.created_turn, self.role)

    def at_most(self, level: int) -> int:
        """Return the greatest existing level that is no less faithful than `level`."""
        return max(each for each in range(level + 1) if self.levels[each] is not None)

    def at(self, level: int) -> LevelEntry:
        """Return the level's entry, which must exist."""
        entry = self.levels[level]
        assert entry is not None
        return entry


#: What events, rows and snapshots have of an entry under the same names.
_SAME = (
    *("version", "type", "modality", "importance", "created_seq", "created_turn"),
    *("role", "slot", "home"),
)


def entry_fields(holder: Any) -> dict[str, Any]:
    """Return the page's fields from an entry, or an event or row that stands for one.

    Where its texts lie is told by each in its own way.
    """
    return {name: getattr(holder, name) for name in _SAME}


def request_turn(turns: int, role: str | None) -> int:
    """Return the turn whose request a message answers, or the first that could hold it.

    So many `turns` had begun when it was appended.
    """
    return turns if role == "assistant" else turns + 1


def slot_page_id(index: int) -> str:
    return f"slot-{index}"


def is_reserved_id(page_id: str) -> bool:
    """Tell whether pages of such ids come about by other routes."""
    return page_id == SYSTEM_PROMPT or page_id.startswith(_RESERVED_IDS)


def is_observation(page_id: str) -> bool:
    """Tell whether a page is an observation or a reflection."""
    return page_id.startswith(_OBSERVATION_IDS)


def system_prompt(entry: Entry) -> bool:
    """Return whether the page is of the system prompt: a system slot or its own."""
    return entry.role == "system" or entry.page_id == SYSTEM_PROMPT


def slot_type(role: str | None) -> PageType:
    """Return the page type of a slot: what tools gave back are artifacts."""
    return "artifact" if role == "tool" else "transcript"


def slot_importance(role: str | None) -> float:
    return {"user": 0.6, "tool": 0.4}.get(role or "", DEFAULT_IMPORTANCE)
