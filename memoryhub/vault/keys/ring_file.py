"""The KEK ring and its file: reading, checking, creating and replacing.

Reads only a regular file that its owner alone can read, and replaces a ring only by an
atomic rename.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from memoryhub.distribution import PROGRAM
from memoryhub.errors import KeyMissingError, StartRefusedError

FORMAT = "memoryhub.kek/1"
KEK_BYTES = 32
#: Far above any ring; a wrong path (a disk image, say) is not read into memory.
_MAX_FILE_BYTES = 1 << 20
_ID = re.compile("[0-9a-f]{8}")
_KEY = re.compile("[0-9a-f]{64}")
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)


class RingRefusedError(Exception):
    """Refusal of a change or read of the ring; `reason` is one line, no secret."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kek:
    """A key-encryption key: wraps other keys, never content."""

    id: str
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """All KEKs of an instance; the current KEK wraps new keys."""

    keks: Mapping[str, Kek]
    current_id: str

    @property
    def current(self) -> Kek:
        return self.keks[self.current_id]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(sorted(self.keks))

    def get(self, kek_id: str) -> Kek:
        """Return the KEK of this id. Raises KeyMissingError when the ring lacks it."""
        if kek_id not in self.keks:
            raise KeyMissingError(kek_id=kek_id)
        return self.keks[kek_id]

    def add_kek(self, kek: Kek) -> Ring:
        """Return a copy with one more KEK, which becomes the current KEK."""
        keks = MappingProxyType({**self.keks, kek.id: kek})
        return Ring(keks=keks, current_id=kek.id)

    def remove_kek(self, kek_id: str) -> Ring:
        """Return a copy without a KEK, which must not be the current KEK."""
        assert kek_id != self.current_id
        left = {id_: kek for id_, kek in self.keks.items() if id_ != kek_id}
        return Ring(keks=MappingProxyType(left), current_id=self.current_id)


def make_kek() -> Kek:
    return Kek(id=secrets.token_hex(4), key=secrets.token_bytes(KEK_BYTES))


def make_ring() -> Ring:
    kek = make_kek()
    return Ring(keks=MappingProxyType({kek.id: kek}), current_id=kek.id)


def encode_ring(ring: Ring) -> bytes:
    """Encode a ring as the JSON of its file and, sealed, of its backups."""
    keys = {id_: ring.keks[id_].key.hex() for id_ in ring.ids}
    shape = {"format": FORMAT, "current": ring.current_id, "keys": keys}
    return json.dumps(shape, indent=1).encode() + b"\n"


def decode_ring(data: bytes) -> Ring:
    """Decode a ring from JSON. Raises RingRefusedError, whose text quotes no data."""
    try:
        shape = json.loads(data)
        found, current, keys = shape["format"], shape["current"], shape["keys"]
        texts = [current, *keys.values()]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        raise RingRefusedError("kek_broken: it is not a key ring") from None
    if found != FORMAT or not all(isinstance(text, str) for text in texts):
        raise RingRefusedError(f"kek_broken: it is not a key ring of {FORMAT}")
    if any(len(key) < 2 * KEK_BYTES for key in keys.values()):
        raise RingRefusedError(f"kek_short: a key is shorter than {KEK_BYTES} bytes")
    legal = all(_ID.fullmatch(i) and _KEY.fullmatch(key) for i, key in keys.items())
    if not legal or current not in keys:
        raise RingRefusedError("kek_broken: an id or a key in it is malformed")
    keks = {id_: Kek(id=id_, key=bytes.fromhex(key)) for id_, key in keys.items()}
    return Ring(keks=MappingProxyType(keks), current_id=current)


def read(path: Path) -> Ring:
    """Read the ring of a file.

    Raises StartRefusedError, whose text says how to restore the ring.
    """
    data = _read_guarded(path)
    try:
        if len(data) < KEK_BYTES:
            raise RingRefusedError(f"kek_short: it is shorter than {KEK_BYTES} bytes")
        return decode_ring(data)
    except RingRefusedError as refused:
        raise StartRefusedError(
            f"{refused.reason} (the key ring {path}); "
            f"restore a backup with `{PROGRAM} keys restore`"
        ) from None


def _read_guarded(path: Path) -> bytes:
    try:
        # Non-blocking, or a FIFO in the ring's place would hang the start.
        descriptor = os.open(path, os.O_RDONLY | _NONBLOCK)
    except FileNotFoundError:
        raise StartRefusedError(
            f"kek_missing: there is no key ring at {path}; put it back, or restore "
            f"a backup with `{PROGRAM} keys restore`"
        ) from None
    except OSError as error:
        raise StartRefusedError(
            f"kek_unreadable: the key ring {path} can not be read ({error.strerror})"
        ) from None
    try:
        # Check the open file, not the path: nothing can be swapped in between.
        _refuse_exposed(path, os.fstat(descriptor).st_mode)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(_MAX_FILE_BYTES)
    finally:
        os.close(descriptor)


def _refuse_exposed(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise StartRefusedError(
            f"kek_not_a_file: the key ring {path} is not a regular file"
        )
    if os.name == "posix" and mode & 0o077:
        raise StartRefusedError(
            f"kek_mode: others than its owner may open the key ring {path} "
            f"(mode {stat.S_IMODE(mode):04o}); run `chmod 600` on it"
        )


def get_stamp(path: Path) -> tuple[object, ...] | None:
    """Return a stamp that changes with the file; None when the file can't be read."""
    try:
        seen = path.stat()
    except OSError:
        return None
    return (path, seen.st_ino, seen.st_mtime_ns, seen.st_size)


def create(path: Path, ring: Ring) -> None:
    """Write a ring to a new file (0600). Raises FileExistsError if the path exists.

    The name appears once the file is complete, so a crash or a second process never
    sees half a ring.
    """
    draft = _write_draft(path, ring)
    try:
        os.link(draft, path)
    finally:
        draft.unlink()
    sync_folder(path.parent)


def replace(path: Path, ring: Ring) -> None:
    """Replace the ring of a file: write, fsync, rename."""
    draft = _write_draft(path, ring)
    try:
        draft.replace(path)
    except OSError:
        draft.unlink()
        raise
    sync_folder(path.parent)


def write_new(path: Path, data: bytes) -> None:
    """Write a new secret file (0600), and wait until the file is on disk."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink()
        raise
    sync_folder(path.parent)


def _write_draft(path: Path, ring: Ring) -> Path:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    write_new(draft, encode_ring(ring))
    return draft


def sync_folder(folder: Path) -> None:
    """Wait until the entries of a folder are on disk."""
    # A file's name lives in its folder. Windows can not open a folder, and need not.
    with suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
