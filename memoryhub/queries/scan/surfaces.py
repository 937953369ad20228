"""Surfaces: everything that a scan looks through, each with its bytes.

Never writes. Names are those of places, never of what stands there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connections

from memoryhub.queries.scan import surface_files, surface_rows
from memoryhub.queries.scan.surface_rows import Part

ALIASES: Final = ("default", "keys")
#: Loaded by name where Redis is configured: it needs an extra.
REDIS: Final = "memoryhub.queries.scan.redis_values"


class Kind(StrEnum):
    """What sort of place it is; residue is declared by it."""

    #: SQLite's files.
    DATABASE = "database"
    WAL = "wal"
    JOURNAL = "journal"
    #: Values by SQL, in a table that a model declares or in one that none does; what
    #: clients call something, and what staff do, apart from the rest.
    CALLED = "called"
    STAFF = "staff"
    ROWS = "rows"
    UNLISTED = "unlisted"
    #: What is left of the subjects' own rows where nothing should be.
    HERS = "hers"
    SAMPLES = "samples"
    SCHEMA = "schema"
    #: PostgreSQL's own files, where they are given.
    SERVER_DATA = "server_data"
    SERVER_WAL = "server_wal"
    LOG = "log"
    LEDGER = "ledger"
    TEMPORARY = "temporary"
    FILE = "file"
    NAMES = "names"
    REDIS = "redis"


#: They grow with the memory: beyond a budget they wait for the night.
LARGE = frozenset(
    {
        *(Kind.DATABASE, Kind.WAL, Kind.CALLED, Kind.ROWS, Kind.UNLISTED),
        *(Kind.SAMPLES, Kind.SERVER_DATA, Kind.SERVER_WAL),
    }
)


_PARTS = {
    Part.NAMES: Kind.CALLED,
    Part.STAFF: Kind.STAFF,
    Part.REST: Kind.ROWS,
    Part.UNLISTED: Kind.UNLISTED,
}
_SIDES = {"-wal": Kind.WAL, "-shm": Kind.JOURNAL, "-journal": Kind.JOURNAL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """A place, and a way to every byte of it."""

    kind: Kind
    place: str
    size: int
    read: Callable[[], Iterator[bytes]]

    @property
    def large(self) -> bool:
        return self.kind in LARGE


def iter_surfaces(
    *,
    subjects: Collection[UUID] = (),
    threads: Collection[UUID] = (),
    data_directory: Path | None = None,
) -> Iterator[Surface]:
    """Everything there is to look through, small things first.

    `subjects` and `threads` are those of which nothing should be left.
    `data_directory` is PostgreSQL's, if it may be read.
    """
    yield from _files()
    if settings.REDIS_URL:
        yield _redis()
    for model, privacy in surface_rows.going().items():
        read = partial(
            surface_rows.iter_hers, model, privacy, subjects=subjects, threads=threads
        )
        yield Surface(kind=Kind.HERS, place=model._meta.label, size=0, read=read)
    for alias in ALIASES:
        yield from _database(alias)
    if data_directory is not None:
        yield from _server_files(data_directory)


def _files() -> Iterator[Surface]:
    found = {
        **dict.fromkeys(surface_files.data(), Kind.FILE),
        **dict.fromkeys(surface_files.temporary(), Kind.TEMPORARY),
        **dict.fromkeys(surface_files.ledgers(), Kind.LEDGER),
        **dict.fromkeys(surface_files.logs(), Kind.LOG),
    }
    names = "\0".join(map(str, found)).encode(errors="replace")
    yield _given(Kind.NAMES, "names of files", names)
    for path, kind in found.items():
        yield Surface(
            kind=kind,
            place=path.name,
            size=surface_files.size(path),
            read=partial(surface_files.read, path),
        )


def _given(kind: Kind, place: str, data: bytes) -> Surface:
    return Surface(kind=kind, place=place, size=len(data), read=lambda: iter([data]))


def _redis() -> Surface:
    values: Any = import_module(REDIS)
    return Surface(
        kind=Kind.REDIS,
        place="redis",
        size=0,
        read=partial(values.iter_values, settings.REDIS_URL),
    )


def _database(alias: str) -> Iterator[Surface]:
    """Its words and rows by SQL, and its own files where SQLite keeps them."""
    schema = partial(surface_rows.iter_schema, alias)
    yield Surface(kind=Kind.SCHEMA, place=alias, size=0, read=schema)
    if connections[alias].vendor == "postgresql":
        samples = partial(surface_rows.iter_samples, alias)
        yield Surface(kind=Kind.SAMPLES, place=alias, size=0, read=samples)
    for rows in surface_rows.list_tables(alias):
        yield Surface(
            # What is planted there must be found by day, too.
            kind=Kind.TEMPORARY if rows.temporary else _PARTS[rows.part],
            place=rows.table,
            size=rows.size,
            read=partial(surface_rows.iter_values, rows),
        )
    for path in surface_files.sqlite_files(alias):
        yield Surface(
            kind=_SIDES.get(path.name[path.name.rfind("-") :], Kind.DATABASE),
            place=path.name,
            size=surface_files.size(path),
            read=partial(surface_files.read_elsewhere, path),
        )


def _server_files(data_directory: Path) -> Iterator[Surface]:
    folders = {data_directory / "pg_wal": Kind.SERVER_WAL}
    for alias in ALIASES:
        if (oid := surface_rows.get_oid(alias)) is not None:
            folders[data_directory / "base" / str(oid)] = Kind.SERVER_DATA
    for folder, kind in folders.items():
        for path in surface_files.below(folder):
            yield Surface(
                kind=kind,
                place=f"{folder.name}/{path.name}",
                size=surface_files.size(path),
                read=partial(surface_files.read, path),
            )
