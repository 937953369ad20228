"""Formats of recorded runs: recognition, cutting and reading of their files.

Pure. A new format needs a line in FORMATS and a module that reads its records. A record
that cannot be imported comes out as a BadRecord in its place, never as an exception.
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
    format_letta,
    format_mem0,
    format_runs,
    format_tuning,
    format_zep,
    records,
)
from memoryhub.kernel.formats.records import BadRecord, FileRecord
from memoryhub.kernel.formats.transcripts import ImportOptions, Item
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.strict_json import JsonRefusedError

_START = b"\xef\xbb\xbf \t\r\n"
#: Limits of the first record, which alone tells the format.
_FIRST_RECORD = format_runs.LIMITS


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormat:
    """Functions and limits that cut, read and recognise a file of one format."""

    cut: Callable[..., Iterator[FileRecord | BadRecord]]
    limits: strict_json.JsonLimits
    read: Callable[[Iterator[FileRecord | BadRecord], ImportOptions], Iterator[Item]]
    #: First bytes that a file may have, and a test for a file's first record.
    first_bytes: bytes
    fits: Callable[[Any], bool]


def read(
    chunks: Iterable[bytes], *, options: ImportOptions, format_name: str = "auto"
) -> tuple[str, Iterator[Item]]:
    """Return the format's name and the file's items, in the file's order.

    `auto` looks at the first record only. Raises InvalidError with the code
    unknown_format if that record does not tell the format, and `empty` for an empty
    file. Cost: one record and the bytes that name it.
    """
    if format_name == "auto":
        format_name, chunks = _guess_format(iter(chunks))
    chosen = FORMATS[format_name]
    found = chosen.cut(chunks, max_bytes=chosen.limits.max_bytes)
    return format_name, chosen.read(found, options)


def _guess_format(source: Iterator[bytes]) -> tuple[str, Iterator[bytes]]:
    """Return the format by the first record, and all the chunks again."""
    head = b""
    while not head.lstrip(_START):
        chunk = next(source, None)
        if chunk is None:
            raise InvalidError(code="empty")
        head += chunk
    first_byte, seen = head.lstrip(_START)[:1], [head]
    fitting = [name for name, each in FORMATS.items() if first_byte in each.first_bytes]
    if not fitting:
        raise InvalidError(code="unknown_format")
    cut = records.cut_array if first_byte == b"[" else records.cut_objects
    limit = _FIRST_RECORD.max_bytes
    first = next(cut(_iter_noted(source, seen, limit), max_bytes=limit), None)
    # An unreadable record counts as the first format in the table.
    name = fitting[0]
    if isinstance(first, FileRecord):
        with suppress(JsonRefusedError):
            value = strict_json.parse(first.raw, _FIRST_RECORD)
            lines = b"\n" not in first.raw
            name = next(
                (n for n in fitting if _can_fit(value, FORMATS[n], lines=lines)), ""
            )
    if not name:
        raise InvalidError(code="unknown_format")
    return name, chain(seen, source)


def _iter_noted(
    source: Iterator[bytes], seen: list[bytes], max_bytes: int
) -> Iterator[bytes]:
    """Yield the chunks in `seen`, then further chunks, which are added to `seen`.

    Stops soon after `max_bytes` of further chunks.
    """
    yield from [*seen]
    size = 0
    while size <= max_bytes and (chunk := next(source, None)) is not None:
        seen.append(chunk)
        size += len(chunk)
        yield chunk


def _can_fit(value: Any, chosen: FileFormat, *, lines: bool) -> bool:
    return (lines or chosen.cut is not records.cut_lines) and chosen.fits(value)


def _build_member_test(member: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and member in value


#: Formats by name. A broken file is taken for the first format with its first byte.
FORMATS: dict[str, FileFormat] = {
    "runs": FileFormat(
        cut=records.cut_array,
        limits=format_runs.LIMITS,
        read=format_runs.read,
        first_bytes=b"[",
        fits=_build_member_test(format_runs.TRAJECTORY),
    ),
    "chat": FileFormat(
        cut=records.cut_lines,
        limits=format_chat.LIMITS,
        read=format_chat.read,
        first_bytes=b"{",
        fits=format_chat.can_be_line,
    ),
    "tuning": FileFormat(
        cut=records.cut_objects,
        limits=format_tuning.LIMITS,
        read=format_tuning.read,
        first_bytes=b"{",
        fits=format_tuning.can_be_line,
    ),
    "chatgpt": FileFormat(
        cut=records.cut_array,
        limits=format_chatgpt.LIMITS,
        read=format_chatgpt.read,
        first_bytes=b"[",
        fits=_build_member_test(format_chatgpt.MAPPING),
    ),
    "claude": FileFormat(
        cut=records.cut_array,
        limits=format_claude.LIMITS,
        read=format_claude.read,
        first_bytes=b"[",
        fits=_build_member_test(format_claude.MESSAGES),
    ),
    "claude-code": FileFormat(
        cut=records.cut_lines,
        limits=format_claude_code.LIMITS,
        read=format_claude_code.read,
        first_bytes=b"{",
        fits=format_claude_code.can_be_line,
    ),
    "codex": FileFormat(
        cut=records.cut_lines,
        limits=format_codex.LIMITS,
        read=format_codex.read,
        first_bytes=b"{",
        fits=format_codex.can_be_line,
    ),
    "mem0": FileFormat(
        cut=records.cut_values,
        limits=format_mem0.LIMITS,
        read=format_mem0.read,
        first_bytes=b"[{",
        fits=format_mem0.can_be_file,
    ),
    "letta": FileFormat(
        cut=format_letta.cut_file,
        limits=format_letta.LIMITS,
        read=format_letta.read,
        first_bytes=b'{"',
        fits=format_letta.can_be_file,
    ),
    "zep": FileFormat(
        cut=records.cut_values,
        limits=format_zep.LIMITS,
        read=format_zep.read,
        first_bytes=b"[{",
        fits=format_zep.can_be_file,
    ),
}
