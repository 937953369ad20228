"""Targets: what must stand nowhere once it is forgotten, and how it may be written.

Pure. Random bytes of sealed content and of wrapped keys, and in memory only what they
hid: windows of plaintext, the `user_id`, names.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import quote

#: Shorter ones are met by chance, above all in base64 and hex of random bytes.
SHORTEST: Final = 8
#: As many as one erasure takes along: more make a scan slower and no surer.
MAX_NONCES: Final = 500
MAX_WINDOWS: Final = 200
WINDOW_BYTES: Final = 24
#: Of content in the clear: anything shorter is met by chance.
LEAST_BYTES: Final = 16

_NONCE_BYTES: Final = 12
#: Of sealed bytes, the three of the header.
_NONCE_FROM: Final = 3
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
#: Whoever repeats a few characters says nothing.
_DIFFERENT: Final = 3
#: What we write in the clear ourselves, so that it tells nothing: parts of ids and of
#: digests, times, words that programs use, and dates in receipts.
_OURS = re.compile(
    rb"([a-z_]+:)?[0-9A-Fa-f-]*[A-Fa-f-][0-9A-Fa-f-]*|[0-9TZ:.+ -]*:[0-9TZ:.+ -]*"
    rb'|[a-z_.]+|"until":"[0-9-]+"'
)
#: Values that a member may have in JSON of ours.
_WORD = re.compile(r"[a-z_./-]*|.{0,5}", re.DOTALL)


class TargetKind(StrEnum):
    """What a target is of."""

    NONCE = "nonce"
    WRAPPED_KEY = "wrapped_key"
    PLAINTEXT = "plaintext"
    USER_ID = "user_id"
    NAME = "name"


#: Random, hence no content: they may be kept until the night after the receipt.
KEPT = (TargetKind.NONCE, TargetKind.WRAPPED_KEY)
#: Nonces are XORed with it where they are kept, else the scan would find its own list.
_MASK = hashlib.blake2b(b"mh1|needles", digest_size=_NONCE_BYTES).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTarget:
    """Bytes to look for. It never says which."""

    kind: TargetKind
    data: bytes

    def __repr__(self) -> str:
        return f"<{self.kind} of {len(self.data)} bytes>"

    @property
    def too_short(self) -> bool:
        return len(self.data) < SHORTEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A target as one decoder would meet it."""

    target: ScanTarget
    decoder: str
    data: bytes


# Making them


def nonce_of(sealed: bytes) -> ScanTarget:
    """Return the nonce of a sealed payload, snapshot or external id."""
    nonce = bytes(sealed[_NONCE_FROM : _NONCE_FROM + _NONCE_BYTES])
    assert len(nonce) == _NONCE_BYTES
    return ScanTarget(kind=TargetKind.NONCE, data=nonce)


def wrapped_nonce_of(wrapped: bytes) -> ScanTarget:
    """Return the nonce that a wrapped key begins with."""
    nonce = bytes(wrapped[:_NONCE_BYTES])
    assert len(nonce) == _NONCE_BYTES
    return ScanTarget(kind=TargetKind.WRAPPED_KEY, data=nonce)


def windows(plain: bytes, *, most: int = 2) -> list[ScanTarget]:
    """Cut up to so many windows out of opened content, at its middle and its end.

    What is shorter than one is one itself, down to sixteen bytes. None of what we
    write in the clear ourselves.
    """
    last = max(len(plain) - WINDOW_BYTES, 0)
    found = {}
    for start in (last // 2, last, last // 4, 0):
        window = plain[start : start + WINDOW_BYTES]
        # A character that is cut in two would look different in each dress.
        whole = window.decode(errors="ignore").encode()
        if _tells(whole):
            found[whole] = ScanTarget(kind=TargetKind.PLAINTEXT, data=whole)
    return list(found.values())[:most]


def member(key: str, value: str) -> list[ScanTarget]:
    """Join a short text with what it is called, as JSON has them."""
    if _WORD.fullmatch(value):
        return []
    pair = json.dumps({key: value}, ensure_ascii=False, separators=(",", ":"))
    return windows(pair[1:-1].encode(), most=1)


def telling_name(text: str) -> bool:
    """Tell whether a name is looked for: a word alone is anybody's."""
    return len(text.encode()) >= SHORTEST and not text.isalpha()


def _tells(window: bytes) -> bool:
    enough = len(window) >= LEAST_BYTES and len(set(window)) >= _DIFFERENT
    return enough and not _OURS.fullmatch(window)


def user_id(text: str) -> ScanTarget:
    return ScanTarget(kind=TargetKind.USER_ID, data=text.encode())


def name(text: str) -> ScanTarget:
    return ScanTarget(kind=TargetKind.NAME, data=text.encode())


# Keeping them


def packed(targets: Iterable[ScanTarget]) -> bytes:
    """Pack the random ones, 13 bytes each, for the row; others are never kept."""
    return b"".join(
        bytes([KEPT.index(target.kind)]) + _masked(target.data)
        for target in targets
        if target.kind in KEPT
    )


def unpacked(data: bytes) -> list[ScanTarget]:
    step = _NONCE_BYTES + 1
    rows = (bytes(data[at : at + step]) for at in range(0, len(data), step))
    return [ScanTarget(kind=KEPT[row[0]], data=_masked(row[1:])) for row in rows]


def _masked(nonce: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(nonce, _MASK, strict=True))


# Their forms


def forms(target: ScanTarget) -> Iterator[Form]:
    """List every way it may be written, each once; of random bytes those of bytes."""
    ways = dict(_of_bytes(target.data))
    if target.kind not in KEPT:
        for data, decoder in _of_text(target.data.decode(errors="replace")):
            ways.setdefault(data, decoder)
    for data, decoder in ways.items():
        yield Form(target=target, decoder=decoder, data=data)


def _of_bytes(data: bytes) -> Iterator[tuple[bytes, str]]:
    yield data, "raw"
    digits = data.hex()
    yield digits.encode(), "hex"
    yield digits.upper().encode(), "hex"
    for before in range(3):
        whole = base64.b64encode(bytes(before) + data)
        # A digit that a neighbour's bits are mixed into is not ours.
        first = -(-before * 8 // 6) if before else 0
        ours = whole[first : (before + len(data)) * 8 // 6]
        yield ours, "base64"
        yield ours.translate(_URL_SAFE), "base64"


def _of_text(text: str) -> Iterator[tuple[bytes, str]]:
    units = text.encode("utf-16-be")
    yield units, "utf-16-be"
    yield text.encode("utf-16-le"), "utf-16-le"
    pairs = [f"{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)]
    usual = json.dumps(text)[1:-1]
    for escaped in (
        "".join(f"\\u{pair}" for pair in pairs),
        "".join(f"\\u{pair.upper()}" for pair in pairs),
        usual,
        json.dumps(usual)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
    ):
        yield escaped.encode(), "json"
    yield quote(text, safe="").encode(), "url"
