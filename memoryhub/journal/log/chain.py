"""The hash chain of a thread: each event's hash covers all events before it.

Hashes cover sealed bytes and digests of names, so erasing either leaves the chain
whole.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any
from uuid import UUID

import orjson

from memoryhub.kernel.replay import RecordedEvent
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.text import names
from memoryhub.models.events import Event as Row

#: Hash that the first event of a thread follows.
GENESIS = bytes(32)
#: Digest used for an event without a payload.
_NO_PAYLOAD = bytes(32)


def to_plain_body(event: EventBody) -> dict[str, Any]:
    """Return the event's body as JSON values, absent fields left out."""
    return event.model_dump(mode="json", by_alias=True, exclude_none=True)


def render_body(body: dict[str, Any]) -> str:
    """Return the body as stored: JSON, keys sorted."""
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS).decode()


def build_stored_envelope(row: Row, recorded: RecordedEvent, *, salt: bytes) -> bytes:
    """Return the envelope of a stored event, with the body that is stored."""
    return build_envelope(
        orjson.loads(row.body), recorded, thread=row.thread_id, salt=salt
    )


def build_envelope(
    body: dict[str, Any], recorded: RecordedEvent, *, thread: UUID, salt: bytes
) -> bytes:
    """Return the canonical JSON of an event without its payload, names blanked."""
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
