"""Event bodies of keys. Pydantic, frozen, strict."""

from __future__ import annotations

from typing import Literal

from memoryhub.kernel.state.bodies import (
    Body,
    Count,
    EventBody,
    Flag,
    SearchSpec,
    Size,
    Until,
)
from memoryhub.kernel.state.page_events import By, PlaceBody
from memoryhub.kernel.text.names import Name


class KeySet(EventBody):
    """A key was set. Payload: the value."""

    event_type = "key.set"
    sealed = True
    searched = SearchSpec("value", ("value",))

    key: Name
    #: Bytes of the value, canonical UTF-8, padded.
    bytes: Size
    expires_at: Until | None = None
    #: Whether no unexpired key of that name existed.
    created: Flag = False
    #: Place of an ancestor's value, copied here to change its expiry.
    source: PlaceBody | None = None
    #: Actor on whose account the key was set; None: the agent.
    by: By | None = None


class KeyRetimed(EventBody):
    """The expiry of a key changed."""

    event_type = "key.retimed"

    key: Name
    expires_at: Until | None = None


class KeyDeleted(EventBody):
    """A key was deleted."""

    event_type = "key.deleted"

    key: Name


class KeysCleared(EventBody):
    """All keys were deleted."""

    event_type = "keys.cleared"

    #: Number of deleted keys that had not expired.
    count: Count


class ExpiredKey(Body):
    key: Name
    version: Count


class KeysExpired(EventBody):
    """Expired keys were swept."""

    event_type = "keys.expired"

    keys: list[ExpiredKey]


class ValuesErased(EventBody):
    """Values whose retention in history had ended left the journal."""

    event_type = "values.erased"

    seqs: list[Count]
    reason: Literal["expired"] = "expired"
