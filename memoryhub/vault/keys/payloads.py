"""Payloads: sealing of content into bytes that open only at their own address.

Sealed bytes = 0x02, flags (bit 0: zlib), key version, nonce 12, ciphertext, tag 16.
The plaintext is padded with 0x80 and zeros up to the next step of `padding`, so that
the length does not tell `true` from `false`.

A row may hold a reference to cold storage in place of sealed bytes: see
`cold_payloads`.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidTag

from memoryhub.errors import SealBrokenError
from memoryhub.kernel.text.padding import pad_size
from memoryhub.vault.keys import cold_payloads, seal_count
from memoryhub.vault.keys.keys import SubjectKeys

OVERHEAD_BYTES: Final = 31
#: Most inflated bytes; larger content is sealed without compression.
MAX_INFLATED_BYTES: Final = 16 << 20

_FORMAT: Final = 2
_ZLIB: Final = 1
_HEADER_BYTES: Final = 3
_SEALED_FROM: Final = _HEADER_BYTES + 12
_MIN_COMPRESSED_BYTES: Final = 128
_END: Final = b"\x80"
_PLACE = struct.Struct(">3s16s16s16sQB3s")
#: End of the packed address, the only part that differs within a thread.
_TAIL = struct.Struct(">QB3s")


class Purpose(IntEnum):
    """Purpose of sealed bytes; one address may hold one of each purpose."""

    PAYLOAD = 1
    SNAPSHOT = 2
    VECTOR = 3
    EXTERNAL_ID = 4
    TERMS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadAddress:
    """Address to which sealed bytes are bound; the bytes open nowhere else.

    For a subject's external id thread and seq are zero.
    """

    project: UUID
    subject: UUID
    thread: UUID
    seq: int
    purpose: Purpose


def seal(
    keys: SubjectKeys, address: PayloadAddress, plain: bytes, *, level: int = 1
) -> bytes:
    """Compress if that pays, pad, then seal under the subject's newest key version.

    `level` is zlib's. No query. Cost: 2 µs, and 5 to 10 µs for each KB that is
    compressed at level 1, 25 µs at level 6.
    """
    assert address.subject == keys.subject
    assert address.project == keys.project
    packed = _deflate(plain, level)
    flags = 0 if packed is None else _ZLIB
    header = bytes((_FORMAT, flags, keys.version))
    nonce = os.urandom(12)
    cipher = keys.ciphers[keys.version]
    bound_to = _pack_address(address, header)
    filled = _pad_plain(plain if packed is None else packed)
    sealed = cipher.encrypt(nonce, filled, bound_to)
    if seal_count.is_marked(nonce):
        seal_count.note(keys.subject, version=keys.version)
    return header + nonce + sealed


def open_sealed(keys: SubjectKeys, address: PayloadAddress, sealed: bytes) -> bytes:
    """Open the content that was sealed for this address.

    Raises SealBrokenError when the bytes are damaged or were moved, KeyMissingError
    when their key version is lost, ColdStorageError when they are in cold storage that
    does not answer. No query unless the key version is new.
    """
    sealed = cold_payloads.fetch_sealed(sealed, look=True)
    return _open_bound(keys, sealed, _pack_address(address, sealed[:_HEADER_BYTES]))


def build_opener(
    keys: SubjectKeys, address: PayloadAddress
) -> Callable[[int, bytes], bytes]:
    """Build an `open_sealed` for a whole thread, called with a seq and its bytes.

    The common part of the addresses is packed once. Payloads in cold storage stay
    there: whoever reads a whole thread looks at none of its messages.
    """
    before = _pack_address(address, bytes(_HEADER_BYTES))[: -_TAIL.size]

    def open_at(seq: int, sealed: bytes) -> bytes:
        sealed = cold_payloads.fetch_sealed(sealed)
        end = _TAIL.pack(seq, address.purpose, sealed[:_HEADER_BYTES])
        return _open_bound(keys, sealed, before + end)

    return open_at


def _open_bound(keys: SubjectKeys, sealed: bytes, bound_to: bytes) -> bytes:
    if len(sealed) < OVERHEAD_BYTES or sealed[0] != _FORMAT or sealed[1] & ~_ZLIB:
        raise SealBrokenError
    cipher = keys.get_cipher(sealed[2])
    nonce = sealed[_HEADER_BYTES:_SEALED_FROM]
    try:
        filled = cipher.decrypt(nonce, sealed[_SEALED_FROM:], bound_to)
    except InvalidTag:
        raise SealBrokenError from None
    plain = filled.rstrip(b"\0")
    if not plain.endswith(_END):
        raise SealBrokenError
    plain = plain[:-1]
    return _inflate(plain) if sealed[1] & _ZLIB else plain


def _pack_address(address: PayloadAddress, header: bytes) -> bytes:
    return _PLACE.pack(
        b"mh1",
        address.project.bytes,
        address.subject.bytes,
        address.thread.bytes,
        address.seq,
        address.purpose,
        header,
    )


def _pad_plain(plain: bytes) -> bytes:
    return (plain + _END).ljust(pad_size(len(plain) + 1), b"\0")


def _deflate(plain: bytes, level: int) -> bytes | None:
    """Compress with zlib; None unless the result is at least 10 % shorter."""
    if not _MIN_COMPRESSED_BYTES <= len(plain) <= MAX_INFLATED_BYTES:
        return None
    # A window of 16 KiB keeps the compressor's memory below the size from
    # which malloc maps pages anew each time: 6 µs instead of 45 for a short message.
    deflate = zlib.compressobj(level, zlib.DEFLATED, 14, 7)
    packed = deflate.compress(plain) + deflate.flush()
    return packed if len(packed) * 10 <= len(plain) * 9 else None


def _inflate(packed: bytes) -> bytes:
    inflate = zlib.decompressobj()
    try:
        plain = inflate.decompress(packed, MAX_INFLATED_BYTES + 1)
    except zlib.error:
        raise SealBrokenError from None
    if len(plain) > MAX_INFLATED_BYTES or not inflate.eof or inflate.unused_data:
        raise SealBrokenError
    return plain
