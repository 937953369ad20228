"""Events as lines of a bundle, both ways. Content passes byte for byte, unparsed.

A line is one JSON object: thread, seq, type, at, actor, body, content, erased, chain.
`erased` is the seq of the event that took the content, `chain` the hash of the thread
up to here where it was exported.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from memoryhub.errors import BadBundleError
from memoryhub.journal.log import chain
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.strict_json import JsonRefusedError

_FIELDS: Final = frozenset(
    {
        *("thread", "seq", "type", "at", "actor"),
        *("body", "content", "erased", "chain"),
    }
)
#: A content stands some levels down in its line.
_LIMITS: Final = strict_json.Limits(
    max_bytes=sys.maxsize, max_nodes=sys.maxsize, max_depth=64, content=True
)
_DIGITS: Final = frozenset("0123456789abcdef")


class EventLine(NamedTuple):
    """One event of a bundle."""

    thread: str
    seq: int
    type: str
    at: datetime
    actor: str
    #: Canonical JSON.
    body: str
    #: JSON as it was sent; None once erased or if there never was any.
    content: bytes | None
    erased: int | None
    #: Hex.
    chain: str


def written(line: EventLine) -> bytes:
    """Return the event's line, without its end."""
    begin, end = _around(line)
    return begin + (line.content or b"null") + end


def read(text: bytes) -> EventLine:
    """Parse the event of a line.

    Raises BadBundleError for what `written` never made.
    """
    try:
        plain = strict_json.parse(text, _LIMITS)
    except JsonRefusedError:
        raise BadBundleError(what="json") from None
    if not isinstance(plain, dict) or plain.keys() != _FIELDS:
        raise BadBundleError(what="line")
    if plain["type"] not in TYPES:
        raise BadBundleError(what="event_type")
    line = _line(plain)
    begin, end = _around(line)
    if plain["content"] is None:
        return line
    if not isinstance(plain["content"], dict):
        raise BadBundleError(what="line")
    if not (text.startswith(begin) and text.endswith(end)):
        # Only as it was written can content be told from the rest of the line.
        raise BadBundleError(what="line")
    return line._replace(content=text[len(begin) : len(text) - len(end)])


def _around(line: EventLine) -> tuple[bytes, bytes]:
    """What stands before the content, and after it."""
    at = line.at.isoformat(timespec="microseconds")
    erased = "null" if line.erased is None else line.erased
    begin = (
        f'{{"thread":"{line.thread}","seq":{line.seq},"type":"{line.type}",'
        f'"at":"{at}","actor":"{line.actor}","body":{line.body},"content":'
    )
    return begin.encode(), f',"erased":{erased},"chain":"{line.chain}"}}'.encode()


def _line(plain: dict[str, Any]) -> EventLine:
    """The values, each of its kind, but for the content."""
    try:
        at = datetime.fromisoformat(plain["at"])
        right = (
            str(UUID(plain["thread"])) == plain["thread"]
            and at.tzinfo is UTC
            and _whole(plain["seq"])
            and (plain["erased"] is None or _whole(plain["erased"]))
            and _actor(plain["actor"])
            and isinstance(plain["body"], dict)
            and len(plain["chain"]) == 64
            and _DIGITS.issuperset(plain["chain"])
        )
    except (ValueError, TypeError, AttributeError):
        raise BadBundleError(what="line") from None
    if not right:
        raise BadBundleError(what="line")
    return EventLine(
        thread=plain["thread"],
        seq=plain["seq"],
        type=plain["type"],
        at=at,
        actor=plain["actor"],
        body=chain.text_of(plain["body"]),
        content=None,
        erased=plain["erased"],
        chain=plain["chain"],
    )


def _whole(value: object) -> bool:
    return type(value) is int and 0 < value < 2**63


def _actor(value: str) -> bool:
    """A word and an id, as every actor is: no text that JSON would escape."""
    plain = value.replace(":", "").replace("-", "").replace("_", "")
    return len(value) <= 64 and plain.isascii() and plain.isalnum()
