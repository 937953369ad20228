"""Containers: compressed streams that hide bytes from a plain search. Pure.

Recognised are zlib, gzip and members of a zip file, whole or damaged.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

#: Bytes of input and output per step, and of output per step of a damaged stream.
_PIECE, _CRUMB = 16 << 10, 64

_ZLIB_HEADS = [
    # RFC 1950: deflate, a window, and a check; without a preset dictionary.
    re.escape(bytes((method, flags)))
    for method in range(0x08, 0x80, 0x10)
    for flags in range(256)
    if (method << 8 | flags) % 31 == 0 and not flags & 0x20
]
_HEADS = re.compile(rb"\x1f\x8b\x08[\x00-\x1f]|PK\x03\x04|" + b"|".join(_ZLIB_HEADS))
_ZIP_HEAD = struct.Struct("<4x2xHH16xHH")
_DEFLATED: Final = 8


@dataclass(slots=True)
class InflatedStream:
    """A compressed stream that is inflated piece by piece."""

    window_bits: int
    done: bool = False
    inflate: zlib._Decompress = field(init=False)

    def __post_init__(self) -> None:
        self.inflate = zlib.decompressobj(self.window_bits)

    def feed(self, data: memoryview) -> Iterator[bytes]:
        """Inflate more bytes, up to the end of the stream or to its damage."""
        for start in range(0, len(data), _PIECE):
            if self.done:
                return
            yield from self._inflate_piece(data[start : start + _PIECE])

    def _inflate_piece(self, data: bytes | memoryview) -> Iterator[bytes]:
        most = _PIECE
        while data and not self.done:
            before = self.inflate.copy()
            try:
                plain = self.inflate.decompress(data, most)
            except zlib.error:
                # Inflate again in small steps, to get the bytes before the damage.
                self.done, self.inflate = most == _CRUMB, before
                most = _CRUMB
                continue
            yield plain
            data = self.inflate.unconsumed_tail
            self.done = self.inflate.eof

    def flush_rest(self) -> bytes:
        """Return the output that zlib held back for more of the stream."""
        try:
            return self.inflate.flush()
        except zlib.error:
            return b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerHead:
    """A possible beginning of a compressed stream."""

    label: str
    start: int
    #: Offset of the compressed content; beyond the data if the head itself is cut.
    content: int
    window_bits: int


def iter_heads(data: bytes, since: int) -> Iterator[ContainerHead]:
    """Yield possible beginnings of compressed streams; most are false."""
    for found in _HEADS.finditer(data, since):
        start, first = found.start(), found[0]
        if first.startswith(b"PK"):
            yield from _iter_zip_member(data, start)
            continue
        gzip = first.startswith(b"\x1f\x8b")
        label, bits = ("gzip", 31) if gzip else ("zlib", 15)
        yield ContainerHead(label=label, start=start, content=start, window_bits=bits)


def _iter_zip_member(data: bytes, start: int) -> Iterator[ContainerHead]:
    """Yield a deflated member of a zip file; a plain search finds stored members."""
    if start + _ZIP_HEAD.size <= len(data):
        _, method, name, extra = _ZIP_HEAD.unpack_from(data, start)
        if method == _DEFLATED:
            content = start + _ZIP_HEAD.size + name + extra
            yield ContainerHead(
                label="zip", start=start, content=content, window_bits=-15
            )
