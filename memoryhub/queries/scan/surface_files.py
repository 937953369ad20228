"""Files that may hold memory: the data folder, logs, ledgers and temporary files.

Never writes. A scan reads the names of the files, too.
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

#: Bytes read at once.
CHUNK: Final = 1 << 20
#: Suffixes of SQLite's files besides the database itself.
SIDES: Final = ("-wal", "-shm", "-journal")
#: Files that SQLite, Django's uploads and our modules leave in the system's shared
#: folder for temporary files.
TEMPORARY: Final = ("etilqs_*", "*.upload*", "memoryhub*")

_READER = (
    "import shutil, sys\n"
    "with open(sys.argv[1], 'rb', 0) as file:\n"
    "    shutil.copyfileobj(file, sys.stdout.buffer, 1 << 20)\n"
)


def read(path: Path) -> Iterator[bytes]:
    """Yield the file's bytes; none if the file was deleted meanwhile."""
    with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            yield chunk


def read_in_subprocess(path: Path) -> Iterator[bytes]:
    """Yield the file's bytes as `read` does, read in a subprocess.

    Closing a file releases every lock that the process holds on the file (POSIX).
    SQLite needs these locks to keep its writers apart.
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


def get_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def list_sqlite_files(alias: str) -> list[Path]:
    """List the files of an SQLite database and its logs; empty for other engines."""
    connection = connections[alias]
    if connection.vendor != "sqlite":
        return []
    name = str(connection.settings_dict["NAME"])
    found = [Path(name), *(Path(f"{name}{side}") for side in SIDES)]
    return [path for path in found if path.is_file()]


def list_below(folder: Path | None, *, without: Iterable[Path] = ()) -> list[Path]:
    """List all files below the folder, except paths in `without` and below."""
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


def list_data_files() -> list[Path]:
    """List the data folder's files, without those that are surfaces of their own."""
    databases = [path for alias in connections for path in list_sqlite_files(alias)]
    apart = (settings.LEDGER, settings.BALLAST, settings.STATIC_ROOT, *databases)
    if (cold := settings.STORAGES["cold"]["OPTIONS"].get("location")) is not None:
        apart = (*apart, Path(cold))
    return list_below(settings.DATA_DIR, without=apart)


def list_ledgers() -> list[Path]:
    return [*list_below(settings.LEDGER), *list_below(settings.LEDGER_MIRROR)]


def list_logs() -> list[Path]:
    """List the files of the log folder, and files that this process prints to."""
    found = dict.fromkeys(list_below(settings.LOGS))
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            with suppress(OSError, ValueError):
                # Linux alone tells the path of an open file.
                path = Path(f"/proc/self/fd/{stream.fileno()}").readlink()
                if path.is_file():
                    found[path] = None
    return list(found)


def list_own_modules() -> list[Path]:
    """List our own modules, whose words are no content of subjects."""
    found = Path(__file__).parents[2].rglob("*.py")
    # Leave out examples: a client may use their made-up names.
    return sorted(path for path in found if not path.stem.endswith("examples"))


def list_temporary() -> list[Path]:
    folder = Path(tempfile.gettempdir())
    found = (path for pattern in TEMPORARY for path in folder.glob(pattern))
    return sorted(path for path in found if path.is_file() and not path.is_symlink())
