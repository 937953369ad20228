"""Event bodies: what the journal says happened. Pydantic, frozen, strict.

A body holds ids, names, numbers and closed words, never content; an event that is
`sealed` has content beside it. Names carry the mark `Name`.
"""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from memoryhub.kernel.state.bodies import (
    Body,
    Bytes,
    Count,
    Event,
    Flag,
    Number,
    Searched,
    Seconds,
    Size,
    Token,
)
from memoryhub.kernel.state.page_events import PlaceBody, SlotPage
from memoryhub.kernel.state.paging_config import PagingConfig
from memoryhub.kernel.text.names import Name, NameMark

#: Bumped when kernel code would fold an old event otherwise; the old evolver stays.
REPLAY_FORMAT = 1

Role = Literal["user", "assistant", "tool", "system"]
CloseReason = Literal["completed", "failed", "cancelled", "archived"]
LabelValue = bool | int | float | Name
#: Whose file a recorded run is from.
RunFormat = Literal[
    "runs", "chat", "tuning", "chatgpt", "claude", "claude-code", "codex"
]


class Label(Body):
    name: Name
    #: Blanked as a name is, whatever its type.
    value: Annotated[LabelValue, NameMark()]


class Limits(PagingConfig):
    """What a thread is configured with; absent means the default."""

    max_slots: Number | None = None
    #: Absent: the project's policy holds.
    retention_idle_days: Number | None = None
    max_keys: Number | None = None
    max_key_bytes: Bytes | None = None
    max_notes: Number | None = None
    #: Absent: the project's default, or never.
    default_ttl_seconds: Seconds | None = None


class Scoped(Event):
    agent_type: Name | None = None
    agent_instance: Name | None = None
    session: Name | None = None
    labels: list[Label] = Field(default_factory=list)


class ThreadCreated(Scoped):
    """A thread came into being for a subject."""

    event_type = "thread.created"

    subject: UUID
    config: Limits
    replay_format: Count
    #: It holds what is known of the subject beyond one thread; absent: it does not.
    home: Flag | None = None


class ThreadForked(Scoped):
    """A thread came into being with its parent's state as of a seq."""

    event_type = "thread.forked"

    subject: UUID
    parent: UUID
    parent_seq: Count
    #: Hex of the parent's chain at `parent_seq`: ties the two histories together.
    parent_chain: Token
    depth: Count
    config: Limits
    replay_format: Count


class ThreadDescribed(Event):
    """Scope levels were filled, or the labels replaced as a whole."""

    event_type = "thread.described"

    agent_type: Name | None = None
    agent_instance: Name | None = None
    session: Name | None = None
    #: None leaves the labels as they are.
    labels: list[Label] | None = None


class ThreadConfigured(Event):
    """Limits of the thread changed; a field that is absent stays."""

    event_type = "thread.configured"

    config: Limits


class ThreadClosed(Event):
    """Agent writes are refused from here on."""

    event_type = "thread.closed"

    reason: CloseReason


class ThreadReopened(Event):
    """Agent writes are taken again."""

    event_type = "thread.reopened"


class ThreadRetired(Event):
    """The retention policy ended the thread; erasing it follows."""

    event_type = "thread.retired"

    policy_days: Count
    idle_days: Count
    last_active_seq: Count


class SlotAppended(Event):
    """A message entered the thread. Payload: content, fields that its agent added."""

    event_type = "slot.appended"
    sealed = True
    recurs = True
    searched = Searched("message", ("content",))

    #: Dense from 0 in commit order; the slot's address for ever.
    index: Count
    from_name: Name = Field(alias="from")
    to_name: Name = Field(alias="to")
    type: Name
    role: Role | None = None
    own_name: Name | None = None
    #: By the thread's tokenizer, est/1 unless the agent sent its own count.
    tokens: Count
    #: Canonical UTF-8 size of the content, padded.
    bytes: Size
    #: Its page. None for a call of our own tools and for what answers one: the page
    #: that was fetched is shown instead; and in journals from before paging.
    page: SlotPage | None = None
    #: The page whose text it carries, and where that lies.
    carries: Name | None = None
    source: PlaceBody | None = None
    #: Of tools that it calls, keyed digests of their names; where something may be
    #: learnt of what is read before them.
    tools: list[Token] | None = None


class RunRecorded(Event):
    """The thread holds a recorded run. Payload: trial, reward and info of the run."""

    event_type = "run.recorded"
    sealed = True

    format: RunFormat
    messages: Count


class ImportAdvanced(Event):
    """A batch of a recorded run is in; where a repeated import goes on."""

    event_type = "import.advanced"

    count: Count
    #: Hex of the rolling keyed digest of the first `count` messages.
    digest: Token
