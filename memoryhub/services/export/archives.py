"""ZIP archives from outside, checked before any content is used.

Nothing is unpacked to disk. The sizes that a ZIP declares are checked against bounds
first, and again while the file is read.
"""

from __future__ import annotations

import errno
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

#: Longest line of events: one event, whose content is bounded.
LINE_BYTES: Final = 64 * 2**20
#: Largest directory: bundle names, and room for what tools add.
_DIRECTORY_BYTES: Final = MOST_ENTRIES * 512
#: End of central directory, and its ZIP64 variant with locator (APPNOTE 4.3.14-16).
_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENCRYPTED: Final = 0x1 | 0x40


@dataclass(frozen=True, slots=True)
class ImportArchive:
    """ZIP archive whose directory passed the checks."""

    _zip: ZipFile
    sizes: dict[str, int]

    def read(self, path: str, *, most: int) -> bytes:
        """Read a whole file. Raises BadBundleError for more than `most` bytes."""
        with self._open(path) as file, _refuse_damage():
            data = file.read(most + 1)
        if len(data) > most:
            raise BadBundleError(what="size")
        return data

    def iter_lines(self, path: str) -> Iterator[bytes]:
        """Yield the lines of a file with their ends, in constant memory."""
        size = 0
        with self._open(path) as file:
            while line := _read_line(file):
                size += len(line)
                if size > self.sizes[path] or len(line) > LINE_BYTES:
                    raise BadBundleError(what="size")
                yield line
        if size != self.sizes[path]:
            raise BadBundleError(what="size")

    @contextmanager
    def _open(self, path: str) -> Iterator[IO[bytes]]:
        """Open a file of the archive. Raises BadBundleError."""
        if path not in self.sizes:
            raise BadBundleError(what="missing_file")
        with _refuse_damage():
            file = self._zip.open(path)
        with file:
            yield file


def _read_line(file: IO[bytes]) -> bytes:
    """Read one line. Raises BadBundleError for a damaged archive."""
    with _refuse_damage():
        return file.readline(LINE_BYTES + 1)


@contextmanager
def open_archive(path: Path) -> Iterator[ImportArchive]:
    """Open the archive at `path`.

    Raises BadBundleError, and OSError of the file itself.
    """
    with path.open("rb") as file:
        _require_small_directory(file)
        with _refuse_damage():
            archive = ZipFile(file)
        with archive:
            yield ImportArchive(archive, _measure_files(archive.infolist()))


@contextmanager
def _refuse_damage() -> Iterator[None]:
    """Turn what `zipfile` raises on bad archives into BadBundleError."""
    try:
        yield
    except (BadZipFile, zlib.error, EOFError, struct.error, UnicodeDecodeError):
        raise BadBundleError(what="damaged") from None
    except (NotImplementedError, RuntimeError, ValueError):
        raise BadBundleError(what="unsupported") from None
    except OSError as failure:
        # A place before the file's first byte, which the archive named.
        if failure.errno != errno.EINVAL:
            raise
        raise BadBundleError(what="damaged") from None


def _require_small_directory(file: IO[bytes]) -> None:
    """Check the directory's size before `zipfile` reads the directory into memory."""
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
        entries, length = _read_zip64_directory(file, start + at - _LOCATOR.size)
    if entries > MOST_ENTRIES or length > _DIRECTORY_BYTES:
        raise BadBundleError(what="entries")
    file.seek(0)


def _read_zip64_directory(file: IO[bytes], locator: int) -> tuple[int, int]:
    """Read the numbers of entries and bytes of a ZIP64 directory."""
    # The standard puts the record just before its locator, where `zipfile` looks.
    file.seek(max(0, locator - _END64.size))
    found = file.read(_END64.size)
    if len(found) < _END64.size or not found.startswith(b"PK\6\6"):
        raise BadBundleError(what="damaged")
    *_, entries, length, _ = _END64.unpack(found)
    return entries, length


def _measure_files(entries: list[ZipInfo]) -> dict[str, int]:
    """Measure each file unpacked. Raises BadBundleError for unsafe archives."""
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
    """Raise BadBundleError unless the entry is a regular file with a safe path."""
    if entry.flag_bits & _ENCRYPTED:
        raise BadBundleError(what="encrypted")
    if entry.compress_type not in (ZIP_DEFLATED, ZIP_STORED):
        raise BadBundleError(what="unsupported")
    path = PurePosixPath(entry.orig_filename)
    if not (entry.filename and path.parts):
        raise BadBundleError(what="path")
    mode = entry.external_attr >> 16
    if entry.is_dir() or (mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG)):
        raise BadBundleError(what="not_a_file")
    strange = "\\" in entry.orig_filename or "\0" in entry.orig_filename
    if strange or path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
        raise BadBundleError(what="path")
