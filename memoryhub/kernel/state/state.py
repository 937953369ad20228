"""The state of a thread, folded from its journal. Frozen, slotted, pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias
from uuid import UUID

from rpds import HashTrieMap

from memoryhub.kernel.state.calls import CallLog
from memoryhub.kernel.state.events import LabelValue, ThreadConfig
from memoryhub.kernel.state.knowledge import Knowledge
from memoryhub.kernel.state.observing import Observing
from memoryhub.kernel.state.paging import Paging
from memoryhub.kernel.state.tuples import add_quick_replace
from memoryhub.kernel.state.turn_marks import NO_MARKS, TurnMarks
from memoryhub.kernel.state.working_memory import (
    DEFAULT_MAX_KEY_BYTES,
    DEFAULT_MAX_KEYS,
    WorkingMemory,
)

Status = Literal["new", "open", "closed", "retired", "importing", "erased"]
Counts: TypeAlias = "HashTrieMap[str, int]"

DEFAULT_MAX_SLOTS = 100_000
MAX_MAX_SLOTS = 10_000_000
MAX_RETENTION_DAYS = 36_500
MAX_FORK_DEPTH = 32
MAX_LABELS = 16
#: Most types, and most senders, counted by name: a client may choose a new name with
#: every slot, and the state must stay small. See decision 8.
MAX_COUNTED = 1000
#: Name that counts all further names; no client can choose the empty name.
OTHER = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeLabels:
    """Client labels (agent type, instance, session), used only to filter threads."""

    agent_type: str | None = None
    agent_instance: str | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageSegment:
    """A run of slots that a fork reads from an ancestor: first <= index < end."""

    thread: UUID
    first: int
    end: int
    #: The ancestor's last seq that the fork sees.
    up_to_seq: int


@add_quick_replace
class ThreadState(NamedTuple):
    """Everything about a thread but its name and its content.

    A tuple, since every event replaces the state twice: a dataclass takes six times as
    long.
    """

    id: UUID
    project: UUID
    subject: UUID
    seq: int = 0
    at: datetime | None = None
    status: Status = "new"
    scope: ScopeLabels = ScopeLabels()
    labels: tuple[tuple[str, LabelValue], ...] = ()
    config: ThreadConfig = ThreadConfig()
    depth: int = 0
    lineage: tuple[LineageSegment, ...] = ()
    #: Slots inherited from the parent; 0 in a thread that is no fork.
    inherited: int = 0
    created_at: datetime | None = None
    slot_count: int = 0
    turn_count: int = 0
    token_count: int = 0
    byte_count: int = 0
    types: Counts = HashTrieMap()
    senders: Counts = HashTrieMap()
    #: Seq and time of the newest event of an agent, an operator or an import.
    active_seq: int = 0
    active_at: datetime | None = None
    #: Messages and rolling digest of the recorded run this thread holds.
    imported: int = 0
    import_digest: str = ""
    paging: Paging = Paging()
    memory: WorkingMemory = WorkingMemory()
    #: Whether the thread is the subject's home, which holds no messages and no turns.
    home: bool = False
    knowledge: Knowledge = Knowledge()
    observing: Observing = Observing()
    #: Calls of the agent's own tools.
    calls: CallLog = ()
    marks: TurnMarks = NO_MARKS

    @property
    def size(self) -> int:
        """Approximate KiB of the state in memory: 10, and 1 for each resident page."""
        return 10 + self.paging.resident

    @property
    def max_slots(self) -> int:
        return self.config.max_slots or DEFAULT_MAX_SLOTS

    @property
    def max_keys(self) -> int:
        return self.config.max_keys or DEFAULT_MAX_KEYS

    @property
    def max_key_bytes(self) -> int:
        return self.config.max_key_bytes or DEFAULT_MAX_KEY_BYTES

    @property
    def clock(self) -> int:
        """The thread's seq plus the inherited seqs of its ancestors.

        Paging orders pages by the clock: inherited pages are older than a fork's own.
        """
        # Asked of every event several times; few threads are forks.
        return self.seq + self.inherited_clock if self.lineage else self.seq

    @property
    def inherited_clock(self) -> int:
        """The clock of the last inherited event; 0 if the thread is no fork."""
        if not self.lineage:
            return 0
        return sum(part.up_to_seq for part in self.lineage)

    def to_seq(self, clock: int) -> int:
        """Convert a clock to a number in this thread: the seq, or ≤ 0 if inherited.

        No two events of one thread share a number, and the order stays.
        """
        return clock - self.inherited_clock

    def locate_event(self, clock: int) -> tuple[UUID, int]:
        """Return (thread, seq) of the event at a clock, perhaps an ancestor's event."""
        for part in self.lineage:
            if clock <= part.up_to_seq:
                return part.thread, clock
            clock -= part.up_to_seq
        return self.id, clock

    @property
    def nearly_full(self) -> bool:
        return self.slot_count * 10 >= self.max_slots * 9


def count_name(counts: Counts, name: str) -> Counts:
    """Count one more of `name`; a name beyond `MAX_COUNTED` counts as `OTHER`."""
    count = counts.get(name, 0)
    if not count and len(counts) >= MAX_COUNTED:
        name, count = OTHER, counts.get(OTHER, 0)
    return counts.insert(name, count + 1)
