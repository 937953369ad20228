"""Event bodies of checkpoints. Pydantic, frozen, strict.

A body names other events by the thread's clock, which in a thread that is no fork is
the seq.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from memoryhub.kernel.memory.nouns import (
    MOVED_FIELDS,
    build_measured_fields,
    count_contents,
)
from memoryhub.kernel.state.bodies import Body, Count, EventBody, Flag, Instant, Token
from memoryhub.kernel.state.page_events import EntryBody
from memoryhub.kernel.state.working_memory import Contents
from memoryhub.kernel.text.names import Name

#: Fields with the sizes of a checkpoint. A body adds these fields to its annotations at
#: the position that documents have always had.
COUNTED: dict[str, Any] = {"keys": Count, **build_measured_fields("checkpoint")}
#: Sizes of nouns that are newer than a checkpoint.
_NONE: dict[str, Any] = count_contents(Contents())


class CheckpointTaken(EventBody):
    """A checkpoint of working memory was taken. Payload: its description."""

    event_type = "checkpoint.taken"
    sealed = True

    name: Name | None = None
    auto: Flag = False
    parent: Count | None = None
    #: Sizes of the contents, including keys not yet swept. Absent: the noun came later.
    #: The default is not 0, since an import would then alter an old event.
    __annotations__ |= {
        name: Annotated[kind | None, Field(default=None)]
        for name, kind in COUNTED.items()
    }
    #: Names touched since the parent; absent: any.
    touched: Count | None = None

    @property
    def counts(self) -> dict[str, Any]:
        """Sizes of the checkpoint's contents, by field name."""
        given = {name: getattr(self, name) for name in COUNTED}
        return {n: _NONE[n] if each is None else each for n, each in given.items()}


class RefreshedPage(Body):
    """A page that has changed since the checkpoint, with its current entry."""

    page_id: Name
    entry: EntryBody


class CheckpointRestored(EventBody):
    """Parts of working memory were restored from a checkpoint."""

    event_type = "checkpoint.restored"

    target: Count
    #: Names of slices, `keys`, `frames`.
    parts: list[Token]
    #: Checkpoint of the state before the restore.
    before: Count
    #: Instant as of which expiry was judged.
    judged_at: Instant
    set: Count = 0
    removed: Count = 0
    expired: Count = 0
    #: Number of records that left and came, for each slice of many records.
    __annotations__ |= MOVED_FIELDS
    #: Automatic checkpoints that the restore pruned.
    pruned: list[Count] = Field(default_factory=list)
    #: Pages of the checkpoint's working set that were deleted since.
    left_out: list[Name] = Field(default_factory=list)
    refreshed: list[RefreshedPage] = Field(default_factory=list)

    @property
    def moved(self) -> dict[str, Any]:
        """Number of records that left and came, by slice."""
        return {name: getattr(self, name) for name in MOVED_FIELDS}


class CheckpointDeleted(EventBody):
    """A checkpoint was deleted; values and other checkpoints stay."""

    event_type = "checkpoint.deleted"

    target: Count
