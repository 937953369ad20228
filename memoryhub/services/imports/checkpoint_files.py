"""Databases of LangGraph's SQLite saver, opened for reading only.

The tables are those of langgraph-checkpoint-sqlite 3. No schema of the file is trusted:
the tables must be plain ones, and SQLite runs no function that the schema names.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from memoryhub.errors import InvalidError
from memoryhub.kernel.formats import format_langgraph
from memoryhub.kernel.formats.format_langgraph import GraphCheckpoint
from memoryhub.kernel.formats.records import BadRecord, TextPosition
from memoryhub.kernel.formats.transcripts import ImportOptions, Item, Omission

FORMAT: Final = "langgraph"
MAGIC: Final = b"SQLite format 3\0"

_TABLES = """SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0
    AND name IN ('checkpoints', 'writes')"""
_ROWS = """SELECT rowid, thread_id, type, length(checkpoint), metadata FROM checkpoints
    WHERE checkpoint_ns = '' ORDER BY thread_id, checkpoint_id"""
_PACKED = "SELECT checkpoint FROM checkpoints WHERE rowid = ?"
_LEFT_OUT = {
    "checkpoints.subgraph": """SELECT count(*) FROM checkpoints
        WHERE checkpoint_ns <> ''""",
    "writes": "SELECT count(*) FROM writes",
}


def read(
    path: Path,
    stack: ExitStack,
    *,
    options: ImportOptions,
    progress: Callable[[int], None],
) -> Iterator[Item]:
    """Return the file's items. Raises InvalidError if the file has no such tables.

    A file that turns out to be damaged ends with a final BadRecord.
    """
    try:
        database = stack.enter_context(closing(_connect(path)))
        tables = {name for (name,) in database.execute(_TABLES)}
    except sqlite3.Error:
        raise InvalidError(code="unknown_format") from None
    if tables != {"checkpoints", "writes"}:
        raise InvalidError(code="unknown_format")
    return _iter_items(database, options, progress)


def _connect(path: Path) -> sqlite3.Connection:
    """Open a database that nobody writes, or that a graph writes meanwhile."""
    # Without a log beside the file SQLite would leave new files there.
    has_log = path.with_name(path.name + "-wal").exists()
    how = "mode=ro" if has_log else "immutable=1"
    database = sqlite3.connect(f"file:{quote(str(path.absolute()))}?{how}", uri=True)
    database.setlimit(
        sqlite3.SQLITE_LIMIT_LENGTH, 2 * format_langgraph.LIMITS.max_bytes
    )
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA cell_size_check = ON")
    database.execute("BEGIN")
    return database


def _iter_items(
    database: sqlite3.Connection,
    options: ImportOptions,
    progress: Callable[[int], None],
) -> Iterator[Item]:
    try:
        yield from format_langgraph.read(_iter_rows(database, progress), options)
        counted = {
            name: database.execute(query).fetchone()[0]
            for name, query in _LEFT_OUT.items()
        }
    except sqlite3.Error:
        place = TextPosition(line=1, offset=0)
        yield BadRecord(code="damaged", place=place, final=True)
    else:
        yield Omission(parts={name: times for name, times in counted.items() if times})


def _iter_rows(
    database: sqlite3.Connection, progress: Callable[[int], None]
) -> Iterator[GraphCheckpoint]:
    """Yield the root graphs' checkpoints; `line` of a place is the row's number."""
    for number, thread_id, packing, length, metadata in database.execute(_ROWS):
        packed = None
        if isinstance(length, int) and length <= format_langgraph.LIMITS.max_bytes:
            (found,) = database.execute(_PACKED, (number,)).fetchone()
            packed = found if isinstance(found, bytes) else str(found).encode()
            progress(length)
        text = metadata if isinstance(metadata, bytes) else str(metadata or "").encode()
        yield GraphCheckpoint(
            thread_id=str(thread_id),
            packing=packing,
            packed=packed,
            metadata=text,
            place=TextPosition(line=number, offset=0),
        )
