"""Values of the databases' rows, as SQL gives them out.

Never writes. What stands in several pages of a file, compressed or out of line, is
whole here. Names of tables and columns come from the database itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import connections, transaction
from django.db.models import Model

from memoryhub.models.privacy import Fate, Holds, Privacy, tables
from memoryhub.queries.scan.surface_kinds import SurfaceKind

#: Values are looked through in pieces of this size.
CHUNK: Final = 1 << 20
_ROWS: Final = 500
#: What stays after forgetting holds ids, counts and digests: nothing to look for.
_GOES = (Fate.DELETED, Fate.NULLED, Fate.BLANKED, Fate.DESTROYED)
_TELLING = Holds.SEALED | Holds.NAME | Holds.DIGEST | Holds.ID | Holds.STAFF
_SQLITE_COLUMNS = """
    SELECT kind.name, a.name FROM sqlite_master kind, pragma_table_info(kind.name) a
     WHERE kind.type = 'table' AND kind.sql IS NOT NULL ORDER BY 1, a.cid
"""

_POSTGRES_COLUMNS = """
    SELECT space.nspname, kind.relname, a.attname, type.typname = 'bytea',
           pg_total_relation_size(kind.oid)
      FROM pg_class kind
      JOIN pg_namespace space ON space.oid = kind.relnamespace
      JOIN pg_attribute a ON a.attrelid = kind.oid AND a.attnum > 0
       AND NOT a.attisdropped
      JOIN pg_type type ON type.oid = a.atttypid
     WHERE kind.relkind IN ('r', 'm')
       AND (space.oid = pg_my_temp_schema() OR space.nspname !~ '^pg_')
       AND space.nspname <> 'information_schema'
       -- Numbers, truth values, times and ids of sixteen bytes can hold no target.
       AND type.typcategory NOT IN ('N', 'B', 'D', 'T') AND type.typname <> 'uuid'
     ORDER BY 1, 2, a.attnum
"""
#: ANALYZE keeps samples of values outside the tables.
_POSTGRES_SAMPLES = """
    SELECT most_common_vals::text, histogram_bounds::text, most_common_elems::text
      FROM pg_stats WHERE schemaname !~ '^pg_' AND schemaname <> 'information_schema'
"""
_POSTGRES_NAMES = """
    SELECT a.attname::text || ' ' || kind.relname || ' ' || space.nspname
      FROM pg_attribute a JOIN pg_class kind ON kind.oid = a.attrelid
      JOIN pg_namespace space ON space.oid = kind.relnamespace
     WHERE space.nspname !~ '^pg_'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Columns of a table, and how all that they hold is asked for."""

    alias: str
    table: str
    query: str
    size: int
    kind: SurfaceKind


def list_tables(alias: str) -> list[Rows]:
    """List every table of the database, ours or not; temporary ones of this connection.

    Columns of names apart from others: by them it is told who may call what so.
    """
    declared = {
        model._meta.db_table: _column_kinds(model, privacy)
        for model, privacy in tables().items()
    }
    found = []
    columns = _COLUMNS[connections[alias].vendor]
    for (space, table), terms, size in columns(alias):
        place = f"{_quoted(space)}.{_quoted(table)}"
        parts: dict[SurfaceKind, list[str]] = {}
        for column, term in terms:
            kind = SurfaceKind.UNLISTED
            if space.startswith("pg_"):
                # Of this connection alone: what is planted there is found by day, too.
                kind = SurfaceKind.TEMPORARY
            elif table in declared:
                kind = declared[table].get(column, SurfaceKind.ROWS)
            parts.setdefault(kind, []).append(term)
        for n, (kind, selected) in enumerate(parts.items()):
            # Out of the database's own catalogue, quoted.
            query = f"SELECT {', '.join(selected)} FROM {place}"  # noqa: S608
            rows = Rows(
                alias=alias,
                table=table,
                query=query,
                size=0 if n else size,
                kind=kind,
            )
            found.append(rows)
    return found


def _column_kinds(model: type[Model], privacy: Privacy) -> dict[str, SurfaceKind]:
    """Tell by column of a table what clients call something, and what staff do."""
    fields = {field.name: field.column or "" for field in model._meta.concrete_fields}
    kinds = ((Holds.NAME, SurfaceKind.CALLED), (Holds.TITLE, SurfaceKind.STAFF))
    return {
        fields[name]: kind
        for name, holds in privacy.holds.items()
        for held, kind in kinds
        if holds & held
    }


#: A schema and a table, its columns with how each is asked for, and its bytes.
_Found = tuple[tuple[str, str], list[tuple[str, str]], int]


def _of_postgres(alias: str) -> Iterator[_Found]:
    tables: dict[tuple[str, str], tuple[list[tuple[str, str]], int]] = {}
    with connections[alias].cursor() as cursor:
        cursor.execute(_POSTGRES_COLUMNS)
        for space, table, column, raw, size in cursor.fetchall():
            term = _quoted(column) if raw else f"{_quoted(column)}::text"
            terms, _ = tables.setdefault((space, table), ([], size))
            terms.append((column, term))
    for place, (terms, size) in tables.items():
        yield place, terms, size


def _of_sqlite(alias: str) -> Iterator[_Found]:
    """Its bytes are those of the file, which is looked through as well."""
    tables: dict[str, list[tuple[str, str]]] = {}
    with connections[alias].cursor() as cursor:
        cursor.execute(_SQLITE_COLUMNS)
        for table, column in cursor.fetchall():
            tables.setdefault(table, []).append((column, _quoted(column)))
    for table, terms in tables.items():
        yield ("main", table), terms, 0


_COLUMNS: Final = {"postgresql": _of_postgres, "sqlite": _of_sqlite}


def _quoted(name: str) -> str:
    """Quote any name, as Django does for names of ours."""
    return '"' + name.replace('"', '""') + '"'


def iter_values(rows: Rows) -> Iterator[bytes]:
    """Iterate over all values of the table; flat memory, by a server-side cursor."""
    return _pieces(_iter_rows(rows.alias, rows.query))


def iter_samples(alias: str) -> Iterator[bytes]:
    """Iterate over what PostgreSQL keeps of values outside the tables, to plan by."""
    return _pieces(_iter_rows(alias, _POSTGRES_SAMPLES))


def iter_schema(alias: str) -> Iterator[bytes]:
    """Iterate over names of tables, columns and migrations: words of ours."""
    if connections[alias].vendor == "postgresql":
        yield from _pieces(_iter_rows(alias, _POSTGRES_NAMES))
    else:
        yield from _pieces(_iter_rows(alias, "SELECT name, sql FROM sqlite_master"))
    yield from _pieces(_iter_rows(alias, "SELECT app, name FROM django_migrations"))


def going() -> dict[type[Model], Privacy]:
    """Return the models of which nothing of a subject stays once it is forgotten."""
    return {
        model: privacy
        for model, privacy in tables().items()
        if privacy.subject is not None and privacy.forget in _GOES
    }


def iter_own_rows(
    model: type[Model],
    privacy: Privacy,
    *,
    subjects: Collection[UUID],
    threads: Collection[UUID],
) -> Iterator[bytes]:
    """Iterate over what is left of these subjects' and threads' rows of the model."""
    names = [name for name, holds in privacy.holds.items() if holds & _TELLING]
    rows = model._default_manager.values_list(*names)
    for ids, lookup in ((subjects, privacy.subject), (threads, privacy.thread)):
        if ids and lookup:
            left = rows.filter(**{f"{lookup}__in": list(ids)})
            yield from _pieces(left.iterator(_ROWS))


def _iter_rows(alias: str, query: str) -> Iterator[tuple[Any, ...]]:
    connection = connections[alias]
    with ExitStack() as stack:
        if connection.vendor == "postgresql":
            # Where a cursor of the server lives. SQLite's would keep writers out.
            stack.enter_context(transaction.atomic(using=alias))
            with connection.cursor() as cursor:
                # A request would be bounded; this may read everything there is.
                cursor.execute("SET LOCAL statement_timeout = 0")
        with connection.chunked_cursor() as cursor:
            cursor.execute(query)
            while rows := cursor.fetchmany(_ROWS):
                yield from rows


def _pieces(rows: Iterable[tuple[Any, ...]]) -> Iterator[bytes]:
    """Join the texts and bytes of these rows, a zero between them."""
    held: list[bytes] = []
    length = 0
    for row in rows:
        for value in row:
            plain = value.encode() if isinstance(value, str) else value
            if isinstance(plain, bytes | memoryview) and plain:
                held.append(bytes(plain))
                length += len(plain) + 1
        if length >= CHUNK:
            yield b"\0".join([*held, b""])
            held, length = [], 0
    if held:
        yield b"\0".join(held)
