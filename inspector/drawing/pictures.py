"""Pictures of a message that a page may show, with their size and bytes. Pure.

Pages show only pictures whose bytes came with the message, and only four kinds. The
first bytes tell the kind, not the client's claim. Any other medium is a line of text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from memoryhub.kernel.messages import media
from memoryhub.kernel.messages.message import Medium, Message, MessagePart

#: Largest picture that is served, in bytes.
MAX_BYTES = 5 * 1_048_576
#: Most pixels that a picture takes on a page; scaling keeps its shape.
_WIDEST, _TALLEST = 640, 320
#: Characters of base64 that tell the kind.
_HEAD_CHARS = 64
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture as a page describes it before the browser loads the bytes."""

    #: Number of the part in `list_parts`; the URL of the bytes contains it.
    part: int
    #: `image 400×100, png`.
    about: str
    bytes: int
    #: Pixels; None when unknown.
    width: int | None = None
    height: int | None = None


def list_parts(message: Message) -> list[MessagePart]:
    """List the spoken parts, then the parts of results, in the order of numbers."""
    given = [part for result in message.results for part in result.parts]
    return [*message.parts, *given]


def draw(part: MessagePart, number: int) -> Picture | None:
    """Describe a part that pages show as a picture; None for any other part."""
    medium = part.medium
    encoded = _get_base64(part)
    kind = _detect_mime_type(media.decode_base64(encoded[:_HEAD_CHARS]))
    if medium is None or kind is None:
        return None
    bare = replace(part, medium=replace(medium, mime_type=kind, name=None, url=None))
    width, height = _fit_size(medium)
    return Picture(
        part=number,
        about=media.render_line(bare)[1:-1],
        bytes=len(encoded) * 3 // 4,
        width=width,
        height=height,
    )


def find(message: Message, number: int) -> tuple[str, bytes] | None:
    """Find the MIME type and the bytes of a picture; None if pages do not show it."""
    parts = list_parts(message)
    raw = b""
    if number < len(parts):
        # Adds padding that the client left off; the decoder ignores surplus.
        raw = media.decode_base64(f"{_get_base64(parts[number])}==")
    kind = _detect_mime_type(raw)
    return (kind, raw) if kind and len(raw) <= MAX_BYTES else None


def _get_base64(part: MessagePart) -> str:
    """Return the base64 of a picture of at most `MAX_BYTES` bytes; else empty."""
    found = part.medium.base64 if part.kind == "image" and part.medium else None
    return found if found and len(found) <= MAX_BYTES * 4 // 3 + 4 else ""


def _detect_mime_type(raw: bytes) -> str | None:
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _SIGNATURES if raw.startswith(start)), None)


def _fit_size(medium: Medium) -> tuple[int | None, int | None]:
    width, height = medium.width, medium.height
    if not (width and height):
        return None, None
    scale = min(1, _WIDEST / width, _TALLEST / height)
    return max(1, round(width * scale)), max(1, round(height * scale))
