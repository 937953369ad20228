"""Events as lines of a bundle, written and parsed. Content passes byte for byte.

A line is one JSON object: thread, seq, type, at, actor, body, content, erased, chain.
`erased` is the seq of the event that erased the content. `chain` is the thread's hash
at this event in the instance that exported it.
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
#: Content is nested some levels deep in its line.
_LIMITS: Final = strict_json.JsonLimits(
    max_bytes=sys.maxsize, max_nodes=sys.maxsize, max_depth=64, content=True
)
_DIGITS: Final = frozenset("0123456789abcdef")


class BundleLine(NamedTuple):
    """One event of a bundle."""

    thread: str
    seq: int
    type: str
    at: datetime
    actor: str
    #: Canonical JSON.
    body: str
    #: JSON as sent; None once erased, or if the event never had content.
    content: bytes | None
    erased: int | None
    #: Hex.
    chain: str


def render_line(line: BundleLine) -> bytes:
    """Return the event's line, without the line break."""
    begin, end = _render_frame(line)
    return begin + (line.content or b"null") + end


def parse_line(text: bytes) -> BundleLine:
    """Parse the event of a line.

    Raises BadBundleError for a line that `render_line` never made.
    """
    try:
        plain = strict_json.parse(text, _LIMITS)
    except JsonRefusedError:
        raise BadBundleError(what="json") from None
    if not isinstance(plain, dict) or plain.keys() != _FIELDS:
        raise BadBundleError(what="line")
    if plain["type"] not in TYPES:
        raise BadBundleError(what="event_type")
    line = _build_line(plain)
    begin, end = _render_frame(line)
    if not (text.startswith(begin) and text.endswith(end)):
        # Content can be separated from the rest only in a line of exactly that form.
        raise BadBundleError(what="line")
    content = text[len(begin) : len(text) - len(end)]
    if content == b"null":
        return line
    if not isinstance(plain["content"], dict):
        raise BadBundleError(what="line")
    return line._replace(content=content)


def _render_frame(line: BundleLine) -> tuple[bytes, bytes]:
    """Return the parts of the line before and after the content."""
    at = line.at.isoformat(timespec="microseconds")
    erased = "null" if line.erased is None else line.erased
    begin = (
        f'{{"thread":"{line.thread}","seq":{line.seq},"type":"{line.type}",'
        f'"at":"{at}","actor":"{line.actor}","body":{line.body},"content":'
    )
    return begin.encode(), f',"erased":{erased},"chain":"{line.chain}"}}'.encode()


def _build_line(plain: dict[str, Any]) -> BundleLine:
    """Check the type of each value; return the line without its content."""
    try:
        at = datetime.fromisoformat(plain["at"])
        right = (
            str(UUID(plain["thread"])) == plain["thread"]
            and at.tzinfo is UTC
            and _is_positive_int(plain["seq"])
            and (plain["erased"] is None or _is_positive_int(plain["erased"]))
            and _is_actor(plain["actor"])
            and isinstance(plain["body"], dict)
            and len(plain["chain"]) == 64
            and _DIGITS.issuperset(plain["chain"])
        )
    except (ValueError, TypeError, AttributeError):
        raise BadBundleError(what="line") from None
    if not right:
        raise BadBundleError(what="line")
    return BundleLine(
        thread=plain["thread"],
        seq=plain["seq"],
        type=plain["type"],
        at=at,
        actor=plain["actor"],
        body=chain.render_body(plain["body"]),
        content=None,
        erased=plain["erased"],
        chain=plain["chain"],
    )


def _is_positive_int(value: object) -> bool:
    return type(value) is int and 0 < value < 2**63


def _is_actor(value: str) -> bool:
    """Return whether it is a word and an id, hence no text that JSON would escape."""
    plain = value.replace(":", "").replace("-", "").replace("_", "")
    return len(value) <= 64 and plain.isascii() and plain.isalnum()
