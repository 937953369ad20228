"""Ballast: room on the disk that is ours to give up when forgetting needs some.

A full disk must not keep anybody in memory: the file goes, the erasure goes on, and the
file is made again. It is really allocated, so that the room is there.
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


def make() -> bool:
    """Have the ballast stand there in full; False if there is no room for it.

    None is made where the setting is 0, and one of another size is made anew.
    """
    path: Path = settings.BALLAST
    wanted: int = settings.BALLAST_BYTES
    if not wanted:
        path.unlink(missing_ok=True)
        return True
    if standing():
        return True
    path.unlink(missing_ok=True)
    try:
        _allocate(path, wanted)
    except OSError as failure:
        # Half of it would be in the way of others and of little help.
        path.unlink(missing_ok=True)
        log.warning("ballast.failed", code=type(failure).__name__)
        return False
    return True


def standing() -> bool:
    """Tell whether it is there in full, or none is wanted."""
    path: Path = settings.BALLAST
    wanted: int = settings.BALLAST_BYTES
    if not path.exists():
        return not wanted
    return bool(_allocated(path) >= wanted == path.stat().st_size)


def release() -> bool:
    """Give its room back; False if there was none to give."""
    path: Path = settings.BALLAST
    had = _allocated(path) > 0
    path.unlink(missing_ok=True)
    return had


def _allocated(path: Path) -> int:
    """Return what the file takes on the disk; a sparse one takes nothing."""
    with suppress(FileNotFoundError):
        found = path.stat()
        return found.st_blocks * 512 if hasattr(found, "st_blocks") else found.st_size
    return 0


def _allocate(path: Path, size: int) -> None:
    # A disk gives all that it has left before it says that this is not enough, and for
    # that long nobody else can write.
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
