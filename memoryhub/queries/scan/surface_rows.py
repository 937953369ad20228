"""Values of the databases' rows, read by SQL. Never writes.

SQL returns a value whole, even if the file splits or compresses the value. Names of
tables and columns come from the database itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import connections, transaction
from django.db.models import Model

from memoryhub.models.privacy import Fate, Holds, Privacy, list_declared_models
from memoryhub.queries.scan.surface_kinds import SurfaceKind

#: Least bytes of a piece of joined values.
CHUNK: Final = 1 << 20
_ROWS: Final = 500
#: Fates of rows that an erasure takes. Rows that stay hold ids, counts and digests.
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
class TableQuery:
    """A query for all values of some columns of a table."""

    alias: str
    table: str
    query: str
    size: int
    kind: SurfaceKind


def list_tables(alias: str) -> list[TableQuery]:
    """List queries for every table of the database, declared or not.

    Includes this connection's temporary tables. Columns of names get queries of their
    own, since a client or the staff may use an erased name for something else.
    """
    declared = {
        model._meta.db_table: _map_column_kinds(model, privacy)
        for model, privacy in list_declared_models().items()
    }
    found = []
    columns = _COLUMNS[connections[alias].vendor]
    for (space, table), terms, size in columns(alias):
        place = f"{_quote_name(space)}.{_quote_name(table)}"
        parts: dict[SurfaceKind, list[str]] = {}
        for column, term in terms:
            kind = SurfaceKind.UNLISTED
            if space.startswith("pg_"):
                # A temporary table of this connection: probes are found by day, too.
                kind = SurfaceKind.TEMPORARY
            elif table in declared:
                kind = declared[table].get(column, SurfaceKind.ROWS)
            parts.setdefault(kind, []).append(term)
        for n, (kind, selected) in enumerate(parts.items()):
            # Quoted names out of the database's own catalogue.
            query = f"SELECT {', '.join(selected)} FROM {place}"  # noqa: S608
            rows = TableQuery(
                alias=alias,
                table=table,
                query=query,
                size=0 if n else size,
                kind=kind,
            )
            found.append(rows)
    return found


def _map_column_kinds(model: type[Model], privacy: Privacy) -> dict[str, SurfaceKind]:
    """Map the columns that hold clients' names or staff's titles to their kind."""
    fields = {field.name: field.column or "" for field in model._meta.concrete_fields}
    kinds = ((Holds.NAME, SurfaceKind.CALLED), (Holds.TITLE, SurfaceKind.STAFF))
    return {
        fields[name]: kind
        for name, holds in privacy.holds.items()
        for held, kind in kinds
        if holds & held
    }


#: (schema, table), its columns with the SQL term of each, and its size in bytes.
_Found = tuple[tuple[str, str], list[tuple[str, str]], int]


def _iter_postgres_tables(alias: str) -> Iterator[_Found]:
    tables: dict[tuple[str, str], tuple[list[tuple[str, str]], int]] = {}
    with connections[alias].cursor() as cursor:
        cursor.execute(_POSTGRES_COLUMNS)
        for space, table, column, raw, size in cursor.fetchall():
            # Citus's cursors refuse a mere cast of a column with a collation.
            term = _quote_name(column) if raw else f"{_quote_name(column)}::text || ''"
            terms, _ = tables.setdefault((space, table), ([], size))
            terms.append((column, term))
    for place, (terms, size) in tables.items():
        yield place, terms, size


def _iter_sqlite_tables(alias: str) -> Iterator[_Found]:
    """Yield SQLite's tables with size 0: the scan counts the database file's bytes."""
    tables: dict[str, list[tuple[str, str]]] = {}
    with connections[alias].cursor() as cursor:
        cursor.execute(_SQLITE_COLUMNS)
        for table, column in cursor.fetchall():
            tables.setdefault(table, []).append((column, _quote_name(column)))
    for table, terms in tables.items():
        yield ("main", table), terms, 0


_COLUMNS: Final = {"postgresql": _iter_postgres_tables, "sqlite": _iter_sqlite_tables}


def _quote_name(name: str) -> str:
    """Quote a name for SQL, whatever characters the name has."""
    return '"' + name.replace('"', '""') + '"'


def iter_values(rows: TableQuery) -> Iterator[bytes]:
    """Yield all values of the query, joined; constant memory by a chunked cursor."""
    return _join_pieces(_iter_rows(rows.alias, rows.query))


def iter_samples(alias: str) -> Iterator[bytes]:
    """Yield samples of values that PostgreSQL's planner keeps outside the tables."""
    return _join_pieces(_iter_rows(alias, _POSTGRES_SAMPLES))


def iter_schema(alias: str) -> Iterator[bytes]:
    """Yield the names of tables, columns and migrations."""
    if connections[alias].vendor == "postgresql":
        yield from _join_pieces(_iter_rows(alias, _POSTGRES_NAMES))
    else:
        yield from _join_pieces(
            _iter_rows(alias, "SELECT name, sql FROM sqlite_master")
        )
    yield from _join_pieces(
        _iter_rows(alias, "SELECT app, name FROM django_migrations")
    )


def list_erased_models() -> dict[type[Model], Privacy]:
    """Return the models whose rows of a subject an erasure takes."""
    return {
        model: privacy
        for model, privacy in list_declared_models().items()
        if privacy.subject is not None and privacy.forget in _GOES
    }


def iter_own_rows(
    model: type[Model],
    privacy: Privacy,
    *,
    subjects: Collection[UUID],
    threads: Collection[UUID],
) -> Iterator[bytes]:
    """Yield values left in the model's rows of these subjects and threads."""
    names = [name for name, holds in privacy.holds.items() if holds & _TELLING]
    rows = model._default_manager.values_list(*names)
    for ids, lookup in ((subjects, privacy.subject), (threads, privacy.thread)):
        if ids and lookup:
            left = rows.filter(**{f"{lookup}__in": list(ids)})
            yield from _join_pieces(left.iterator(_ROWS))


def _iter_rows(alias: str, query: str) -> Iterator[tuple[Any, ...]]:
    connection = connections[alias]
    with ExitStack() as stack:
        if connection.vendor == "postgresql":
            # A server-side cursor needs a transaction, which blocks writers on SQLite.
            stack.enter_context(transaction.atomic(using=alias))
            with connection.cursor() as cursor:
                # Lift the time limit of requests: a scan may read all rows.
                cursor.execute("SET LOCAL statement_timeout = 0")
        with connection.chunked_cursor() as cursor:
            cursor.execute(query)
            while rows := cursor.fetchmany(_ROWS):
                yield from rows


def _join_pieces(rows: Iterable[tuple[Any, ...]]) -> Iterator[bytes]:
    """Join the texts and bytes of rows into pieces, with a zero byte between values."""
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
