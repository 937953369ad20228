"""Containers: what can hide bytes from a plain search, and how it is opened.

Pure. zlib, gzip and members of a zip file, whole or damaged; runs of base64 and of hex
digits, which may hide one of those.
"""

from __future__ import annotations

import binascii
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

#: A run of digits that is not over is waited for up to this length.
ARMOURED_BYTES: Final = 1 << 20
#: Bytes that go in and come out at once; and out of what turns out to be damaged.
_PIECE, _CRUMB = 16 << 10, 64
_SHORTEST_RUN: Final = 40

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

_DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
#: All digits become one, so that a run of them is found as fast as a text.
_AS_DIGIT = bytes(0x61 if each in _DIGITS else 0x20 for each in range(256))
_ANY_RUN = b"a" * _SHORTEST_RUN
#: Base64 in lines has some; a run goes on after them.
_RUN = re.compile(rb"[\w+/-]+(?:\r?\n[\w+/-]+)*", re.ASCII)
_HEX = re.compile(rb"(?:[0-9a-fA-F]{2}){20,}")
_USUAL = bytes.maketrans(b"-_", b"+/")


@dataclass(slots=True)
class Inflating:
    """A stream that is inflated as it comes."""

    window_bits: int
    done: bool = False
    inflate: zlib._Decompress = field(init=False)

    def __post_init__(self) -> None:
        self.inflate = zlib.decompressobj(self.window_bits)

    def feed(self, data: memoryview) -> Iterator[bytes]:
        """What these bytes inflate to, up to the end of the stream or to its damage."""
        for start in range(0, len(data), _PIECE):
            if self.done:
                return
            yield from self._piece(data[start : start + _PIECE])

    def _piece(self, data: bytes | memoryview) -> Iterator[bytes]:
        most = _PIECE
        while data and not self.done:
            before = self.inflate.copy()
            try:
                plain = self.inflate.decompress(data, most)
            except zlib.error:
                # Once more in crumbs, since what precedes the damage is as good.
                self.done, self.inflate = most == _CRUMB, before
                most = _CRUMB
                continue
            yield plain
            data = self.inflate.unconsumed_tail
            self.done = self.inflate.eof

    def rest(self) -> bytes:
        """What was held back for more of the stream."""
        try:
            return self.inflate.flush()
        except zlib.error:
            return b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What looks like the beginning of something compressed."""

    label: str
    start: int
    #: Where its content begins; beyond the data if the head itself is cut.
    content: int
    window_bits: int

    def inflating(self) -> Inflating:
        return Inflating(self.window_bits)


def heads(data: bytes, since: int) -> Iterator[Head]:
    """Whatever could be the beginning of a compressed stream; most are not."""
    for found in _HEADS.finditer(data, since):
        start, first = found.start(), found[0]
        if first.startswith(b"PK"):
            yield from _member(data, start)
            continue
        gzip = first.startswith(b"\x1f\x8b")
        label, bits = ("gzip", 31) if gzip else ("zlib", 15)
        yield Head(label=label, start=start, content=start, window_bits=bits)


def _member(data: bytes, start: int) -> Iterator[Head]:
    """A deflated member of a zip file; a stored one stands there as it is."""
    if start + _ZIP_HEAD.size <= len(data):
        _, method, name, extra = _ZIP_HEAD.unpack_from(data, start)
        if method == _DEFLATED:
            content = start + _ZIP_HEAD.size + name + extra
            yield Head(label="zip", start=start, content=content, window_bits=-15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of digits of base64 or hex."""

    label: str
    start: int
    end: int
    digits: bytes
    #: It reaches to the end of what is there, so it may go on.
    open: bool

    def decoded(self) -> bytes:
        return _DECODE[self.label](self.digits)


def runs(data: bytes, since: int) -> Iterator[Run]:
    """Runs of digits, then those of hex digits in them; at best one pass."""
    digits = data.translate(_AS_DIGIT)
    at = since
    while (at := digits.find(_ANY_RUN, at)) >= 0:
        whole = _RUN.match(data, at)
        assert whole is not None
        at = whole.end()
        # The end of a line may stand before more of it.
        unfinished = len(data) - at <= 2 and len(whole[0]) < ARMOURED_BYTES
        for label, part in _parts(whole):
            yield Run(
                label=label,
                start=whole.start(),
                end=at,
                digits=part,
                open=unfinished,
            )


def _parts(whole: re.Match[bytes]) -> Iterator[tuple[str, bytes]]:
    yield "base64", whole[0]
    for part in _HEX.finditer(whole[0]):
        yield "hex", part[0]


def _of_base64(digits: bytes) -> bytes:
    usual = digits.translate(_USUAL, b"\r\n")
    whole = usual[: len(usual) // 4 * 4]
    rest = usual[len(whole) :]
    # Of two or three digits that are left, what they are whole bytes of.
    return binascii.a2b_base64(whole + (rest.ljust(4, b"=") if len(rest) > 1 else b""))


_DECODE: dict[str, Callable[[bytes], bytes]] = {
    "base64": _of_base64,
    "hex": binascii.unhexlify,
}
