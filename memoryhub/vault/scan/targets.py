"""Targets: byte strings that must not exist after an erasure, and their encodings.

Pure. Targets are random bytes of sealed content and of wrapped keys, and, in memory
only, content: windows of plaintext, the `user_id`, names.
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

#: Fewest bytes of a target: shorter targets occur by chance in encoded random bytes.
SHORTEST: Final = 8
#: Most nonces and windows of one erasure: more make a scan slower and no surer.
MAX_NONCES: Final = 500
MAX_WINDOWS: Final = 200
WINDOW_BYTES: Final = 24
#: Fewest bytes of a plaintext window: shorter windows occur by chance.
LEAST_BYTES: Final = 16

_NONCE_BYTES: Final = 12
#: Offset of the nonce in sealed bytes, after three bytes of header.
_NONCE_FROM: Final = 3
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
#: Fewest different bytes of a window; repetitions of fewer say nothing.
_DIFFERENT: Final = 3
#: Texts that the server itself stores unencrypted, and that are no evidence: parts of
#: ids and digests, times, words of programs, and dates in receipts.
_OURS = re.compile(
    rb"([a-z_]+:)?[0-9A-Fa-f-]*[A-Fa-f-][0-9A-Fa-f-]*|[0-9TZ:.+ -]*:[0-9TZ:.+ -]*"
    rb'|[a-z_.]+|"until":"[0-9-]+"'
)
#: Values that a member may have in JSON of the server.
_WORD = re.compile(r"[a-z_./-]*|.{0,5}", re.DOTALL)


class TargetKind(StrEnum):
    """Kind of value that a target is part of."""

    NONCE = "nonce"
    WRAPPED_KEY = "wrapped_key"
    PLAINTEXT = "plaintext"
    USER_ID = "user_id"
    NAME = "name"


#: Kinds of random bytes, which are no content and are kept until the night after the
#: receipt.
KEPT = (TargetKind.NONCE, TargetKind.WRAPPED_KEY)
#: Mask XORed into stored nonces, so that a scan does not find its own list.
_MASK = hashlib.blake2b(b"mh1|needles", digest_size=_NONCE_BYTES).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTarget:
    """Bytes to look for. The `repr` never shows the bytes."""

    kind: TargetKind
    data: bytes

    def __repr__(self) -> str:
        return f"<{self.kind} of {len(self.data)} bytes>"

    @property
    def is_too_short(self) -> bool:
        return len(self.data) < SHORTEST


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetForm:
    """One encoding of a target."""

    target: ScanTarget
    decoder: str
    data: bytes


# Making targets


def build_nonce_target(sealed: bytes) -> ScanTarget:
    """Return the nonce of a sealed payload, snapshot or external id."""
    nonce = bytes(sealed[_NONCE_FROM : _NONCE_FROM + _NONCE_BYTES])
    assert len(nonce) == _NONCE_BYTES
    return ScanTarget(kind=TargetKind.NONCE, data=nonce)


def build_wrapped_nonce_target(wrapped: bytes) -> ScanTarget:
    """Return the nonce that a wrapped key begins with."""
    nonce = bytes(wrapped[:_NONCE_BYTES])
    assert len(nonce) == _NONCE_BYTES
    return ScanTarget(kind=TargetKind.WRAPPED_KEY, data=nonce)


def cut_windows(plain: bytes, *, most: int = 2) -> list[ScanTarget]:
    """Cut up to `most` windows out of opened content, at its middle and its end.

    Content shorter than a window, down to 16 bytes, is a window itself. Left out are
    texts that the server itself stores unencrypted.
    """
    last = max(len(plain) - WINDOW_BYTES, 0)
    found = {}
    for start in (last // 2, last, last // 4, 0):
        window = plain[start : start + WINDOW_BYTES]
        # A character cut in two would not survive the encodings.
        whole = window.decode(errors="ignore").encode()
        if _is_telling(whole):
            found[whole] = ScanTarget(kind=TargetKind.PLAINTEXT, data=whole)
    return list(found.values())[:most]


def build_member_targets(key: str, value: str) -> list[ScanTarget]:
    """Build the target of a short text together with its key, in JSON."""
    if _WORD.fullmatch(value):
        return []
    pair = json.dumps({key: value}, ensure_ascii=False, separators=(",", ":"))
    return cut_windows(pair[1:-1].encode(), most=1)


def is_identifying_name(text: str) -> bool:
    """Return whether a name identifies a person; a single word does not."""
    return len(text.encode()) >= SHORTEST and not text.isalpha()


def _is_telling(window: bytes) -> bool:
    enough = len(window) >= LEAST_BYTES and len(set(window)) >= _DIFFERENT
    return enough and not _OURS.fullmatch(window)


def build_user_id_target(text: str) -> ScanTarget:
    return ScanTarget(kind=TargetKind.USER_ID, data=text.encode())


def build_name_target(text: str) -> ScanTarget:
    return ScanTarget(kind=TargetKind.NAME, data=text.encode())


# Storing targets


def pack_targets(targets: Iterable[ScanTarget]) -> bytes:
    """Pack targets of random bytes for a row, 13 bytes each; never other targets."""
    return b"".join(
        bytes([KEPT.index(target.kind)]) + _mask_nonce(target.data)
        for target in targets
        if target.kind in KEPT
    )


def unpack_targets(data: bytes) -> list[ScanTarget]:
    step = _NONCE_BYTES + 1
    rows = (bytes(data[at : at + step]) for at in range(0, len(data), step))
    return [ScanTarget(kind=KEPT[row[0]], data=_mask_nonce(row[1:])) for row in rows]


def _mask_nonce(nonce: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(nonce, _MASK, strict=True))


# Encodings of targets


def iter_forms(target: ScanTarget) -> Iterator[TargetForm]:
    """Yield every encoding of a target once; text encodings only for texts."""
    ways = dict(_iter_byte_forms(target.data))
    if target.kind not in KEPT:
        for data, decoder in _iter_text_forms(target.data.decode(errors="replace")):
            ways.setdefault(data, decoder)
    for data, decoder in ways.items():
        yield TargetForm(target=target, decoder=decoder, data=data)


def _iter_byte_forms(data: bytes) -> Iterator[tuple[bytes, str]]:
    yield data, "raw"
    digits = data.hex()
    yield digits.encode(), "hex"
    yield digits.upper().encode(), "hex"
    for before in range(3):
        whole = base64.b64encode(bytes(before) + data)
        # Leave out digits that also hold a neighbour's bits.
        first = -(-before * 8 // 6) if before else 0
        ours = whole[first : (before + len(data)) * 8 // 6]
        yield ours, "base64"
        yield ours.translate(_URL_SAFE), "base64"


def _iter_text_forms(text: str) -> Iterator[tuple[bytes, str]]:
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
