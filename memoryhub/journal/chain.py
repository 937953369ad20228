"""The hash chain of a thread: each event vouches for all before it.

Hashes cover sealed bytes and digests of names, so erasing either leaves it whole.
"""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from memoryhub.kernel import names
from memoryhub.kernel.events import TYPES, Event
from memoryhub.models.events import Event as Row

#: What the first event of a thread follows.
GENESIS = bytes(32)
#: Stands for the digest of a payload that an event does not have.
_NO_PAYLOAD = bytes(32)


def body_of(event: Event) -> str:
    """The event's body as it is stored: JSON, keys sorted, absent fields left out."""
    plain = event.model_dump(mode="json", by_alias=True, exclude_none=True)
    return orjson.dumps(plain, option=orjson.OPT_SORT_KEYS).decode()


def envelope_of(row: Row, *, salt: bytes) -> bytes:
    """Canonical JSON of everything about an event but its payload, names blanked."""
    plain: dict[str, Any] = orjson.loads(row.body)
    blanked = names.replace_names(
        TYPES[row.type], plain, lambda name: names.blank(salt, name)
    )
    return orjson.dumps(
        {
            "actor": row.actor,
            "at": row.at.isoformat(timespec="microseconds"),
            "body": blanked,
            "seq": row.seq,
            "thread": str(row.thread_id),
            "type": row.type,
        },
        option=orjson.OPT_SORT_KEYS,
    )


def link(previous: bytes, canonical: bytes, payload_digest: bytes | None) -> bytes:
    """sha256(previous ‖ canonical envelope ‖ sha256 of the sealed payload)."""
    return hashlib.sha256(
        previous + canonical + (payload_digest or _NO_PAYLOAD)
    ).digest()
