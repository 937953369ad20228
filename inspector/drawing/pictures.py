"""Pictures: which of a message a page may show, how large, and their bytes. Pure.

Only what came with the message is shown, and only of four kinds, told by the first
bytes and not by what the client says of them; of all others there is a line.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from memoryhub.kernel.messages import media
from memoryhub.kernel.messages.message import Medium, Message, Part

#: Larger ones are not served.
MOST_BYTES = 5 * 1_048_576
#: Pixels that a picture takes on a page, at most; it keeps its shape.
_WIDEST, _TALLEST = 640, 320
#: What decides on the kind, in base64.
_HEAD = 64
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What a page needs to know of a picture before it has come."""

    #: Which of the message's parts it is; the bytes are asked for by that.
    part: int
    #: `image 400×100, png`.
    about: str
    bytes: int
    #: None where its pixels are not known.
    width: int | None = None
    height: int | None = None


def list_parts(message: Message) -> list[Part]:
    """List what is said and what calls gave back, as the parts are numbered."""
    given = [part for result in message.results for part in result.parts]
    return [*message.parts, *given]


def draw(part: Part, number: int) -> Picture | None:
    """Draw a part that is a picture that pages show; None for any other."""
    medium = part.medium
    encoded = _encoded(part)
    kind = _kind(media.decoded(encoded[:_HEAD]))
    if medium is None or kind is None:
        return None
    bare = replace(part, medium=replace(medium, mime_type=kind, name=None, url=None))
    width, height = _fitted(medium)
    return Picture(
        part=number,
        about=media.line(bare)[1:-1],
        bytes=len(encoded) * 3 // 4,
        width=width,
        height=height,
    )


def find(message: Message, number: int) -> tuple[str, bytes] | None:
    """Find the kind and the bytes of a picture; None for what is not shown."""
    parts = list_parts(message)
    raw = b""
    if number < len(parts):
        # Padding that was left off; more than it takes is cut.
        raw = media.decoded(f"{_encoded(parts[number])}==")
    kind = _kind(raw)
    return (kind, raw) if kind and len(raw) <= MOST_BYTES else None


def _encoded(part: Part) -> str:
    """Return the base64 of a picture that is not too large; else nothing."""
    found = part.medium.base64 if part.kind == "image" and part.medium else None
    return found if found and len(found) <= MOST_BYTES * 4 // 3 + 4 else ""


def _kind(raw: bytes) -> str | None:
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _BEGINNINGS if raw.startswith(start)), None)


def _fitted(medium: Medium) -> tuple[int | None, int | None]:
    width, height = medium.width, medium.height
    if not (width and height):
        return None, None
    scale = min(1, _WIDEST / width, _TALLEST / height)
    return max(1, round(width * scale)), max(1, round(height * scale))
