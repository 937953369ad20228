"""Media: pictures, sound, film and files of any shape, and their tokens. Pure.

Base64 is read only for the size of a picture and is never text.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, Literal, NamedTuple

from memoryhub.kernel.messages.message import Medium, Message, MessagePart, PartKind
from memoryhub.kernel.text.json_text import dump_json

#: Tokens of a picture: per tile, fixed, and where its size is not known.
_TILE, _TILE_PIXELS, _PICTURE, _PICTURE_UNKNOWN = 170, 512, 85, 765
_PAGE = 1_500
#: A user's audio is 1 token for each 100 ms (OpenAI, Realtime API, "Managing costs").
_SECOND = 10
#: Base64 characters read of a picture's header; a JPEG may have its size behind a
#: profile.
_HEADER, _LONG_HEADER = 64, 87_384

#: Members with the same meaning in all known shapes, the plainest first.
_MIME = ("mime_type", "mimeType", "media_type", "mediaType", "contentType")
_DATA = ("data", "base64", "bytes", "file_data", "blob", "b64_json", "result")
_URL = ("url", "uri", "file_url", "fileUri", "file_uri")
_EITHER = ("image_url", "image", "audio", "video", "video_url", "audio_url", "file")
_FILE_ID = ("file_id", "fileId")
_NAME = ("filename", "file_name", "fileName", "name", "title")
_WORDS = ("title", "context", "caption", "alt", "description", "transcript", "text")
_SECONDS = ("seconds", "duration", "duration_seconds")
_PAGES = ("pages", "page_count")
#: Members whose object only holds other members of this list or the lists above.
_WRAPPERS = frozenset({
    *("source", "input_audio", "file", "resource", "s3Location", "document"),
    *("inlineData", "inline_data", "fileData", "file_data", "image_url", "image"),
    *("video", "video_url", "audio", "audio_url"),
})  # fmt: skip
_KINDS: tuple[PartKind, ...] = ("image", "audio", "video")

_BASE64 = re.compile(r"[A-Za-z0-9+/_=\r\n-]*+")
_DATA_URL = re.compile(r"data:([^,;]{0,128})[^,]{0,128};base64,(.*)", re.DOTALL)
_IN_TEXT = re.compile(r"(data:[\w.+/;=-]{0,128};base64,)[\w+/=%-]{256,}+", re.ASCII)
_IN_JSON = re.compile(r"(data:[\w.+/;=-]{0,128};base64,)[\w+/=%-]++", re.ASCII)
_QUOTED = re.compile(r'(\\?")[\w+/=-]{1024,}+(?=\\?")', re.ASCII)
_MEMBERS = re.compile(
    r'("(?:data|base64|bytes|blob|b64_json|file_data|image|audio)":")[\w+/=-]{64,}+"'
    r'|("(?:signature|encrypted_\w++|thought_?[sS]ignature)":")[^"\\]*+"',
    re.ASCII,
)


class FoundMedium(NamedTuple):
    """A medium, its words, and the members that belong to neither."""

    kind: PartKind
    medium: Medium
    words: str
    rest: dict[str, Any]


def find_medium(kind: PartKind, block: dict[str, Any]) -> FoundMedium:
    """Read a medium from an object of any shape; its shape implies `kind`."""
    fields = _gather_fields(block)
    taken = dict[str, str]()
    source = fields.pop("source.type", None)
    if source == "text" and (text := _take_text(fields, ("data",))):
        taken["text"] = text
    mime_type, form = _take_text(fields, _MIME), _take_text(fields, ("format",))
    for name in (*_DATA, *_URL, *_EITHER):
        value = fields.get(name)
        if (
            isinstance(value, str)
            and (held := _classify_member(name, value)) not in taken
        ):
            taken[held] = value
            del fields[name]
    if address := _DATA_URL.match(taken.get("base64", "")):
        mime_type, taken["base64"] = mime_type or address[1] or None, address[2]
    for each in _KINDS:
        if mime_type and mime_type.startswith(f"{each}/"):
            kind = each
    if form and not mime_type:
        mime_type = f"{'application' if kind == 'file' else kind}/{form}"
    title = _take_text(fields, _NAME)
    texts = [fields.pop(n) for n in _WORDS if isinstance(fields.get(n), str)]
    width, height = _take_number(fields, ("width",)), _take_number(fields, ("height",))
    encoded = taken.get("base64")
    if encoded and kind == "image" and not (width and height):
        width, height = _read_image_size(encoded) or (None, None)
    pages = _take_number(fields, _PAGES)
    medium = Medium(
        mime_type=mime_type,
        url=taken.get("url"),
        base64=encoded,
        file_id=_take_text(fields, _FILE_ID),
        name=title,
        width=int(width) if width else None,
        height=int(height) if height else None,
        seconds=_take_number(fields, _SECONDS),
        pages=int(pages) if pages else None,
        detail=_take_text(fields, ("detail",)),
    )
    words = "\n".join(filter(None, [*texts, taken.get("text")]))
    return FoundMedium(kind, medium, words, fields)


def _classify_member(name: str, value: str) -> Literal["url", "base64", "text"]:
    """Return the kind of a member's value: an address, base64, or a text."""
    head = value[:256]
    if _DATA_URL.match(head):
        return "base64"
    if "://" in head or (name in _URL and len(value) < 64):
        return "url"
    if _BASE64.fullmatch(head):
        return "base64"
    return "text" if name in _DATA else "url"


def find_data_url(text: str) -> FoundMedium | None:
    """Read the medium of a text that is a `data:` address; None for other texts."""
    if text.startswith("data:") and ";base64," in text[:300] and " " not in text[:300]:
        return find_medium("file", {"url": text})
    return None


def render_line(part: MessagePart) -> str:
    """Render the line that stands for a medium: `[image 400×100, png]`."""
    medium = part.medium or Medium()
    about = list[str]()
    if medium.width and medium.height:
        about.append(f"{medium.width}×{medium.height}")
    if medium.seconds:
        minutes, seconds = divmod(round(medium.seconds), 60)
        about.append(f"{minutes}:{seconds:02}")
    if medium.name:
        about.append(medium.name)
    if medium.mime_type and "." not in (medium.name or "") and part.kind != "audio":
        about.append(medium.mime_type.rpartition("/")[2])
    if medium.pages:
        about.append(f"{medium.pages} page{'s' if medium.pages > 1 else ''}")
    if medium.url:
        about.append(medium.url)
    return f"[{part.kind} {', '.join(about)}]" if about else f"[{part.kind}]"


def weigh_part(part: MessagePart) -> int | None:
    """Return the tokens of a medium; None where its words are counted instead."""
    medium = part.medium
    if medium is None:
        return None
    if part.kind == "image":
        if medium.detail == "low":
            return _PICTURE
        if not (medium.width and medium.height):
            return _PICTURE_UNKNOWN
        across = -(-medium.width // _TILE_PIXELS)
        down = -(-medium.height // _TILE_PIXELS)
        return across * down * _TILE + _PICTURE
    if part.kind == "file" and medium.pages:
        return medium.pages * _PAGE
    if part.kind == "audio" and medium.seconds:
        return max(1, round(medium.seconds * _SECOND))
    return None


def iter_weights(message: Message) -> Iterator[tuple[Medium, int]]:
    """Yield the media of a message with their tokens, 0 where words are counted."""
    parts = chain(message.parts, *(each.parts for each in message.results))
    for whole in parts:
        for part in (whole, *whole.inner):
            if part.medium is not None:
                yield part.medium, weigh_part(part) or 0


def render_json_words(value: Any) -> str:
    """Render the JSON of a value, with base64 and signatures left out."""
    text = dump_json(value)
    if len(text) < 64:
        return text
    text = _MEMBERS.sub(lambda found: f'{found[1] or found[2]}…"', text)
    return remove_base64(_IN_JSON.sub(r"\1…", text) if ";base64," in text else text)


def remove_base64(text: str) -> str:
    """Remove base64 from a text: long `data:` addresses, long strings of JSON."""
    if len(text) < 256:
        return text
    if ";base64," in text:
        text = _IN_TEXT.sub(r"\1…", text)
    if text.lstrip()[:1] in {"{", "["}:
        text = _QUOTED.sub(r"\1…", text)
    return text


def decode_base64(text: str) -> bytes:
    """Decode base64 of either alphabet; empty for a text that is no base64."""
    try:
        text = "".join(text.split()).translate({ord("-"): "+", ord("_"): "/"})
        return binascii.a2b_base64(text[: len(text) // 4 * 4])
    except ValueError:
        return b""


def _gather_fields(block: dict[str, Any]) -> dict[str, Any]:
    """Return the members as those of one object; the outermost keep their names."""
    fields = dict[str, Any]()
    for name, value in _iter_fields(block):
        # A member with two values keeps both, except the types of wrappers.
        if name not in fields or name == "type" or value == fields[name]:
            fields.setdefault(name, value)
        else:
            fields[f"inner.{name}"] = value
    return fields


def _iter_fields(block: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield members of a block and of up to three wrapper levels, outermost first."""
    wrapped = [block]
    for _ in range(3):
        inner = list[dict[str, Any]]()
        for each in wrapped:
            for name, value in each.items():
                if name in _WRAPPERS and isinstance(value, dict):
                    inner.append(value)
                    if name == "source":
                        yield "source.type", value.get("type")
                else:
                    yield name, value
        wrapped = inner
    for each in wrapped:
        yield from each.items()


def _take_text(fields: dict[str, Any], names: tuple[str, ...]) -> str | None:
    """Remove and return the first of these members that is a non-empty text."""
    for name in names:
        if isinstance(value := fields.get(name), str) and value:
            del fields[name]
            return value
    return None


def _take_number(fields: dict[str, Any], names: tuple[str, ...]) -> float | None:
    for name in names:
        value = fields.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            del fields[name]
            # An integer of 400 digits is JSON, and no size of anything.
            return value if 0 < value < 1e9 else None
    return None


def _read_image_size(encoded: str) -> tuple[int, int] | None:
    """Return width and height of a picture in base64; None if its format is unknown."""
    head = decode_base64(encoded[:_HEADER])
    if head.startswith(b"\x89PNG") and len(head) >= 24:
        return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
    if head.startswith(b"GIF8") and len(head) >= 10:
        return _parse_little_endian(head[6:8]), _parse_little_endian(head[8:10])
    if head.startswith(b"\xff\xd8"):
        return _find_jpeg_size(decode_base64(encoded[:_LONG_HEADER]))
    if head[8:12] == b"WEBP" and len(head) >= 30:
        return _find_webp_size(head)
    return None


def _parse_little_endian(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


def _find_jpeg_size(raw: bytes) -> tuple[int, int] | None:
    """Walk from marker to marker up to the frame (ITU T.81, annex B)."""
    at = 2
    while at + 9 <= len(raw) and raw[at] == 0xFF:
        marker = raw[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            height, width = raw[at + 5 : at + 7], raw[at + 7 : at + 9]
            return int.from_bytes(width), int.from_bytes(height)
        # A marker may be led by any number of fill bytes.
        at += 1 if marker == 0xFF else 2 + int.from_bytes(raw[at + 2 : at + 4])
    return None


def _find_webp_size(head: bytes) -> tuple[int, int] | None:
    """Read the size from one of the three kinds of a first chunk (RFC 9649)."""
    kind, low = head[12:16], 0x3FFF
    if kind == b"VP8X":
        return _parse_little_endian(head[24:27]) + 1, _parse_little_endian(
            head[27:30]
        ) + 1
    if kind == b"VP8L":
        bits = _parse_little_endian(head[21:25])
        return (bits & low) + 1, (bits >> 14 & low) + 1
    if kind == b"VP8 ":
        return _parse_little_endian(head[26:28]) & low, _parse_little_endian(
            head[28:30]
        ) & low
    return None
