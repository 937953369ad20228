"""Event bodies of working memory. Pydantic, frozen, strict.

Where a body refers to an event of another moment it gives the thread's clock, which is
the seq in a thread that is no fork.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from memoryhub.kernel.state.bodies import (
    Body,
    Count,
    Event,
    Flag,
    Instant,
    Token,
    Until,
)
from memoryhub.kernel.state.page_events import EntryBody, PlaceBody
from memoryhub.kernel.text.names import Name


class KeySet(Event):
    """A key has a value. Payload: the value."""

    event_type = "key.set"
    sealed = True

    key: Name
    #: Of the value, canonical UTF-8, padded.
    bytes: Count
    expires_at: Until | None = None
    #: There was none of that name that counted.
    created: Flag = False
    #: Where the ancestor's value lies that was copied, for its expiry to be changed.
    source: PlaceBody | None = None


class KeyRetimed(Event):
    """A key has another expiry."""

    event_type = "key.retimed"

    key: Name
    expires_at: Until | None = None


class KeyDeleted(Event):
    """A key is gone."""

    event_type = "key.deleted"

    key: Name


class KeysCleared(Event):
    """All keys are gone."""

    event_type = "keys.cleared"

    #: How many of them were visible.
    count: Count


class ExpiredKey(Body):
    key: Name
    version: Count


class KeysExpired(Event):
    """Keys whose instant had passed were swept."""

    event_type = "keys.expired"

    keys: list[ExpiredKey]


class ValuesErased(Event):
    """Values whose time in history was over left the journal."""

    event_type = "values.erased"

    seqs: list[Count]
    reason: Literal["expired"] = "expired"


class CheckpointTaken(Event):
    """A point to return to. Payload: its description."""

    event_type = "checkpoint.taken"
    sealed = True

    name: Name | None = None
    auto: Flag = False
    parent: Count | None = None
    #: Those not yet swept included.
    keys: Count
    notes: Count
    has_task: Flag
    #: Names touched since the parent; absent: any.
    touched: Count | None = None


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
    notes: Count = 0
    #: Automatic checkpoints that went with it.
    pruned: list[Count] = Field(default_factory=list)
    #: Pages of the working set that are gone since.
    left_out: list[Name] = Field(default_factory=list)
    refreshed: list[RefreshedPage] = Field(default_factory=list)


class CheckpointDeleted(Event):
    """A checkpoint is gone; values and other checkpoints stay."""

    event_type = "checkpoint.deleted"

    target: Count
