"""The ZIP of a bundle, built file by file while it is sent, and never stored."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from memoryhub.kernel.formats.bundles import BundleFile
from memoryhub.queries.lists.cursors import PART_BYTES
from memoryhub.queries.replay import exact_json

#: Most lines of a chunk.
LINES: Final = 1_000
#: Level 1: half as much again on the wire, for a third of the time.
_LEVEL = 1
#: The oldest time that a ZIP can hold: equal memory gives equal bundles.
_ALWAYS = (1980, 1, 1, 0, 0, 0)
_PRIVATE = 0o600 << 16


class Chunk(NamedTuple):
    """A part of a file, and the number of records in the part."""

    data: bytes
    records: int = 1


def join_lines(lines: Iterable[bytes]) -> Iterator[Chunk]:
    """Join lines into chunks of at most LINES lines, cut at PART_BYTES."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if len(held) >= LINES or size >= PART_BYTES:
            yield Chunk(b"".join(held), len(held))
            held, size = [], 0
    if held:
        yield Chunk(b"".join(held), len(held))


def render_records(records: Iterable[Any]) -> Iterator[Chunk]:
    """Yield chunks with one JSON line for each record."""
    return join_lines(exact_json.dump_json(record) + b"\n" for record in records)


class _ZipSink:
    """Output of `zipfile`: a buffer that is no file, so that `zipfile` never seeks."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: writes are not buffered elsewhere."""

    def close(self) -> None:
        """Do nothing: the buffer needs no closing."""

    def take_bytes(self) -> bytes:
        """Return the bytes written since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


class ZipArchive:
    """A ZIP that is sent while it is built; readable once the part of `end` is sent."""

    def __init__(self, admit: Callable[[], None]) -> None:
        #: Called before each part is sent; raises to end the stream.
        self._admit = admit
        self._outlet = _ZipSink()
        self._zip = ZipFile(self._outlet, "w", ZIP_DEFLATED, compresslevel=_LEVEL)
        self.files: list[BundleFile] = []

    def add(
        self, path: str, chunks: Iterable[Chunk], *, schema: str | None = None
    ) -> Iterator[bytes]:
        """Add a file, and yield the ZIP's bytes chunk by chunk."""
        info = ZipInfo(path, date_time=_ALWAYS)
        info.compress_type, info.external_attr = ZIP_DEFLATED, _PRIVATE
        digest, size, records = hashlib.sha256(), 0, 0
        with self._zip.open(info, "w", force_zip64=True) as file:
            for chunk in chunks:
                file.write(chunk.data)
                digest.update(chunk.data)
                size += len(chunk.data)
                records += chunk.records
                yield self._take_admitted()
        self.files.append(
            BundleFile(
                path=path,
                records=records,
                bytes=size,
                sha256=digest.hexdigest(),
                schema=schema,
            )
        )
        yield self._take_admitted()

    def end(self) -> bytes:
        """Return the ZIP's directory, without which no part of the archive opens."""
        self._zip.close()
        return self._take_admitted()

    def drop(self) -> None:
        """Close the ZIP and discard its unsent bytes."""
        self._zip.close()
        self._outlet.take_bytes()

    def _take_admitted(self) -> bytes:
        self._admit()
        return self._outlet.take_bytes()
