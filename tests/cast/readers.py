"""Readers in processes of their own: of rows, who do not end, and of bare files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections

from memoryhub.queries.scan import surface_files

_SQLITE = """
import sqlite3, sys
reader = sqlite3.connect(sys.argv[1], isolation_level=None)
reader.execute("BEGIN DEFERRED")
reader.execute("SELECT COUNT(*) FROM " + sys.argv[2]).fetchone()
print("reads", flush=True)
sys.stdin.read()
"""
_POSTGRES = """
import psycopg, sys
with psycopg.connect(sys.argv[1], autocommit=True) as reader:
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    reader.execute("SELECT COUNT(*) FROM " + sys.argv[2]).fetchone()
    print("reads", flush=True)
    sys.stdin.read()
"""


@contextmanager
def hold_snapshot(
    *, alias: str = "default", table: str = "memoryhub_event"
) -> Iterator[None]:
    """Let another process see the database as of now while the block lasts."""
    connection = connections[alias]
    if connection.vendor == "sqlite":
        code, where = _SQLITE, str(connection.settings_dict["NAME"])
    else:
        code, where = _POSTGRES, address(connection)
    with subprocess.Popen(
        [sys.executable, "-c", code, where, table],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "reads\n"
        try:
            yield
        finally:
            reader.communicate()
        assert reader.returncode == 0


def files_with(needle: bytes, *, alias: str = "default") -> list[str]:
    """Return the SQLite database's files that hold these bytes, by their suffix.

    Another process reads them: closing them here would give up this process's locks.
    """
    paths = surface_files.list_sqlite_files(alias)
    assert paths
    first = paths[0].name
    return [
        path.name.removeprefix(first)
        for path in paths
        if needle in b"".join(surface_files.read_in_subprocess(path))
    ]


def address(connection: Any) -> str:
    """Return the connection string of the same database for another process."""
    given = connection.get_connection_params()
    names = {"dbname", "host", "port", "user", "password"}
    return " ".join(f"{name}={given[name]}" for name in names & given.keys())
