"""Event bodies of checkpoints. Pydantic, frozen, strict.

Where a body refers to an event of another moment it gives the thread's clock, which is
the seq in a thread that is no fork.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from memoryhub.kernel.memory.nouns import MOVED, counts, measured_fields
from memoryhub.kernel.state.bodies import Body, Count, Event, Flag, Instant, Token
from memoryhub.kernel.state.page_events import EntryBody
from memoryhub.kernel.state.working_memory import Contents
from memoryhub.kernel.text.names import Name

#: Fields that tell how much a checkpoint holds. A body adds them to its annotations, so
#: that they stand where documents have had them since before they followed from nouns.
COUNTED: dict[str, Any] = {"keys": Count, **measured_fields("checkpoint")}
#: What a checkpoint from before a noun holds of it.
_NONE: dict[str, Any] = counts(Contents())


class CheckpointTaken(Event):
    """A point to return to. Payload: its description."""

    event_type = "checkpoint.taken"
    sealed = True

    name: Name | None = None
    auto: Flag = False
    parent: Count | None = None
    #: How much it holds; keys not yet swept included. Absent: the noun came later. Not
    #: a default of 0, with which an old event would be another once it is imported.
    __annotations__ |= {
        name: Annotated[kind | None, Field(default=None)]
        for name, kind in COUNTED.items()
    }
    #: Names touched since the parent; absent: any.
    touched: Count | None = None

    @property
    def counts(self) -> dict[str, Any]:
        """How much it holds, by name."""
        given = {name: getattr(self, name) for name in COUNTED}
        return {n: _NONE[n] if each is None else each for n, each in given.items()}


class RefreshedPage(Body):
    """A page that has changed since the checkpoint, as it is now."""

    page_id: Name
    entry: EntryBody


class CheckpointRestored(Event):
    """Parts of working memory are again what they were."""

    event_type = "checkpoint.restored"

    target: Count
    #: Names of slices, `keys`, `frames`.
    parts: list[Token]
    #: The checkpoint that holds what it was before.
    before: Count
    #: The instant by which expiry was judged.
    judged_at: Instant
    set: Count = 0
    removed: Count = 0
    expired: Count = 0
    #: Of each slice of many records, those that went and came.
    __annotations__ |= MOVED
    #: Automatic checkpoints that went with it.
    pruned: list[Count] = Field(default_factory=list)
    #: Pages of the working set that are gone since.
    left_out: list[Name] = Field(default_factory=list)
    refreshed: list[RefreshedPage] = Field(default_factory=list)

    @property
    def moved(self) -> dict[str, Any]:
        """How many records went and came, by slice."""
        return {name: getattr(self, name) for name in MOVED}


class CheckpointDeleted(Event):
    """A checkpoint is gone; values and other checkpoints stay."""

    event_type = "checkpoint.deleted"

    target: Count
