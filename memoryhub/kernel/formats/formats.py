"""Formats of recorded runs: how a file of each is recognised, cut and read.

Pure. Adding a format is a line in FORMATS and a module that reads its records. What can
not be imported comes out as a Bad in its place, never as an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats import (
    format_chat,
    format_chatgpt,
    format_claude,
    format_claude_code,
    format_codex,
    format_runs,
    format_tuning,
    records,
)
from memoryhub.kernel.formats.records import Bad, Record
from memoryhub.kernel.formats.transcripts import Item, Options
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.strict_json import JsonRefusedError

_START = b"\xef\xbb\xbf \t\r\n"
#: Of which no more is looked at to tell the format.
_FIRST_RECORD = format_runs.LIMITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How a file is cut, read and recognised."""

    cut: Callable[..., Iterator[Record | Bad]]
    limits: strict_json.Limits
    read: Callable[[Iterator[Record | Bad], Options], Iterator[Item]]
    #: The first byte of such a file, and whether a value may be its first record.
    first_byte: bytes
    fits: Callable[[Any], bool]


def read(
    chunks: Iterable[bytes], *, options: Options, format_name: str = "auto"
) -> tuple[str, Iterator[Item]]:
    """Return the format's name and what the file holds, in the file's order.

    `auto` looks at the first record only. Raises InvalidError with the code
    unknown_format when that does not tell, and `empty` when there is nothing at all.
    Cost: one record and what names it.
    """
    if format_name == "auto":
        format_name, chunks = _guess(iter(chunks))
    chosen = FORMATS[format_name]
    found = chosen.cut(chunks, max_bytes=chosen.limits.max_bytes)
    return format_name, chosen.read(found, options)


def _guess(source: Iterator[bytes]) -> tuple[str, Iterator[bytes]]:
    """The format by the first record, and all the chunks again."""
    head = b""
    while not head.lstrip(_START):
        chunk = next(source, None)
        if chunk is None:
            raise InvalidError(code="empty")
        head += chunk
    first_byte, seen = head.lstrip(_START)[:1], [head]
    fitting = [name for name, each in FORMATS.items() if each.first_byte == first_byte]
    if not fitting:
        raise InvalidError(code="unknown_format")
    cut = records.cut_array if first_byte == b"[" else records.cut_objects
    limit = _FIRST_RECORD.max_bytes
    first = next(cut(_noted(source, seen, limit), max_bytes=limit), None)
    # One that can't be read may be of the format that is first in the table.
    name = fitting[0]
    if isinstance(first, Record):
        with suppress(JsonRefusedError):
            value = strict_json.parse(first.raw, _FIRST_RECORD)
            lines = b"\n" not in first.raw
            name = next(
                (n for n in fitting if _fits(value, FORMATS[n], lines=lines)), ""
            )
    if not name:
        raise InvalidError(code="unknown_format")
    return name, chain(seen, source)


def _noted(
    source: Iterator[bytes], seen: list[bytes], max_bytes: int
) -> Iterator[bytes]:
    """What was seen, and then more, which is noted; in all not much more than that."""
    yield from [*seen]
    size = 0
    while size <= max_bytes and (chunk := next(source, None)) is not None:
        seen.append(chunk)
        size += len(chunk)
        yield chunk


def _fits(value: Any, chosen: Format, *, lines: bool) -> bool:
    return (lines or chosen.cut is not records.cut_lines) and chosen.fits(value)


def _has(member: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and member in value


#: Of those that begin with the same byte, the first is what a broken file is taken for.
FORMATS: dict[str, Format] = {
    "runs": Format(
        cut=records.cut_array,
        limits=format_runs.LIMITS,
        read=format_runs.read,
        first_byte=b"[",
        fits=_has(format_runs.TRAJECTORY),
    ),
    "chat": Format(
        cut=records.cut_lines,
        limits=format_chat.LIMITS,
        read=format_chat.read,
        first_byte=b"{",
        fits=format_chat.fits,
    ),
    "tuning": Format(
        cut=records.cut_objects,
        limits=format_tuning.LIMITS,
        read=format_tuning.read,
        first_byte=b"{",
        fits=_has(format_tuning.MESSAGES),
    ),
    "chatgpt": Format(
        cut=records.cut_array,
        limits=format_chatgpt.LIMITS,
        read=format_chatgpt.read,
        first_byte=b"[",
        fits=_has(format_chatgpt.MAPPING),
    ),
    "claude": Format(
        cut=records.cut_array,
        limits=format_claude.LIMITS,
        read=format_claude.read,
        first_byte=b"[",
        fits=_has(format_claude.MESSAGES),
    ),
    "claude-code": Format(
        cut=records.cut_lines,
        limits=format_claude_code.LIMITS,
        read=format_claude_code.read,
        first_byte=b"{",
        fits=format_claude_code.fits,
    ),
    "codex": Format(
        cut=records.cut_lines,
        limits=format_codex.LIMITS,
        read=format_codex.read,
        first_byte=b"{",
        fits=format_codex.fits,
    ),
}
