"""Files that may hold something: the data folder and what else we write or are given.

Never writes. Names of files are looked at as well as what they hold.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db import connections

#: Bytes that are read at once.
CHUNK: Final = 1 << 20
#: Of SQLite, besides the database itself.
SIDES: Final = ("-wal", "-shm", "-journal")
#: In the folder for temporary files, which is everybody's: what SQLite, Django's
#: uploads and our own modules would leave there.
TEMPORARY: Final = ("etilqs_*", "*.upload*", "memoryhub*")

_READER = (
    "import shutil, sys\n"
    "with open(sys.argv[1], 'rb', 0) as file:\n"
    "    shutil.copyfileobj(file, sys.stdout.buffer, 1 << 20)\n"
)


def read(path: Path) -> Iterator[bytes]:
    """Read what the file holds; nothing if it went meanwhile."""
    with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            yield chunk


def read_elsewhere(path: Path) -> Iterator[bytes]:
    """Read it as `read` does, in a process of its own.

    To close a file gives up every lock that the process has on it (POSIX), and with
    those SQLite keeps its writers apart.
    """
    command = [sys.executable, "-I", "-S", "-c", _READER, str(path)]
    # Our own interpreter, a text of ours and a path of ours; no shell.
    with subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        while chunk := process.stdout.read(CHUNK):
            yield chunk
    if process.returncode and path.exists():
        raise OSError(f"{path.name} can't be read")


def size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def sqlite_files(alias: str) -> list[Path]:
    """List the database's file and its logs, if it is one of SQLite."""
    connection = connections[alias]
    if connection.vendor != "sqlite":
        return []
    name = str(connection.settings_dict["NAME"])
    found = [Path(name), *(Path(f"{name}{side}") for side in SIDES)]
    return [path for path in found if path.is_file()]


def below(folder: Path | None, *, without: Iterable[Path] = ()) -> list[Path]:
    """List all files below the folder, but for those and what is below them."""
    if folder is None:
        return []
    if folder.is_file():
        return [folder]
    left_out = set(without)
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not path.is_symlink()
        and left_out.isdisjoint((path, *path.parents))
    )


def data() -> list[Path]:
    """List the data folder's, without databases, ledger, ballast and our styles."""
    databases = [path for alias in connections for path in sqlite_files(alias)]
    apart = (settings.LEDGER, settings.BALLAST, settings.STATIC_ROOT, *databases)
    return below(settings.DATA_DIR, without=apart)


def ledgers() -> list[Path]:
    return [*below(settings.LEDGER), *below(settings.LEDGER_MIRROR)]


def logs() -> list[Path]:
    """List the folder named for them, and files that this process prints to."""
    found = dict.fromkeys(below(settings.LOGS))
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            with suppress(OSError, ValueError):
                # Linux alone says which file an open one is.
                path = Path(f"/proc/self/fd/{stream.fileno()}").readlink()
                if path.is_file():
                    found[path] = None
    return list(found)


def own() -> list[Path]:
    """List our own modules: whatever stands there is a word of ours."""
    found = Path(__file__).parents[2].rglob("*.py")
    # Made-up names, which anybody may take for a first try.
    return sorted(path for path in found if not path.stem.endswith("examples"))


def temporary() -> list[Path]:
    folder = Path(tempfile.gettempdir())
    found = (path for pattern in TEMPORARY for path in folder.glob(pattern))
    return sorted(path for path in found if path.is_file() and not path.is_symlink())
