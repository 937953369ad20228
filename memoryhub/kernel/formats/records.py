"""Records of a file: cut out of a byte stream one by one, whatever the file's size.

Pure. `cut_array` cuts the elements of one JSON array, possibly on one line; `cut_lines`
cuts JSON Lines; `cut_objects` cuts objects that may stand on several. All hold one
record and one chunk at a time, and look no further into a record than to its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SPACE = re.compile(rb"[ \t\r\n]*+")
#: Everything up to the next bracket, or up to a string that the window cuts in two.
_PLAIN = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_BARE = re.compile(rb'[^,"\[\]{} \t\r\n]*+')


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPosition:
    """Where something begins: `offset` is the byte from 0, lines count from 1."""

    line: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """What can not be imported: where and why, never its content.

    The place is where the run or message begins. Only for `invalid_json`, `encoding`
    and `truncated` it is the very byte at which the text stops making sense.
    """

    code: str
    place: TextPosition
    #: Which run of the file, and which message of the run or file; from 0.
    run: int | None = None
    message: int | None = None
    #: What follows can not be told from it, so that it can not be skipped.
    final: bool = False
    #: In words, where the code alone does not say what to do.
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One element of the array, or one line that is not blank. `index` is from 0."""

    raw: bytes
    index: int
    place: TextPosition
    #: Of the last line, if it has no line break: the file may have been cut off there.
    unfinished: bool = False

    def bad(
        self,
        code: str,
        where: int = 0,
        *,
        run: int | None = None,
        message: int | None = None,
        final: bool = False,
        detail: str = "",
    ) -> Bad:
        """Return a Bad at the byte `where` of the record."""
        line = self.place.line + self.raw.count(b"\n", 0, where)
        place = TextPosition(line=line, offset=self.place.offset + where)
        return Bad(
            code=code,
            place=place,
            run=run,
            message=message,
            final=final,
            detail=detail,
        )


def cut_array(chunks: Iterable[bytes], *, max_bytes: int) -> Iterator[Record | Bad]:
    """Yield the elements of the array that the stream is.

    A final Bad is the last item. An element over `max_bytes` is passed over without
    being kept: `body_too_large`.
    """
    window = _Window(chunks, max_bytes=max_bytes)
    if window.peek() != b"[":
        yield window.bad("unknown_format")
        return
    window.drop(1)
    mark = b"," if window.peek() != b"]" else b"]"
    for index in count():
        if mark != b",":
            break
        window.peek()
        record = window.element(index)
        yield record
        if isinstance(record, Bad) and record.final:
            return
        mark = window.peek()
        if mark == b",":
            window.drop(1)
    if mark != b"]":
        yield window.bad("invalid_json" if mark else "truncated")
        return
    window.drop(1)
    if window.peek():
        yield window.bad("invalid_json")


def cut_lines(chunks: Iterable[bytes], *, max_bytes: int) -> Iterator[Record | Bad]:
    """Yield the lines of the stream, blank ones left out.

    A final Bad is the last item. A line over `max_bytes` is passed over without being
    kept: `body_too_large`.
    """
    window = _Window(chunks, max_bytes=max_bytes)
    mark = window.peek()
    if mark not in (b"", b"{"):
        yield window.bad("unknown_format")
        return
    index = 0
    while mark:
        yield window.through_line(index)
        index, mark = index + 1, window.peek()


def cut_objects(chunks: Iterable[bytes], *, max_bytes: int) -> Iterator[Record | Bad]:
    """Yield the objects of the stream, one after another, each on any number of lines.

    A final Bad is the last item. An object over `max_bytes` is passed over without
    being kept: `body_too_large`.
    """
    window = _Window(chunks, max_bytes=max_bytes)
    for index in count():
        mark = window.peek()
        if not mark:
            return
        if mark != b"{":
            yield window.bad("invalid_json" if index else "unknown_format")
            return
        record = window.element(index)
        yield record
        if isinstance(record, Bad) and record.final:
            return


def cut_off(raw: bytes) -> bool:
    """Return whether the text of one value ends inside it."""
    return _Window([raw], max_bytes=len(raw)).measure() is None


def find_elements(raw: bytes, *, member: bytes) -> Iterator[tuple[int, int]]:
    """Begin and end of each element of the array that a record has as a member.

    For saying where in a record something is wrong, so it stops at whatever is odd.
    """
    window = _Window([raw], max_bytes=len(raw))
    window.drop(1)
    while window.peek() == b'"':
        key = window.take()
        if window.peek() != b":":
            return
        window.drop(1)
        if window.peek() == b"[" and key == b'"%b"' % member:
            window.drop(1)
            yield from window.spans()
            return
        window.take()
        if window.peek() == b",":
            window.drop(1)


class _Window:
    """The part of the stream that is being looked at, and where it lies."""

    def __init__(self, chunks: Iterable[bytes], *, max_bytes: int) -> None:
        self._chunks = iter(chunks)
        self._max_bytes = max_bytes
        self._data = bytearray()
        self._line = 1
        self.offset = 0
        #: The value being measured has outgrown `max_bytes` and is being let go.
        self._overlong = False
        while len(self._data) < len(_BYTE_ORDER_MARK) and self._more(0) is not None:
            pass
        if self._data.startswith(_BYTE_ORDER_MARK):
            self.drop(len(_BYTE_ORDER_MARK))

    @property
    def place(self) -> TextPosition:
        return TextPosition(line=self._line, offset=self.offset)

    def bad(self, code: str, *, run: int | None = None) -> Bad:
        """Return the Bad that ends all reading, here."""
        return Bad(code=code, place=self.place, run=run, final=True)

    def drop(self, length: int) -> None:
        self._line += self._data.count(b"\n", 0, length)
        self.offset += length
        del self._data[:length]

    def peek(self) -> bytes:
        """Drop white space and return the byte after it; none at the end."""
        while True:
            self.drop(_end(_SPACE, self._data, 0))
            if self._data or self._more(0) is None:
                return bytes(self._data[:1])

    def element(self, index: int) -> Record | Bad:
        """Return the value that begins here, and move behind it."""
        place = self.place
        self._overlong = False
        length = self.measure()
        if length is None:
            self.drop(len(self._data))
            return self.bad("truncated", run=index)
        if not length and not self._overlong:
            return self.bad("invalid_json", run=index)
        return self._taken(length, Record(raw=b"", index=index, place=place))

    def through_line(self, index: int) -> Record | Bad:
        """Return the rest of this line, and move to the next."""
        place = self.place
        self._overlong = False
        length, position = self._data.find(b"\n"), len(self._data)
        while length < 0 and (more := self._more(position)) is not None:
            length, position = self._data.find(b"\n", more), len(self._data)
        unfinished = length < 0
        record = Record(raw=b"", index=index, place=place, unfinished=unfinished)
        return self._taken(position if unfinished else length, record)

    def measure(self) -> int | None:
        """Return the value's length; 0 if none begins, None if the file ends inside."""
        depth, position = 0, 0
        while True:
            position = _end(_PLAIN if depth else _BARE, self._data, position)
            mark = self._data[position : position + 1]
            begun = position > 0 or self._overlong
            end: int | None = position + 1
            if not mark:
                end = self._more(position)
            elif mark == b'"' and (depth or not begun):
                end = self._string(position + 1)
            elif depth or (not begun and mark in b"[{"):
                depth += 1 if mark in b"[{" else -1
            else:
                return position
            if end is None or (mark and not depth):
                return end
            position = end

    def take(self) -> bytes:
        """Return the value here and move behind it; nothing if it is not whole."""
        length = self.measure() or 0
        value = bytes(self._data[:length])
        self.drop(length)
        return value

    def spans(self) -> Iterator[tuple[int, int]]:
        """Begin and end of each element from here on in the array we stand in."""
        while self.peek() and (length := self.measure()):
            yield self.offset, self.offset + length
            self.drop(length)
            if self.peek() == b",":
                self.drop(1)

    def _string(self, position: int) -> int | None:
        """The position behind the string whose text begins at `position`."""
        more: int | None = position
        while more is not None:
            end = _end(_STRING, self._data, more)
            if self._data[end : end + 1] == b'"':
                return end + 1
            # A backslash that ends the window waits there for what it escapes.
            more = self._more(end)
        return None

    def _taken(self, length: int, record: Record) -> Record | Bad:
        overlong = self._overlong or length > self._max_bytes
        raw = b"" if overlong else bytes(self._data[:length])
        self.drop(length)
        if overlong:
            return Bad(
                code="body_too_large",
                place=record.place,
                run=record.index,
                detail=f"max_bytes: {self._max_bytes}",
            )
        return replace(record, raw=raw)

    def _more(self, position: int) -> int | None:
        """Read on; where `position` is then, or None at the end of the file."""
        if position > self._max_bytes:
            self.drop(position)
            self._overlong = True
            position = 0
        for chunk in self._chunks:
            if chunk:
                self._data += chunk
                return position
        return None


def _end(pattern: re.Pattern[bytes], data: bytearray, position: int) -> int:
    """Where a pattern that matches everywhere ends."""
    # A match pins the buffer's size; it is gone once this returns.
    match = pattern.match(data, position)
    assert match is not None
    return match.end()
