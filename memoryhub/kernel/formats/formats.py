"""Formats of recorded runs: how a file of each is recognised, cut and read.

Pure. Adding a format is a line in FORMATS and a module that reads its records. What can
not be imported comes out as a Bad in its place, never as an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats import format_chat, format_runs, records
from memoryhub.kernel.formats.records import Bad, Record
from memoryhub.kernel.formats.transcripts import Item, Options
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.strict_json import JsonRefusedError

_START = b"\xef\xbb\xbf \t\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How a file is cut, read and recognised."""

    cut: Callable[..., Iterator[Record | Bad]]
    limits: strict_json.Limits
    read: Callable[[Iterator[Record | Bad], Options], Iterator[Item]]
    #: The first byte of such a file, and a member that each of its records has.
    first_byte: bytes
    member: str


def read(
    chunks: Iterable[bytes], *, options: Options, format_name: str = "auto"
) -> tuple[str, Iterator[Item]]:
    """Return the format's name and what the file holds, in the file's order.

    `auto` looks at the first record only. Raises InvalidError with the code
    unknown_format when that does not tell. Cost: one record and what names it.
    """
    guessed = format_name == "auto"
    if guessed:
        format_name, chunks = _guess(chunks)
    chosen = FORMATS[format_name]
    found = chosen.cut(chunks, max_bytes=chosen.limits.max_bytes)
    if guessed and (first := next(found, None)) is not None:
        if isinstance(first, Record) and not _fits(first, chosen):
            raise InvalidError(code="unknown_format")
        found = chain([first], found)
    return format_name, chosen.read(found, options)


def _guess(chunks: Iterable[bytes]) -> tuple[str, Iterator[bytes]]:
    """The format by the first byte that counts, and all the chunks again."""
    source, head = iter(chunks), b""
    while not head.lstrip(_START):
        chunk = next(source, None)
        if chunk is None:
            break
        head += chunk
    first_byte = head.lstrip(_START)[:1]
    for name, each in FORMATS.items():
        if each.first_byte == first_byte:
            return name, chain([head], source)
    raise InvalidError(code="unknown_format")


def _fits(record: Record, chosen: Format) -> bool:
    """Whether it may be of this format; a record that can't be read may."""
    try:
        value = strict_json.parse(record.raw, chosen.limits)
    except JsonRefusedError:
        return True
    return isinstance(value, dict) and chosen.member in value


FORMATS: dict[str, Format] = {
    "runs": Format(
        cut=records.cut_array,
        limits=format_runs.LIMITS,
        read=format_runs.read,
        first_byte=b"[",
        member="traj",
    ),
    "chat": Format(
        cut=records.cut_lines,
        limits=format_chat.LIMITS,
        read=format_chat.read,
        first_byte=b"{",
        member="role",
    ),
}
