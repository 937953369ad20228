"""Append-only files of signed lines, each chained to the line before.

A line counts once it is on disk. The next append removes the rest of a line that a
crash left unfinished, since no caller has relied on that line.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final

from memoryhub.errors import LedgerBrokenError, LedgerUnwritableError, Refusal
from memoryhub.kernel.text import strict_json
from memoryhub.vault.keys.ring_file import sync_folder
from memoryhub.vault.proof import signing
from memoryhub.vault.proof.signing import Signer

if sys.platform != "win32":
    import fcntl

#: Bytes of the first read in search of a file's last line.
_BLOCK: Final = 1 << 16
#: No limits for parsing: a line that is not ours fails by its hash.
_LIMITS: Final = strict_json.JsonLimits(max_bytes=sys.maxsize, max_nodes=sys.maxsize)
#: Members of a line besides its statement.
_PLACE: Final = frozenset({"n", "prev", "hash", "key_id", "sig"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainPosition:
    """Position of a line: its number, and the hash that the next line refers to."""

    n: int
    hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A line of a chained file: its statement, and its position in the chain."""

    n: int
    says: Mapping[str, Any]
    prev: bytes
    hash: bytes
    key_id: str
    sig: bytes

    @property
    def text(self) -> bytes:
        """Text of the line in its file, including the line break."""
        shape = {**_build_hashed(self.n, self.says, self.prev), **_build_proof(self)}
        return strict_json.dump_canonical({**shape, "sig": self.sig.hex()}) + b"\n"

    def is_intact(self) -> bool:
        """Return whether the line's hash is that of its content."""
        return self.hash == _compute_hash(self.n, self.says, self.prev)

    def is_signed_by(self, keys: Mapping[str, bytes]) -> bool:
        """Return whether one of these public keys signed the line."""
        return signing.is_signed(self.key_id, _build_signed(self), self.sig, keys)


def append(
    path: Path,
    says: Mapping[str, Any],
    *,
    signer: Signer,
    place: Callable[[Link | None, int], tuple[ChainPosition, int]],
    then: Callable[[Link], None] | None = None,
) -> Link:
    """Append one line, and wait until it is on disk.

    `place` takes the last line and its end offset, and returns the position that the
    new line follows and its begin offset. `then` runs before anybody else can append.
    Raises LedgerUnwritableError, after which nothing was added, and LedgerBrokenError
    when the last line is not ours.
    """
    assert not _PLACE & says.keys()
    try:
        with _open_locked(path) as file:
            after, begin = place(*_read_last(file))
            link = _build_link(says, after=after, signer=signer)
            _write_text(file, link.text, at=begin)
            if not begin:
                sync_folder(path.parent)
            if then is not None:
                then(link)
    except OSError as failure:
        raise LedgerUnwritableError from failure
    return link


def copy(source: Path, target: Path, *, upto: Link | None = None) -> int:
    """Append a source's new lines, up to `upto`, to a copy; return the added bytes.

    Raises LedgerBrokenError when the source lacks the copy's last line at the same
    offset, and LedgerUnwritableError when the copy can't be written. Reads new lines
    only.
    """
    try:
        with _open_locked(target) as file:
            last, end = _read_last(file)
            with source.open("rb") as original:
                begin = end - len(last.text) if last else 0
                original.seek(begin)
                rest = original.read()
            rest = rest[: rest.rfind(b"\n") + 1]
            if upto is not None:
                before, found, _ = rest.partition(upto.text)
                if not found:
                    return 0
                rest = before + found
            if last is not None and not rest.startswith(last.text):
                raise LedgerBrokenError(n=last.n)
            lacking = rest[end - begin :]
            if lacking:
                _write_text(file, lacking, at=end)
        sync_folder(target.parent)
    except OSError as failure:
        raise LedgerUnwritableError from failure
    return len(lacking)


def touch(path: Path) -> None:
    """Create the file if it is absent. Raises LedgerUnwritableError if it can't be
    written.
    """
    try:
        with _open_locked(path):
            pass
    except OSError as failure:
        raise LedgerUnwritableError from failure


def read_head(path: Path) -> Link | None:
    """Return the newest complete line, or None. Raises LedgerBrokenError."""
    try:
        with path.open("rb") as file:
            return _read_last(file)[0]
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise LedgerUnwritableError from failure


def iter_links(path: Path) -> Iterator[Link]:
    """Yield every complete line, oldest first, after checking its link to the last.

    Raises LedgerBrokenError at the first bad link. Skips an unfinished last line.
    """
    before: Link | None = None
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    except OSError as failure:
        raise LedgerUnwritableError from failure
    with file:
        for text in file:
            if not text.endswith(b"\n"):
                return
            number = before.n + 1 if before else 1
            link = _parse_link(text, number)
            if link.n != number or (before and link.prev != before.hash):
                raise LedgerBrokenError(n=number)
            yield link
            before = link


def check(path: Path, *, genesis: bytes, keys: Mapping[str, bytes]) -> Link | None:
    """Check the whole file: chain, hashes, signatures. Return its newest line.

    Raises LedgerBrokenError with the number of the first wrong line.
    """
    link = None
    for link in iter_links(path):
        if (link.n == 1 and link.prev != genesis) or not link.is_signed_by(keys):
            raise LedgerBrokenError(n=link.n)
    return link


@contextmanager
def _open_locked(path: Path) -> Iterator[BinaryIO]:
    """Open the file under an exclusive lock; create it if absent."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=0) as file:
        if sys.platform != "win32":
            # The lock ends with the descriptor, even if the process dies.
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _write_text(file: BinaryIO, text: bytes, *, at: int) -> int:
    """Write a text at an offset; return its end offset. All or nothing."""
    try:
        # Removes the rest of a line that a crash left unfinished.
        file.truncate(at)
        file.seek(at)
        left = memoryview(text)
        while left:
            left = left[file.write(left) :]
        os.fsync(file.fileno())
    except OSError:
        file.truncate(at)
        raise
    return at + len(text)


def _read_last(file: BinaryIO) -> tuple[Link | None, int]:
    """Read the last complete line and its end offset."""
    place = file.seek(0, os.SEEK_END)
    tail = b""
    # Read until the tail has the ends of two lines, or the file's beginning.
    while place and tail.count(b"\n") < 2:
        # Double the size each time: a line may have many targets.
        size = min(max(_BLOCK, len(tail)), place)
        place = file.seek(place - size)
        tail = _read_exactly(file, size) + tail
    whole = tail[: tail.rfind(b"\n") + 1]
    if not whole:
        return None, 0
    text = whole[whole.rfind(b"\n", 0, -1) + 1 :]
    return _parse_link(text, 0), place + len(whole)


def _read_exactly(file: BinaryIO, size: int) -> bytes:
    chunks = b""
    while len(chunks) < size and (chunk := file.read(size - len(chunks))):
        chunks += chunk
    return chunks


def _parse_link(text: bytes, number: int) -> Link:
    """Parse a line. Raises LedgerBrokenError unless the text is a canonical line."""
    try:
        shape = strict_json.parse(text[:-1], _LIMITS)
        link = Link(
            n=shape.pop("n"),
            prev=bytes.fromhex(shape.pop("prev")),
            hash=bytes.fromhex(shape.pop("hash")),
            key_id=shape.pop("key_id"),
            sig=bytes.fromhex(shape.pop("sig")),
            says=MappingProxyType(shape),
        )
    except (Refusal, ValueError, KeyError, TypeError, AttributeError):
        raise LedgerBrokenError(n=number) from None
    # A line has exactly one text: a changed blank or letter case shows as well.
    if type(link.n) is not int or not link.is_intact() or link.text != text:
        raise LedgerBrokenError(n=number)
    return link


def _build_link(
    says: Mapping[str, Any], *, after: ChainPosition, signer: Signer
) -> Link:
    n, prev = after.n + 1, after.hash
    bare = Link(
        n=n,
        says=MappingProxyType(dict(says)),
        prev=prev,
        hash=_compute_hash(n, says, prev),
        key_id=signer.key_id,
        sig=b"",
    )
    return replace(bare, sig=signer.sign(_build_signed(bare)))


def _build_hashed(n: int, says: Mapping[str, Any], prev: bytes) -> dict[str, Any]:
    return {**says, "n": n, "prev": prev.hex()}


def _build_proof(link: Link) -> dict[str, Any]:
    return {"hash": link.hash.hex(), "key_id": link.key_id}


def _compute_hash(n: int, says: Mapping[str, Any], prev: bytes) -> bytes:
    return hashlib.sha256(
        strict_json.dump_canonical(_build_hashed(n, says, prev))
    ).digest()


def _build_signed(link: Link) -> bytes:
    shape = {**_build_hashed(link.n, link.says, link.prev), **_build_proof(link)}
    return strict_json.dump_canonical(shape)
