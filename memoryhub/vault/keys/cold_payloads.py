"""Payloads in cold storage: references in rows, and objects that hold the bytes.

An object is payloads of one thread, sealed as they are, one after the other. A
reference takes a payload's place in its row: 0x03, the object's id, offset and length.
No sealed payload begins with 0x03. The storage is Django's, `STORAGES["cold"]`. See
decision 88.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import Any, Final, NamedTuple
from uuid import UUID

import structlog
from django.core.files import File
from django.core.files.storage import storages

from memoryhub.errors import ColdStorageError, SealBrokenError
from memoryhub.vault.registry.lru import Lru

log = structlog.get_logger()

STORAGE: Final = "cold"
#: File that marks the storage as ours. Without it an empty folder, as of a disk that is
#: not mounted, would be a storage that lost every object.
MARK: Final = "memoryhub.mark"
#: Most bytes of an object; a thread with more has several objects.
MAX_OBJECT_BYTES: Final = 16 << 20
_FORMAT: Final = b"\x03"
_REFERENCE = struct.Struct(">c16sQI")
#: Bytes of a reference. A sealed payload is longer.
REFERENCE_BYTES: Final = _REFERENCE.size

#: Objects that this process read lately; two of the largest fit.
objects: Lru[UUID, bytes] = Lru(
    2 * MAX_OBJECT_BYTES, name="objects of cold storage", unit_bytes=1
)


class LookedObjects:
    """Ids of objects from which somebody read a payload. Any thread may add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: set[UUID] = set()

    def add(self, object_id: UUID) -> None:
        with self._lock:
            self._ids.add(object_id)

    def take_all(self) -> set[UUID]:
        """Take the ids added since the last call."""
        with self._lock:
            taken, self._ids = self._ids, set()
        return taken


#: Objects whose payloads should come back to their rows.
looked = LookedObjects()


class ColdReference(NamedTuple):
    """A place in an object: offset and length in bytes."""

    object_id: UUID
    offset: int
    size: int


def is_reference(stored: bytes) -> bool:
    """Return whether a row's bytes are a reference and no sealed payload."""
    return len(stored) == REFERENCE_BYTES and stored[:1] == _FORMAT


def build_reference(reference: ColdReference) -> bytes:
    """Build the bytes that take a payload's place in its row."""
    object_id, offset, size = reference
    return _REFERENCE.pack(_FORMAT, object_id.bytes, offset, size)


def parse_reference(stored: bytes) -> ColdReference:
    _, object_id, offset, size = _REFERENCE.unpack(stored)
    return ColdReference(UUID(bytes=object_id), offset, size)


def fetch_sealed(stored: bytes, *, look: bool = False) -> bytes:
    """Return a row's sealed payload, from its object if the row has a reference.

    With `look` the payloads of the object come back to their rows soon. Raises
    ColdStorageError when the storage does not answer, SealBrokenError when the object
    is lost. Cost: one fetch for each object that this process does not cache.
    """
    if not is_reference(stored):
        return stored
    reference = parse_reference(stored)
    content = fetch_object(reference.object_id)
    if look:
        looked.add(reference.object_id)
    return content[reference.offset : reference.offset + reference.size]


def fetch_object(object_id: UUID) -> bytes:
    """Return the bytes of an object; else as `fetch_sealed`."""
    content = objects.get(object_id)
    if content is None:
        try:
            with (
                _use_storage() as storage,
                storage.open(_build_name(object_id)) as file,
            ):
                content = file.read()
        except FileNotFoundError:
            require_storage()
            raise SealBrokenError from None
        objects.put(object_id, content, weight=len(content))
    return content


def require_storage(*, new: bool = False) -> None:
    """Raise ColdStorageError unless the storage has our mark; mark a `new` storage."""
    with _use_storage() as storage:
        marked = storage.exists(MARK)
        if new and not marked:
            _save(storage, MARK, b"")
    if not (marked or new):
        raise _note_failure("no_mark")


def store_object(object_id: UUID, content: bytes) -> None:
    """Store a new object, and read it back from the storage.

    Raises ColdStorageError unless the storage returns the same bytes.
    """
    name = _build_name(object_id)
    with _use_storage() as storage:
        stored = _save(storage, name, content)
        with storage.open(name) as file:
            same = stored == name and file.read() == content
    if not same:
        raise ColdStorageError


def delete_object(object_id: UUID) -> None:
    """Delete an object, if it exists. Raises ColdStorageError."""
    objects.pop(object_id)
    require_storage()
    with _use_storage() as storage:
        storage.delete(_build_name(object_id))


def list_names(*, new: bool = False) -> list[str]:
    """List the names of all objects in the storage, known to the tables or not.

    Raises ColdStorageError without our mark, unless the storage is `new`.
    """
    names = list[str]()
    # No folder is an empty storage.
    with suppress(FileNotFoundError), _use_storage() as storage:
        names = sorted(storage.listdir("")[1])
    if MARK not in names and not new:
        raise _note_failure("no_mark")
    return [each for each in names if each != MARK]


def iter_chunks(name: str) -> Iterator[bytes]:
    """Yield the bytes of an object by its name; none if it was deleted meanwhile."""
    with (
        suppress(FileNotFoundError),
        _use_storage() as storage,
        storage.open(name) as file,
    ):
        yield from file.chunks()


@contextmanager
def _use_storage() -> Iterator[Any]:
    """Yield the storage, whose errors become ColdStorageError.

    Each storage has its own errors; all have FileNotFoundError, which passes.
    """
    try:
        yield storages[STORAGE]
    except FileNotFoundError:
        raise
    except Exception as failure:  # noqa: BLE001
        raise _note_failure(type(failure).__name__) from None


def _note_failure(code: str) -> ColdStorageError:
    log.warning("cold.failed", code=code)
    return ColdStorageError()


def _build_name(object_id: UUID) -> str:
    return f"{object_id.hex}.sealed"


def _save(storage: Any, name: str, content: bytes) -> str:
    """Save a file and return its name; a local file is on the disk then."""
    stored: str = storage.save(name, File(BytesIO(content)))
    try:
        path = storage.path(stored)
    except NotImplementedError:
        # Storages of other machines have no path.
        return stored
    for place in (path, os.path.dirname(path)):  # noqa: PTH120  # Django gives text
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return stored
