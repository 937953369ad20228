"""Commands: requested changes of a thread, as frozen and validated values.

A command carries its times and ids; the kernel has neither a clock nor randomness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from memoryhub.errors import Refusal
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.erase_events import Range, Reason, RecordsErased
from memoryhub.kernel.state.events import (
    CloseReason,
    LabelValue,
    Role,
    RunRecorded,
    ThreadConfig,
)
from memoryhub.kernel.state.page_events import By, LevelMade
from memoryhub.kernel.state.pages import Modality
from memoryhub.kernel.state.state import ScopeLabels, ThreadState

Setting = str | int | float | bool | None


class Command:
    """Base of all commands."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse(Command):
    """Refuse a request that made no command; repeated requests are answered first."""

    refusal: Refusal


@dataclass(slots=True, kw_only=True)
class EventDraft:
    """An event and the content to seal beside it: plain JSON text, or None."""

    event: EventBody
    payload: bytes | None = None
    #: State after the event, if the decision has computed it. Time and last activity
    #: are missing there: the journal adds both.
    after: ThreadState | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateThread(Command):
    """Make the thread, or agree with the existing thread."""

    #: None accepts any subject of the thread.
    subject: UUID | None = None
    scope: ScopeLabels = ScopeLabels()
    #: None leaves labels as they are.
    labels: Mapping[str, LabelValue] | None = None
    config: ThreadConfig = ThreadConfig()
    #: Whether to make the subject's home thread; the first write to it does so.
    home: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkThread(Command):
    """Make a thread that starts with its parent's state at `parent.seq`."""

    parent: ThreadState
    #: Hex of the parent's chain at that seq.
    parent_chain: str
    scope: ScopeLabels = ScopeLabels()
    labels: Mapping[str, LabelValue] | None = None
    config: ThreadConfig = ThreadConfig()
    #: Erasures of the parent after that seq.
    erased: tuple[RecordsErased, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AmendThread(Command):
    """Fill scope levels, replace labels, change limits."""

    scope: ScopeLabels = ScopeLabels()
    labels: Mapping[str, LabelValue] | None = None
    #: The limits that were sent, so that null differs from absent.
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
    """Erase a whole thread, whatever its status. For the eraser alone."""

    erasure: UUID
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseRecords(Command):
    """Erase records of a thread and of its ancestors. For the eraser alone.

    The command ignores ranges of other threads and records beyond the inherited seqs.
    """

    erasure: UUID
    reason: Reason
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerContext:
    """Context that the receiving handler got with a message."""

    own_name: str | None = None
    is_self_call: bool | None = None
    usage_instructions: str = ""
    todo_nudge: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeLevels:
    """Levels of one page version, made beforehand, outside the transaction."""

    page_id: str
    version: int
    producer: str
    levels: tuple[LevelMade, ...]
    #: One JSON object: {"levels": {"1": text or JSON, …}}.
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSlot:
    """A message to append. `content` is the JSON text that was sent, UTF-8."""

    from_name: str
    to_name: str
    type: str
    content: bytes
    tokens: int
    #: Tokenizer of the server's count; None: the agent sent the count.
    counted_by: str | None = None
    #: Tokens of the message's line in the context; None stands for `tokens`.
    cost: int | None = None
    #: `text`, or `structured` for JSON of no known shape.
    modality: Modality = "text"
    role: Role | None = None
    agent_at: datetime | None = None
    handler: HandlerContext | None = None
    #: Lower levels, for a message too large to be shown whole; without a page id yet.
    made: MadeLevels | None = None
    #: Whether the message calls tools; such a message is shown whole or not at all.
    calls: bool = False
    #: Names of the agent's own tools that the message calls.
    tools: tuple[str, ...] = ()
    #: Ids of the calls, if the message only calls tools of the hub and has no text.
    own_calls: tuple[str, ...] = ()
    #: Id, given by the model, of the call that the message answers.
    answers: str | None = None
    #: Whether the message has reasoning that the API wants back within the exchange.
    thinks: bool = False
    #: Ids that the model's message cites, as the model wrote them.
    cites: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendSlots(Command):
    slots: tuple[NewSlot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StrikeSlots(Command):
    indexes: tuple[int, ...]
    by: By = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMessage:
    """A message of a recorded run; `turn` if a model call begins just before."""

    slot: NewSlot
    turn: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportMessages(Command):
    """The next messages of a recorded run, after the first `after`."""

    after: int
    messages: tuple[RunMessage, ...]
    #: Hex of the rolling keyed digest after these messages.
    digest: str
    #: With the first batch only: the run and its info, JSON text.
    run: RunRecorded | None = None
    info: bytes | None = None
