"""The hash chain of a thread: each event vouches for all before it.

Hashes cover sealed bytes and digests of names, so erasing either leaves it whole.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any
from uuid import UUID

import orjson

from memoryhub.kernel.replay import Recorded
from memoryhub.kernel.state.bodies import Event
from memoryhub.kernel.text import names
from memoryhub.models.events import Event as Row

#: What the first event of a thread follows.
GENESIS = bytes(32)
#: Stands for the digest of a payload that an event does not have.
_NO_PAYLOAD = bytes(32)


def plain_body(event: Event) -> dict[str, Any]:
    """Return the event's body as JSON values, absent fields left out."""
    return event.model_dump(mode="json", by_alias=True, exclude_none=True)


def text_of(body: dict[str, Any]) -> str:
    """Return the body as it is stored: JSON, keys sorted."""
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS).decode()


def envelope_of(row: Row, recorded: Recorded, *, salt: bytes) -> bytes:
    """Return the envelope of a stored event, whose body is what is stored of it."""
    return envelope(orjson.loads(row.body), recorded, thread=row.thread_id, salt=salt)


def envelope(
    body: dict[str, Any], recorded: Recorded, *, thread: UUID, salt: bytes
) -> bytes:
    """Return canonical JSON of an event without its payload, names blanked."""
    kind = type(recorded.event)
    return orjson.dumps(
        {
            "actor": recorded.actor,
            "at": recorded.at.isoformat(timespec="microseconds"),
            "body": names.replace_names(kind, body, partial(names.blank, salt)),
            "seq": recorded.seq,
            "thread": str(thread),
            "type": kind.event_type,
        },
        option=orjson.OPT_SORT_KEYS,
    )


def link(previous: bytes, canonical: bytes, payload_digest: bytes | None) -> bytes:
    """Return sha256(previous ‖ canonical envelope ‖ sha256 of the sealed payload)."""
    return hashlib.sha256(
        previous + canonical + (payload_digest or _NO_PAYLOAD)
    ).digest()
