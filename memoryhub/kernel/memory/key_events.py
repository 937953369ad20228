"""Event bodies of keys. Pydantic, frozen, strict."""

from __future__ import annotations

from typing import Literal

from memoryhub.kernel.state.bodies import (
    Body,
    Count,
    Event,
    Flag,
    Searched,
    Size,
    Until,
)
from memoryhub.kernel.state.page_events import By, PlaceBody
from memoryhub.kernel.text.names import Name


class KeySet(Event):
    """A key has a value. Payload: the value."""

    event_type = "key.set"
    sealed = True
    searched = Searched("value", ("value",))

    key: Name
    #: Of the value, canonical UTF-8, padded.
    bytes: Size
    expires_at: Until | None = None
    #: There was none of that name that counted.
    created: Flag = False
    #: Where the ancestor's value lies that was copied, for its expiry to be changed.
    source: PlaceBody | None = None
    #: On whose account; None: its agent's.
    by: By | None = None


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
