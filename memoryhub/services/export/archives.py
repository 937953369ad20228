"""Archives that somebody hands us: looked at before anything in them is believed.

Nothing is unpacked to disk. What a ZIP says of itself is held against bounds first,
and again while it is read.
"""

from __future__ import annotations

import stat
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from memoryhub.errors import BadBundleError
from memoryhub.kernel.formats.bundles import (
    MOST_BYTES,
    MOST_ENTRIES,
    MOST_RATIO,
    SMALL_BYTES,
)

#: A line of events is one event, whose content has an end.
LINE_BYTES: Final = 64 * 2**20
#: Of its directory: as long a name as ours, and room for what tools add.
_DIRECTORY_BYTES: Final = MOST_ENTRIES * 512
#: End of central directory, and the one of ZIP64 with its locator (APPNOTE 4.3.14-16).
_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENCRYPTED: Final = 0x1 | 0x40


@dataclass(frozen=True, slots=True)
class Archive:
    """A ZIP whose directory is sound."""

    _zip: ZipFile
    sizes: dict[str, int]

    def read(self, path: str, *, most: int) -> bytes:
        """Read a whole file. Raises BadBundleError when it is longer than `most`."""
        with self._open(path) as file, _damage_refused():
            data = file.read(most + 1)
        if len(data) > most:
            raise BadBundleError(what="size")
        return data

    def lines(self, path: str) -> Iterator[bytes]:
        """Yield the lines of a file, with their ends. Memory does not grow with it."""
        size = 0
        with self._open(path) as file:
            while line := _line(file):
                size += len(line)
                if size > self.sizes[path] or len(line) > LINE_BYTES:
                    raise BadBundleError(what="size")
                yield line
        if size != self.sizes[path]:
            raise BadBundleError(what="size")

    @contextmanager
    def _open(self, path: str) -> Iterator[IO[bytes]]:
        if path not in self.sizes:
            raise BadBundleError(what="missing_file")
        with _damage_refused():
            file = self._zip.open(path)
        with file:
            yield file


def _line(file: IO[bytes]) -> bytes:
    with _damage_refused():
        return file.readline(LINE_BYTES + 1)


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Open the archive at `path`.

    Raises BadBundleError, and OSError of the file itself.
    """
    with path.open("rb") as file:
        _require_small_directory(file)
        with _damage_refused():
            archive = ZipFile(file)
        with archive:
            yield Archive(archive, _sizes(archive.infolist()))


@contextmanager
def _damage_refused() -> Iterator[None]:
    """What `zipfile` raises on bytes that are none, as one refusal of ours."""
    try:
        yield
    except (BadZipFile, zlib.error, EOFError, struct.error, UnicodeDecodeError):
        raise BadBundleError(what="damaged") from None
    except (NotImplementedError, RuntimeError, ValueError):
        raise BadBundleError(what="unsupported") from None


def _require_small_directory(file: IO[bytes]) -> None:
    """Before `zipfile` reads all of it into memory."""
    if file.read(4) != b"PK\3\4":
        raise BadBundleError(what="unknown_format")
    size = file.seek(0, 2)
    start = max(0, size - _END.size - 0xFFFF)
    file.seek(start)
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END.size:
        raise BadBundleError(what="damaged")
    *_, entries, length, _, _ = _END.unpack_from(tail, at)
    if at >= _LOCATOR.size and tail[at - _LOCATOR.size : at].startswith(b"PK\6\7"):
        entries, length = _large_directory(file, start + at - _LOCATOR.size)
    if entries > MOST_ENTRIES or length > _DIRECTORY_BYTES:
        raise BadBundleError(what="entries")
    file.seek(0)


def _large_directory(file: IO[bytes], locator: int) -> tuple[int, int]:
    """Entries and bytes of a ZIP64's directory."""
    # Where the standard puts it, and where `zipfile` looks: just before its locator.
    file.seek(max(0, locator - _END64.size))
    found = file.read(_END64.size)
    if len(found) < _END64.size or not found.startswith(b"PK\6\6"):
        raise BadBundleError(what="damaged")
    *_, entries, length, _ = _END64.unpack(found)
    return entries, length


def _sizes(entries: list[ZipInfo]) -> dict[str, int]:
    """What each file will be, unpacked. Raises BadBundleError for what is unsafe."""
    if len(entries) > MOST_ENTRIES:
        raise BadBundleError(what="entries")
    sizes = {entry.filename: entry.file_size for entry in entries}
    if len(sizes) < len(entries):
        raise BadBundleError(what="duplicate_path")
    for entry in entries:
        _require_plain(entry)
    whole, packed = sum(sizes.values()), sum(each.compress_size for each in entries)
    if whole > MOST_BYTES:
        raise BadBundleError(what="size")
    if whole > SMALL_BYTES and whole > packed * MOST_RATIO:
        raise BadBundleError(what="ratio")
    return sizes


def _require_plain(entry: ZipInfo) -> None:
    if entry.flag_bits & _ENCRYPTED:
        raise BadBundleError(what="encrypted")
    if entry.compress_type not in (ZIP_DEFLATED, ZIP_STORED):
        raise BadBundleError(what="unsupported")
    mode = entry.external_attr >> 16
    if entry.is_dir() or (mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG)):
        raise BadBundleError(what="not_a_file")
    path = PurePosixPath(entry.orig_filename)
    strange = "\\" in entry.orig_filename or "\0" in entry.orig_filename
    if strange or path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
        raise BadBundleError(what="path")
