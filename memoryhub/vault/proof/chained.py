"""Files of signed lines, each chained to the one before: appended, never changed.

A line counts once it is on disk. What a crash left of an unfinished one was told to
nobody, so it goes with the next append.
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

#: What is read at once when a file's last line is looked for.
_BLOCK: Final = 1 << 16
#: A line is ours, or its hash is wrong: what it may cost is no question.
_LIMITS: Final = strict_json.Limits(max_bytes=sys.maxsize, max_nodes=sys.maxsize)
#: What a line has beside what it says.
_PLACE: Final = frozenset({"n", "prev", "hash", "key_id", "sig"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainPosition:
    """Where a line stands: its number, and the hash that the next one follows."""

    n: int
    hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A line: what it says, and where it stands in its chain."""

    n: int
    says: Mapping[str, Any]
    prev: bytes
    hash: bytes
    key_id: str
    sig: bytes

    @property
    def text(self) -> bytes:
        """The line as it stands in its file, with its end."""
        shape = {**_hashed(self.n, self.says, self.prev), **_sealed(self)}
        return strict_json.canonical({**shape, "sig": self.sig.hex()}) + b"\n"

    def intact(self) -> bool:
        """Return whether the line's hash is that of its content."""
        return self.hash == _digest(self.n, self.says, self.prev)

    def signed_by(self, keys: Mapping[str, bytes]) -> bool:
        """Return whether one of these public keys signed it."""
        return signing.verify(self.key_id, _signed(self), self.sig, keys)


def append(
    path: Path,
    says: Mapping[str, Any],
    *,
    signer: Signer,
    place: Callable[[Link | None, int], tuple[ChainPosition, int]],
    then: Callable[[Link], None] | None = None,
) -> Link:
    """Write one line, and wait until it is on disk.

    `place` is told the last line and where it ends, and says what the new one follows
    and where it begins; `then` is done before anybody else appends. Raises
    LedgerUnwritableError, after which nothing was added, and LedgerBrokenError when the
    last line is none of ours.
    """
    assert not _PLACE & says.keys()
    try:
        with _locked(path) as file:
            after, begin = place(*_last(file))
            link = _linked(says, after=after, signer=signer)
            _write(file, link.text, at=begin)
            if not begin:
                sync_folder(path.parent)
            if then is not None:
                then(link)
    except OSError as failure:
        raise LedgerUnwritableError from failure
    return link


def copy(source: Path, target: Path, *, upto: Link | None = None) -> int:
    """Bring a copy up to its source, or to this line of it; how many bytes it lacked.

    Raises LedgerBrokenError when the copy does not end where the source has the same
    line, and LedgerUnwritableError when it can't be written. Reads what is new only.
    """
    try:
        with _locked(target) as file:
            last, end = _last(file)
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
                _write(file, lacking, at=end)
        sync_folder(target.parent)
    except OSError as failure:
        raise LedgerUnwritableError from failure
    return len(lacking)


def touch(path: Path) -> None:
    """Make the file if it is not there. Raises LedgerUnwritableError if it can't be
    written.
    """
    try:
        with _locked(path):
            pass
    except OSError as failure:
        raise LedgerUnwritableError from failure


def head(path: Path) -> Link | None:
    """Return the newest line that is whole, or None. Raises LedgerBrokenError."""
    try:
        with path.open("rb") as file:
            return _last(file)[0]
    except FileNotFoundError:
        return None
    except OSError as failure:
        raise LedgerUnwritableError from failure


def iter_links(path: Path) -> Iterator[Link]:
    """Yield every line that is whole, oldest first, each a link of the one before.

    Raises LedgerBrokenError at the first that is not. An unfinished last line is none.
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
            link = _parsed(text, number)
            if link.n != number or (before and link.prev != before.hash):
                raise LedgerBrokenError(n=number)
            yield link
            before = link


def check(path: Path, *, genesis: bytes, keys: Mapping[str, bytes]) -> Link | None:
    """Walk the whole file: chain, hashes, signatures. Returns its newest line.

    Raises LedgerBrokenError with the first number that is wrong.
    """
    link = None
    for link in iter_links(path):
        if (link.n == 1 and link.prev != genesis) or not link.signed_by(keys):
            raise LedgerBrokenError(n=link.n)
    return link


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """The file, open for whoever else would append to wait; made if it is not there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=0) as file:
        if sys.platform != "win32":
            # It goes with the descriptor, whatever becomes of the process.
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _write(file: BinaryIO, text: bytes, *, at: int) -> int:
    """Put a line where the whole ones end; returns where it ends. All or nothing."""
    try:
        # What a crash left behind the last whole line goes here.
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


def _last(file: BinaryIO) -> tuple[Link | None, int]:
    """The last whole line, and where it ends."""
    place = file.seek(0, os.SEEK_END)
    tail = b""
    # Until there is the end of a line, and the one before it or the file's beginning.
    while place and tail.count(b"\n") < 2:
        # Twice as much each time: a line may have many names to tell of.
        size = min(max(_BLOCK, len(tail)), place)
        place = file.seek(place - size)
        tail = _exactly(file, size) + tail
    whole = tail[: tail.rfind(b"\n") + 1]
    if not whole:
        return None, 0
    text = whole[whole.rfind(b"\n", 0, -1) + 1 :]
    return _parsed(text, 0), place + len(whole)


def _exactly(file: BinaryIO, size: int) -> bytes:
    chunks = b""
    while len(chunks) < size and (chunk := file.read(size - len(chunks))):
        chunks += chunk
    return chunks


def _parsed(text: bytes, number: int) -> Link:
    """The link of a line's text. Raises LedgerBrokenError unless it is just that."""
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
    # One text for one line: a changed blank or letter case shows as well.
    if type(link.n) is not int or not link.intact() or link.text != text:
        raise LedgerBrokenError(n=number)
    return link


def _linked(says: Mapping[str, Any], *, after: ChainPosition, signer: Signer) -> Link:
    n, prev = after.n + 1, after.hash
    bare = Link(
        n=n,
        says=MappingProxyType(dict(says)),
        prev=prev,
        hash=_digest(n, says, prev),
        key_id=signer.key_id,
        sig=b"",
    )
    return replace(bare, sig=signer.sign(_signed(bare)))


def _hashed(n: int, says: Mapping[str, Any], prev: bytes) -> dict[str, Any]:
    return {**says, "n": n, "prev": prev.hex()}


def _sealed(link: Link) -> dict[str, Any]:
    return {"hash": link.hash.hex(), "key_id": link.key_id}


def _digest(n: int, says: Mapping[str, Any], prev: bytes) -> bytes:
    return hashlib.sha256(strict_json.canonical(_hashed(n, says, prev))).digest()


def _signed(link: Link) -> bytes:
    shape = {**_hashed(link.n, link.says, link.prev), **_sealed(link)}
    return strict_json.canonical(shape)
