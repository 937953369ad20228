"""Commands: what someone wants to happen to a thread. Frozen values, checked already.

Times and ids come with them; the kernel has neither a clock nor chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from memoryhub.errors import Refusal
from memoryhub.kernel.state.bodies import Event
from memoryhub.kernel.state.erase_events import Range, Reason, RecordsErased
from memoryhub.kernel.state.events import (
    CloseReason,
    LabelValue,
    Limits,
    Role,
    RunRecorded,
)
from memoryhub.kernel.state.page_events import LevelMade
from memoryhub.kernel.state.pages import Modality
from memoryhub.kernel.state.state import Scope, ThreadState

Setting = str | int | float | bool | None


class Command:
    """Base of all commands."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse(Command):
    """Refuse what no command could be made for; repeats are answered before that."""

    refusal: Refusal


@dataclass(slots=True, kw_only=True)
class Draft:
    """An event and the content to seal beside it: plain JSON text, or None."""

    event: Event
    payload: bytes | None = None
    #: The state that it leads to, as far as its decision has looked. Its time and who
    #: was active then are none of it: they stand in what the journal adds.
    after: ThreadState | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateThread(Command):
    """Make the thread, or agree with the one that exists."""

    #: None accepts whichever subject the thread has.
    subject: UUID | None = None
    scope: Scope = Scope()
    #: None leaves labels as they are.
    labels: Mapping[str, LabelValue] | None = None
    config: Limits = Limits()
    #: The subject's home thread, which is made by what is written to it.
    home: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkThread(Command):
    """Make a thread that starts as its parent was at `parent.seq`."""

    parent: ThreadState
    #: Hex of the parent's chain at that seq.
    parent_chain: str
    scope: Scope = Scope()
    labels: Mapping[str, LabelValue] | None = None
    config: Limits = Limits()
    #: What the parent was told to erase after that seq.
    erased: tuple[RecordsErased, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AmendThread(Command):
    """Fill scope levels, replace labels, change limits."""

    scope: Scope = Scope()
    labels: Mapping[str, LabelValue] | None = None
    #: Names of the limits that were sent, so that null can be told from absent.
    config: Mapping[str, Setting] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseThread(Command):
    reason: CloseReason = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReopenThread(Command):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class RetireThread(Command):
    policy_days: int
    idle_days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseThread(Command):
    """Erase all of a thread, whatever its status. For the eraser alone."""

    erasure: UUID
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseRecords(Command):
    """Erase records of a thread and of what it inherits. For the eraser alone.

    Ranges of other threads, and what lies beyond, are no concern of this thread.
    """

    erasure: UUID
    reason: Reason
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """What the receiving handler was told with a message."""

    own_name: str | None = None
    is_self_call: bool | None = None
    usage_instructions: str = ""
    todo_nudge: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeLevels:
    """Levels of one version that were made beforehand, outside the transaction."""

    page_id: str
    version: int
    producer: str
    levels: tuple[LevelMade, ...]
    #: One JSON object: {"levels": {"1": text or JSON, …}}.
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSlot:
    """A message to append. `content` is JSON text as it was sent, UTF-8."""

    from_name: str
    to_name: str
    type: str
    content: bytes
    tokens: int
    #: The tokenizer that we counted by; None: its agent sent the count.
    counted_by: str | None = None
    #: Of its line in the context; None stands for `tokens`.
    cost: int | None = None
    #: Text, or structured when it is JSON of no known shape.
    modality: Modality = "text"
    role: Role | None = None
    agent_at: datetime | None = None
    handler: Handler | None = None
    #: Its lower levels, should it be too large to be shown whole; of no page id yet.
    made: MadeLevels | None = None
    #: It calls tools: with less than all of its text it is no such message any more.
    calls: bool = False
    #: Names of the agent's own tools that it calls.
    tools: tuple[str, ...] = ()
    #: Ids of its calls, if they are all of tools of ours and it says nothing.
    own_calls: tuple[str, ...] = ()
    #: The call that it answers, by the id that the model gave it.
    answers: str | None = None
    #: Whether it brings thoughts that its API wants back while the exchange runs.
    thinks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendSlots(Command):
    slots: tuple[NewSlot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A message of a recorded run; `turn` if a model call begins right before it."""

    slot: NewSlot
    turn: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportMessages(Command):
    """The next messages of a recorded run, after the first `after`."""

    after: int
    messages: tuple[Imported, ...]
    #: Hex of the rolling keyed digest once these are in.
    digest: str
    #: With the first batch only: the run and its info, JSON text.
    run: RunRecorded | None = None
    info: bytes | None = None
