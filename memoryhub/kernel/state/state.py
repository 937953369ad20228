"""The state of a thread: what its journal folds to. Frozen, slotted, pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias
from uuid import UUID

from rpds import HashTrieMap

from memoryhub.kernel.state.events import LabelValue, Limits
from memoryhub.kernel.state.knowledge import Knowledge
from memoryhub.kernel.state.observing import Observing
from memoryhub.kernel.state.paging import Paging
from memoryhub.kernel.state.tuples import with_quick_replace
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
#: Types, and senders, that are counted by name: a client may choose a new one with
#: every slot, and the state must stay small.
MAX_COUNTED = 1000
#: No client can choose it.
OTHER = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where in the client's house the thread belongs; for finding, nothing else."""

    agent_type: str | None = None
    agent_instance: str | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of slots a fork reads from an ancestor: first <= index < end."""

    thread: UUID
    first: int
    end: int
    #: The ancestor's seq up to which the fork sees it.
    up_to_seq: int


@with_quick_replace
class ThreadState(NamedTuple):
    """Everything about a thread but its name and its content.

    A tuple, for every event replaces it twice: a dataclass takes six times as long to.
    """

    id: UUID
    project: UUID
    subject: UUID
    seq: int = 0
    at: datetime | None = None
    status: Status = "new"
    scope: Scope = Scope()
    labels: tuple[tuple[str, LabelValue], ...] = ()
    config: Limits = Limits()
    depth: int = 0
    lineage: tuple[Segment, ...] = ()
    #: Of the state inherited from the parent; 0 in a thread that is no fork.
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
    #: It is the subject's home thread: it holds no messages and begins no turns.
    home: bool = False
    knowledge: Knowledge = Knowledge()
    observing: Observing = Observing()

    @property
    def size(self) -> int:
        """KiB that it takes in memory, nearly: ten, and one for each page at hand."""
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
        """The seq, counted on from those of the ancestors that a fork goes on from.

        Paging orders pages by it: what a fork inherits is older than what it adds.
        """
        return self.seq + self.inherited_clock

    @property
    def inherited_clock(self) -> int:
        """The clock at the last event that is inherited; 0 if the thread is no fork."""
        if not self.lineage:
            return 0
        return sum(part.up_to_seq for part in self.lineage)

    def seq_of(self, clock: int) -> int:
        """Return an event's number in this thread: its seq, or ≤ 0 if inherited.

        So no two events that one thread knows share a number, and order is kept.
        """
        return clock - self.inherited_clock

    def place(self, clock: int) -> tuple[UUID, int]:
        """Return (thread, seq) of the event at that clock, perhaps an ancestor's."""
        for part in self.lineage:
            if clock <= part.up_to_seq:
                return part.thread, clock
            clock -= part.up_to_seq
        return self.id, clock

    @property
    def nearly_full(self) -> bool:
        return self.slot_count * 10 >= self.max_slots * 9


def count(counts: Counts, name: str) -> Counts:
    """Count one more of `name`; beyond `MAX_COUNTED` names it counts as `OTHER`."""
    if name not in counts and len(counts) >= MAX_COUNTED:
        name = OTHER
    return counts.insert(name, counts.get(name, 0) + 1)
