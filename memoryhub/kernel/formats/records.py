"""Records of a file: cut out of a byte stream one by one, whatever the file's size.

Pure. `cut_array` cuts the elements of one JSON array, possibly on one line. `cut_lines`
cuts JSON Lines. `cut_objects` cuts objects that may extend over several lines. Each
holds one record and one chunk at a time, and reads a record only for its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, count

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BEGIN = _BYTE_ORDER_MARK + b" \t\r\n"
_SPACE = re.compile(rb"[ \t\r\n]*+")
#: Everything up to the next bracket, or up to a string that the window cuts in two.
_PLAIN = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_BARE = re.compile(rb'[^,"\[\]{} \t\r\n]*+')


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPosition:
    """Position of a value: `offset` is the byte from 0, lines count from 1."""

    line: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecord:
    """A part of a file that can not be imported: place and reason, never its content.

    The place is the beginning of the run or message. Only for `invalid_json`,
    `encoding` and `truncated` the place is the very byte at which the text is no longer
    valid.
    """

    code: str
    place: TextPosition
    #: Index of the run in the file, and of the message in the run or file; from 0.
    run: int | None = None
    message: int | None = None
    #: The end of the bad part is unknown, so that it can not be skipped.
    final: bool = False
    #: Explanation in words, where the code alone does not say what to do.
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """One element of the array, or one line that is not blank. `index` is from 0."""

    raw: bytes
    index: int
    place: TextPosition
    #: True for a last line without a line break: the file may have been cut off there.
    unfinished: bool = False

    def build_bad(
        self,
        code: str,
        where: int = 0,
        *,
        run: int | None = None,
        message: int | None = None,
        final: bool = False,
        detail: str = "",
    ) -> BadRecord:
        """Build a BadRecord at the byte `where` of the record."""
        line = self.place.line + self.raw.count(b"\n", 0, where)
        place = TextPosition(line=line, offset=self.place.offset + where)
        return BadRecord(
            code=code,
            place=place,
            run=run,
            message=message,
            final=final,
            detail=detail,
        )


def cut_array(
    chunks: Iterable[bytes], *, max_bytes: int
) -> Iterator[FileRecord | BadRecord]:
    """Yield the elements of the array that the stream contains.

    A final BadRecord is the last item. An element over `max_bytes` is skipped without
    being stored: `body_too_large`.
    """
    window = _StreamWindow(chunks, max_bytes=max_bytes)
    if window.peek() != b"[":
        yield window.build_bad("unknown_format")
        return
    window.drop(1)
    mark = b"," if window.peek() != b"]" else b"]"
    for index in count():
        if mark != b",":
            break
        window.peek()
        record = window.take_element(index)
        yield record
        if isinstance(record, BadRecord) and record.final:
            return
        mark = window.peek()
        if mark == b",":
            window.drop(1)
    if mark != b"]":
        yield window.build_bad("invalid_json" if mark else "truncated")
        return
    window.drop(1)
    if window.peek():
        yield window.build_bad("invalid_json")


def cut_lines(
    chunks: Iterable[bytes], *, max_bytes: int
) -> Iterator[FileRecord | BadRecord]:
    """Yield the lines of the stream, without blank ones.

    A final BadRecord is the last item. A line over `max_bytes` is skipped without being
    stored: `body_too_large`.
    """
    window = _StreamWindow(chunks, max_bytes=max_bytes)
    mark = window.peek()
    if mark not in (b"", b"{"):
        yield window.build_bad("unknown_format")
        return
    index = 0
    while mark:
        yield window.take_line(index)
        index, mark = index + 1, window.peek()


def cut_objects(
    chunks: Iterable[bytes], *, max_bytes: int
) -> Iterator[FileRecord | BadRecord]:
    """Yield the objects of the stream, one after another, each on any number of lines.

    A final BadRecord is the last item. An object over `max_bytes` is skipped without
    being stored: `body_too_large`.
    """
    window = _StreamWindow(chunks, max_bytes=max_bytes)
    for index in count():
        mark = window.peek()
        if not mark:
            return
        if mark != b"{":
            yield window.build_bad("invalid_json" if index else "unknown_format")
            return
        record = window.take_element(index)
        yield record
        if isinstance(record, BadRecord) and record.final:
            return


def cut_values(
    chunks: Iterable[bytes], *, max_bytes: int
) -> Iterator[FileRecord | BadRecord]:
    """Yield the elements of an array, or else objects, as the first byte tells."""
    first_byte, source = peek_first_byte(chunks)
    cut = cut_array if first_byte == b"[" else cut_objects
    yield from cut(source, max_bytes=max_bytes)


def peek_first_byte(chunks: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the first byte after the begin of a file, and all the chunks again."""
    source, head = iter(chunks), b""
    while not head.lstrip(_BEGIN) and (chunk := next(source, b"")):
        head += chunk
    return head.lstrip(_BEGIN)[:1], chain([head], source)


def is_cut_off(raw: bytes) -> bool:
    """Return whether the text ends inside its one value."""
    return _StreamWindow([raw], max_bytes=len(raw)).measure() is None


def find_elements(raw: bytes, *, member: bytes) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each element of the array in a record's member.

    Used to locate an error in a record; stops at the first irregularity.
    """
    window = _StreamWindow([raw], max_bytes=len(raw))
    window.drop(1)
    while window.peek() == b'"':
        key = window.take()
        if window.peek() != b":":
            return
        window.drop(1)
        if window.peek() == b"[" and key == b'"%b"' % member:
            window.drop(1)
            yield from window.iter_spans()
            return
        window.take()
        if window.peek() == b",":
            window.drop(1)


class _StreamWindow:
    """The part of the stream that is being read, and its position."""

    def __init__(self, chunks: Iterable[bytes], *, max_bytes: int) -> None:
        self._chunks = iter(chunks)
        self._max_bytes = max_bytes
        self._data = bytearray()
        self._line = 1
        self.offset = 0
        #: The measured value is longer than `max_bytes` and is being dropped.
        self._overlong = False
        while (
            len(self._data) < len(_BYTE_ORDER_MARK) and self._read_more(0) is not None
        ):
            pass
        if self._data.startswith(_BYTE_ORDER_MARK):
            self.drop(len(_BYTE_ORDER_MARK))

    @property
    def place(self) -> TextPosition:
        return TextPosition(line=self._line, offset=self.offset)

    def build_bad(self, code: str, *, run: int | None = None) -> BadRecord:
        """Build the final BadRecord at this position."""
        return BadRecord(code=code, place=self.place, run=run, final=True)

    def drop(self, length: int) -> None:
        self._line += self._data.count(b"\n", 0, length)
        self.offset += length
        del self._data[:length]

    def peek(self) -> bytes:
        """Drop white space and return the byte after it; empty at the end."""
        while True:
            self.drop(_find_end(_SPACE, self._data, 0))
            if self._data or self._read_more(0) is None:
                return bytes(self._data[:1])

    def take_element(self, index: int) -> FileRecord | BadRecord:
        """Return the value that begins here, and move behind it."""
        place = self.place
        self._overlong = False
        length = self.measure()
        if length is None:
            self.drop(len(self._data))
            return self.build_bad("truncated", run=index)
        if not length and not self._overlong:
            return self.build_bad("invalid_json", run=index)
        return self._take_record(length, FileRecord(raw=b"", index=index, place=place))

    def take_line(self, index: int) -> FileRecord | BadRecord:
        """Return the rest of this line, and move to the next."""
        place = self.place
        self._overlong = False
        length, position = self._data.find(b"\n"), len(self._data)
        while length < 0 and (more := self._read_more(position)) is not None:
            length, position = self._data.find(b"\n", more), len(self._data)
        unfinished = length < 0
        record = FileRecord(raw=b"", index=index, place=place, unfinished=unfinished)
        return self._take_record(position if unfinished else length, record)

    def measure(self) -> int | None:
        """Return the value's length; 0 if none begins, None if the file ends inside."""
        depth, position = 0, 0
        while True:
            position = _find_end(_PLAIN if depth else _BARE, self._data, position)
            mark = self._data[position : position + 1]
            begun = position > 0 or self._overlong
            end: int | None = position + 1
            if not mark:
                end = self._read_more(position)
            elif mark == b'"' and (depth or not begun):
                end = self._find_string_end(position + 1)
            elif depth or (not begun and mark in b"[{"):
                depth += 1 if mark in b"[{" else -1
            else:
                return position
            if end is None or (mark and not depth):
                return end
            position = end

    def take(self) -> bytes:
        """Return the value here and move behind it; empty if incomplete."""
        length = self.measure() or 0
        value = bytes(self._data[:length])
        self.drop(length)
        return value

    def iter_spans(self) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each remaining element of the current array."""
        while self.peek() and (length := self.measure()):
            yield self.offset, self.offset + length
            self.drop(length)
            if self.peek() == b",":
                self.drop(1)

    def _find_string_end(self, position: int) -> int | None:
        """Return the position behind the string whose text begins at `position`."""
        more: int | None = position
        while more is not None:
            end = _find_end(_STRING, self._data, more)
            if self._data[end : end + 1] == b'"':
                return end + 1
            # A backslash at the end of the window waits for the character it escapes.
            more = self._read_more(end)
        return None

    def _take_record(self, length: int, record: FileRecord) -> FileRecord | BadRecord:
        overlong = self._overlong or length > self._max_bytes
        raw = b"" if overlong else bytes(self._data[:length])
        self.drop(length)
        if overlong:
            return BadRecord(
                code="body_too_large",
                place=record.place,
                run=record.index,
                detail=f"max_bytes: {self._max_bytes}",
            )
        return replace(record, raw=raw)

    def _read_more(self, position: int) -> int | None:
        """Read a chunk; return the moved `position`, or None at the end of the file."""
        if position > self._max_bytes:
            self.drop(position)
            self._overlong = True
            position = 0
        for chunk in self._chunks:
            if chunk:
                self._data += chunk
                return position
        return None


def _find_end(pattern: re.Pattern[bytes], data: bytearray, position: int) -> int:
    """Return the end of the match of a pattern that matches everywhere."""
    # A match pins the buffer's size until this function returns.
    match = pattern.match(data, position)
    assert match is not None
    return match.end()
