"""Event bodies of threads, slots and imports. Pydantic, frozen, strict.

A body holds ids, names, numbers and closed words, never content; an event that is
`sealed` has a payload with its content. Names carry the mark `Name`.
"""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from memoryhub.kernel.state.bodies import (
    Body,
    Bytes,
    Count,
    EventBody,
    Flag,
    Number,
    SearchSpec,
    Seconds,
    Size,
    Token,
)
from memoryhub.kernel.state.page_events import PlaceBody, SlotPage
from memoryhub.kernel.state.paging_config import PagingConfig
from memoryhub.kernel.text.names import Name, NameMark

#: Version of the folding. Raise it when code would fold an old event differently, and
#: keep the old evolver.
REPLAY_FORMAT = 1

Role = Literal["user", "assistant", "tool", "system"]
CloseReason = Literal["completed", "failed", "cancelled", "archived"]
LabelValue = bool | int | float | Name
#: Format of the file that a recorded run comes from.
# fmt: off
RunFormat = Literal[
    "runs", "chat", "tuning", "chatgpt", "claude", "claude-code", "codex",
    "mem0", "letta", "zep", "langgraph",
]
# fmt: on


class Label(Body):
    name: Name
    #: Erasure blanks the value like a name, whatever its type.
    value: Annotated[LabelValue, NameMark()]


class ThreadConfig(PagingConfig):
    """Configuration of a thread; an absent field means the default."""

    max_slots: Number | None = None
    #: Absent: the project's policy holds.
    retention_idle_days: Number | None = None
    max_keys: Number | None = None
    max_key_bytes: Bytes | None = None
    max_notes: Number | None = None
    #: Absent: the project's default, or never.
    default_ttl_seconds: Seconds | None = None


class Scoped(EventBody):
    agent_type: Name | None = None
    agent_instance: Name | None = None
    session: Name | None = None
    labels: list[Label] = Field(default_factory=list)


class ThreadCreated(Scoped):
    """A thread came into being for a subject."""

    event_type = "thread.created"

    subject: UUID
    config: ThreadConfig
    replay_format: Count
    #: The thread is the subject's home, which holds blocks and facts; absent: no.
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
    config: ThreadConfig
    replay_format: Count


class ThreadDescribed(EventBody):
    """Scope levels were filled, or the labels replaced as a whole."""

    event_type = "thread.described"

    agent_type: Name | None = None
    agent_instance: Name | None = None
    session: Name | None = None
    #: None leaves the labels as they are.
    labels: list[Label] | None = None


class ThreadConfigured(EventBody):
    """The thread's config was replaced; an absent field has its default."""

    event_type = "thread.configured"

    config: ThreadConfig


class ThreadClosed(EventBody):
    """Agent writes are refused from here on."""

    event_type = "thread.closed"

    reason: CloseReason


class ThreadReopened(EventBody):
    """Agent writes are taken again."""

    event_type = "thread.reopened"


class ThreadRetired(EventBody):
    """The retention policy ended the thread; erasing it follows."""

    event_type = "thread.retired"

    policy_days: Count
    idle_days: Count
    last_active_seq: Count


class SlotAppended(EventBody):
    """A message entered the thread. Payload: content, fields that the agent added."""

    event_type = "slot.appended"
    sealed = True
    recurs = True
    searched = SearchSpec("message", ("content",))

    #: Dense from 0 in commit order; the permanent address of the slot.
    index: Count
    from_name: Name = Field(alias="from")
    to_name: Name = Field(alias="to")
    type: Name
    role: Role | None = None
    own_name: Name | None = None
    #: Counted by the thread's tokenizer, est/1 unless the agent sent its own count.
    tokens: Count
    #: Canonical UTF-8 size of the content, padded.
    bytes: Size
    #: Page of the slot. None for a call of the server's tools and for its answer, where
    #: the fetched page is shown instead, and in journals from before paging.
    page: SlotPage | None = None
    #: Page whose text the slot carries, and the place of that text.
    carries: Name | None = None
    source: PlaceBody | None = None
    #: Keyed digests of the names of the tools that the slot calls; only where the hub
    #: learns which pages are read before a tool call.
    tools: list[Token] | None = None


class RunRecorded(EventBody):
    """The thread holds a recorded run. Payload: trial, reward and info of the run."""

    event_type = "run.recorded"
    sealed = True

    format: RunFormat
    messages: Count


class ImportAdvanced(EventBody):
    """A batch of a recorded run was imported; a repeated import goes on after it."""

    event_type = "import.advanced"

    count: Count
    #: Hex of the rolling keyed digest of the first `count` messages.
    digest: Token
