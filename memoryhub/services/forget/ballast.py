"""Ballast: a file of reserved disk space, deleted when an erasure needs room.

A full disk must not stop an erasure: the file is deleted, the erasure goes on, and the
file is made again. The file's blocks are allocated, so the space is really reserved.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog
from django.conf import settings

log = structlog.get_logger()

_PIECE: Final = 1 << 20


def ensure_ballast() -> bool:
    """Ensure that the ballast exists in full; False if there is no room for the file.

    Deletes the file where the setting is 0, and replaces a file of another size.
    """
    path: Path = settings.BALLAST
    wanted: int = settings.BALLAST_BYTES
    if not wanted:
        path.unlink(missing_ok=True)
        return True
    if is_complete():
        return True
    path.unlink(missing_ok=True)
    try:
        _allocate_file(path, wanted)
    except OSError as failure:
        # Half a ballast would take others' room and be of little help.
        path.unlink(missing_ok=True)
        log.warning("ballast.failed", code=type(failure).__name__)
        return False
    return True


def is_complete() -> bool:
    """Return whether the ballast is allocated in full, or none is configured."""
    path: Path = settings.BALLAST
    wanted: int = settings.BALLAST_BYTES
    if not path.exists():
        return not wanted
    return bool(_measure_allocated(path) >= wanted == path.stat().st_size)


def release_ballast() -> bool:
    """Release the ballast; return False if it held no space."""
    path: Path = settings.BALLAST
    had = _measure_allocated(path) > 0
    path.unlink(missing_ok=True)
    return had


def _measure_allocated(path: Path) -> int:
    """Measure the bytes that the file takes on disk; a sparse file takes none."""
    with suppress(FileNotFoundError):
        found = path.stat()
        return found.st_blocks * 512 if hasattr(found, "st_blocks") else found.st_size
    return 0


def _allocate_file(path: Path, size: int) -> None:
    """Allocate a file of this size. Raises OSError."""
    # The system allocates all free space before it reports too little, and until then
    # no other process can write.
    if shutil.disk_usage(path.parent).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    path.touch(mode=0o600, exist_ok=False)
    with path.open("r+b", buffering=0) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            pieces = (min(_PIECE, size - start) for start in range(0, size, _PIECE))
            file.writelines(map(bytes, pieces))
        os.fsync(file.fileno())
