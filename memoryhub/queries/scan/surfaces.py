"""Surfaces: all places that a scan reads, each with a reader of its bytes.

Never writes. `place` names the place and never its content. See decision 32.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connections

from memoryhub.errors import ColdStorageError
from memoryhub.models.cold import ColdObject
from memoryhub.queries.scan import surface_files, surface_rows
from memoryhub.queries.scan.surface_kinds import LARGE, SurfaceKind
from memoryhub.vault.keys import cold_payloads

ALIASES: Final = ("default", "keys")
#: Loaded by name where Redis is configured: it needs an extra.
REDIS: Final = "memoryhub.queries.scan.redis_values"


_SIDES = {
    "-wal": SurfaceKind.WAL,
    "-shm": SurfaceKind.JOURNAL,
    "-journal": SurfaceKind.JOURNAL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """A place, with a reader of all its bytes."""

    kind: SurfaceKind
    place: str
    read: Callable[[], Iterator[bytes]]
    size: int = 0

    @property
    def large(self) -> bool:
        return self.kind in LARGE


def iter_surfaces(
    *, subjects: Collection[UUID] = (), threads: Collection[UUID] = ()
) -> Iterator[Surface]:
    """Yield all surfaces, small surfaces first.

    `subjects` and `threads` are erased: nothing of them should be left.
    """
    yield from _iter_files()
    if settings.REDIS_URL:
        values: Any = import_module(REDIS)
        read = partial(values.iter_values, settings.REDIS_URL)
        yield Surface(kind=SurfaceKind.REDIS, place="redis", read=read)
    yield from _iter_cold_objects()
    left = partial(surface_rows.iter_own_rows, subjects=subjects, threads=threads)
    for model, privacy in surface_rows.list_erased_models().items():
        read, place = partial(left, model, privacy), model._meta.label
        yield Surface(kind=SurfaceKind.OWN_ROWS, place=place, read=read)
    for alias in ALIASES:
        yield from _iter_database(alias)


def _iter_files() -> Iterator[Surface]:
    found = {
        **dict.fromkeys(surface_files.list_data_files(), SurfaceKind.FILE),
        **dict.fromkeys(surface_files.list_temporary(), SurfaceKind.TEMPORARY),
        **dict.fromkeys(surface_files.list_ledgers(), SurfaceKind.LEDGER),
        **dict.fromkeys(surface_files.list_logs(), SurfaceKind.LOG),
    }
    names = "\0".join(map(str, found)).encode(errors="replace")
    yield Surface(
        kind=SurfaceKind.NAMES,
        place="names of files",
        size=len(names),
        read=lambda: iter([names]),
    )
    for path, kind in found.items():
        yield _build_file(path, kind, surface_files.read)


def _iter_cold_objects() -> Iterator[Surface]:
    """Yield every object in cold storage, known to the tables or not.

    A storage that does not answer is one surface that can't be read.
    """
    sizes = {
        f"{each.hex}.sealed": size
        for each, size in ColdObject.objects.values_list("id", "bytes")
    }
    try:
        names = cold_payloads.list_names(new=not sizes)
    except ColdStorageError as failure:
        read = partial(_raise_failure, failure)
        yield Surface(kind=SurfaceKind.COLD, place="storage", read=read)
        return
    for name in names:
        read = partial(cold_payloads.iter_chunks, name)
        size = sizes.get(name, 0)
        yield Surface(kind=SurfaceKind.COLD, place=name, read=read, size=size)


def _raise_failure(failure: ColdStorageError) -> Iterator[bytes]:
    raise failure


def _build_file(
    path: Path, kind: SurfaceKind, read: Callable[[Path], Iterator[bytes]]
) -> Surface:
    size = surface_files.get_size(path)
    return Surface(kind=kind, place=path.name, size=size, read=partial(read, path))


def _iter_database(alias: str) -> Iterator[Surface]:
    """Yield a database's schema and rows by SQL, and SQLite's files."""
    schema = partial(surface_rows.iter_schema, alias)
    yield Surface(kind=SurfaceKind.SCHEMA, place=alias, read=schema)
    if connections[alias].vendor == "postgresql":
        samples = partial(surface_rows.iter_samples, alias)
        yield Surface(kind=SurfaceKind.SAMPLES, place=alias, read=samples)
    for rows in surface_rows.list_tables(alias):
        read = partial(surface_rows.iter_values, rows)
        yield Surface(kind=rows.kind, place=rows.table, size=rows.size, read=read)
    for path in surface_files.list_sqlite_files(alias):
        kind = _SIDES.get(path.name[path.name.rfind("-") :], SurfaceKind.DATABASE)
        yield _build_file(path, kind, surface_files.read_in_subprocess)
