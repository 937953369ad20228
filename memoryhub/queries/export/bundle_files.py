"""The ZIP of a bundle, made file by file while it is sent. Nothing is kept of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from memoryhub.kernel.formats.bundles import File
from memoryhub.queries.lists.cursors import PART_BYTES
from memoryhub.queries.replay import exact_json

#: Lines that are sent at once, at most.
LINES: Final = 1_000
#: Level 1: half as much again on the wire, for a third of the time.
_LEVEL = 1
#: The oldest time that a ZIP can tell; bundles of the same memory are the same.
_ALWAYS = (1980, 1, 1, 0, 0, 0)
_PRIVATE = 0o600 << 16


class Chunk(NamedTuple):
    """Some of a file, and how many records that is."""

    data: bytes
    records: int = 1


def chunks(lines: Iterable[bytes]) -> Iterator[Chunk]:
    """Put lines together in chunks of modest size, whatever agents have sent."""
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


def record_chunks(records: Iterable[Any]) -> Iterator[Chunk]:
    """Write a line for each record."""
    return chunks(exact_json.dumps(record) + b"\n" for record in records)


class _Outlet:
    """What `zipfile` writes to: no file, so that it seeks nowhere."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing is held back."""

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def taken(self) -> bytes:
        """Return what was written since the last time."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


class Archive:
    """A ZIP in the making. It opens only once `end` was sent, its last part."""

    def __init__(self, admit: Callable[[], None]) -> None:
        #: Asked before each part goes out; raises when none may any more.
        self._admit = admit
        self._outlet = _Outlet()
        self._zip = ZipFile(self._outlet, "w", ZIP_DEFLATED, compresslevel=_LEVEL)
        self.files: list[File] = []

    def add(
        self, path: str, chunks: Iterable[Chunk], *, schema: str | None = None
    ) -> Iterator[bytes]:
        """Yield a file, chunk by chunk as it is made."""
        info = ZipInfo(path, date_time=_ALWAYS)
        info.compress_type, info.external_attr = ZIP_DEFLATED, _PRIVATE
        digest, size, records = hashlib.sha256(), 0, 0
        with self._zip.open(info, "w", force_zip64=True) as file:
            for chunk in chunks:
                file.write(chunk.data)
                digest.update(chunk.data)
                size += len(chunk.data)
                records += chunk.records
                yield self._sent()
        self.files.append(
            File(
                path=path,
                records=records,
                bytes=size,
                sha256=digest.hexdigest(),
                schema=schema,
            )
        )
        yield self._sent()

    def end(self) -> bytes:
        """Return the directory, without which no part of the archive opens."""
        self._zip.close()
        return self._sent()

    def drop(self) -> None:
        """Send no more; what is left of it goes nowhere."""
        self._zip.close()
        self._outlet.taken()

    def _sent(self) -> bytes:
        self._admit()
        return self._outlet.taken()
