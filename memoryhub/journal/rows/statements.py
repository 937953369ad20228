"""The statements that every append and every turn sends, written once.

The ORM builds each statement anew and converts each value through four calls, which
costs more than sealing and chaining the event. Columns still come from the models.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from django.db import connections
from django.db.models import DateTimeField, Field, ForeignKey, Model, UUIDField

from memoryhub.journal.rows.rows import (
    DerivationRow,
    DueRow,
    EventRow,
    EvictedPageRow,
    LevelRow,
    PageRow,
    SlotRow,
    TurnRow,
)
from memoryhub.models.assertions import Assertion
from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event, Snapshot
from memoryhub.models.pages import EvictedPage, Page, PageLevel
from memoryhub.models.projects import Project
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import DueValue

#: Of threads `t`.
_OPEN_HOME = f't."home" AND t."status" = \'{Thread.Status.OPEN.value}\''
#: What of an assertion its timeline is derived by; times last.
TIMELINE_COLUMNS = (
    "timeline",
    "cardinality",
    "seq",
    "value",
    "confidence",
    "many",
    "origin",
    "retracted_seq",
    "wrong",
    "valid_from",
    "valid_until",
)
Values = Sequence[Any]
Row = TypeVar("Row", bound=tuple[Any, ...])


def _hex(value: UUID) -> str:
    return value.hex


def _text(value: datetime) -> str:
    return str(value.astimezone(UTC).replace(tzinfo=None))


#: What SQLite stores as text, as Django does; PostgreSQL's driver takes all values.
_AS_TEXT: Mapping[type[Field[Any, Any]], Callable[[Any], str]] = {
    UUIDField: _hex,
    DateTimeField: _text,
}


class Columns:
    """Values of some fields, as the database's driver wants them."""

    def __init__(self, fields: Sequence[Field[Any, Any]]) -> None:
        self.names = tuple(field.attname for field in fields)
        self.quoted = [f'"{field.column}"' for field in fields]
        self._texts = [
            (place, _AS_TEXT[kind])
            for place, field in enumerate(fields)
            if (kind := _kind(field)) in _AS_TEXT
        ]

    def prepared(self, rows: Sequence[Values]) -> Sequence[Values]:
        """Prepare rows for the driver; values beyond the columns stay as they are."""
        return rows if _postgres() else [self._as_text(row) for row in rows]

    def _as_text(self, row: Values) -> Values:
        values = [*row]
        for place, convert in self._texts:
            if values[place] is not None:
                values[place] = convert(values[place])
        return values


def _kind(field: Field[Any, Any]) -> type[Field[Any, Any]]:
    """The class of a field's values; a reference has those of what it refers to."""
    return type(field.target_field if isinstance(field, ForeignKey) else field)


class Insert:
    """An INSERT of whole rows of one model."""

    def __init__(self, model: type[Model], row: Any) -> None:
        self.columns = Columns([*model._meta.concrete_fields])
        assert row._fields == self.columns.names
        names = ", ".join(self.columns.quoted)
        places = ", ".join(["%s"] * len(self.columns.names))
        table = model._meta.db_table
        self.sql = f'INSERT INTO "{table}" ({names}) VALUES ({places})'  # noqa: S608 # models' own names

    def rows(self, rows: Sequence[Values]) -> None:
        """Insert them, in one call."""
        if not rows:
            return
        with connections["default"].cursor() as cursor:
            cursor.executemany(self.sql, self.columns.prepared(rows))


class Select(Generic[Row]):
    """A SELECT of whole rows of one model, by a condition that the caller writes."""

    def __init__(self, model: type[Model], row: type[Row]) -> None:
        fields = [*model._meta.concrete_fields]
        columns = Columns(fields)
        assert row._fields == columns.names  # type: ignore[attr-defined]
        self._row = row._make  # type: ignore[attr-defined]
        self._read = [
            (place, _AS_READ[kind])
            for place, field in enumerate(fields)
            if (kind := _kind(field)) in _AS_READ
        ]
        names, table = ", ".join(columns.quoted), model._meta.db_table
        self.sql = f'SELECT {names} FROM "{table}"'  # noqa: S608 # models' own names

    def where(self, condition: str, *values: Any, chosen: Values = ()) -> list[Row]:
        """Select what meets a condition, in which `{}` stands for those chosen from.

        The values come before them.
        """
        return [
            self._as_read(row)
            for row in _select(
                f"{self.sql} WHERE {condition.format(f'({_places(chosen)})')}",
                [_value(each) for each in (*values, *chosen)],
            )
        ]

    def _as_read(self, found: Values) -> Row:
        values = [*found]
        for place, convert in self._read:
            if values[place] is not None:
                values[place] = convert(values[place])
        row: Row = self._row(values)
        return row


class Replace(Insert):
    """An INSERT of rows that take the place of those with the same key."""

    def __init__(
        self,
        model: type[Model],
        row: Any,
        *,
        key: Collection[str],
        kept: Collection[str],
    ) -> None:
        super().__init__(model, row)
        stay = {*key, *kept}
        places = zip(self.columns.names, self.columns.quoted, strict=True)
        sets = [
            f"{each} = excluded.{each}" for name, each in places if name not in stay
        ]
        keys = ", ".join(f'"{each}"' for each in key)
        self.sql += f" ON CONFLICT ({keys}) DO UPDATE SET {', '.join(sets)}"


class Add(Insert):
    """An INSERT whose figures are added to those of the row with the same key."""

    def __init__(
        self,
        model: type[Model],
        row: Any,
        *,
        key: Sequence[str],
        figures: Collection[str],
        only: str = "",
    ) -> None:
        super().__init__(model, row)
        self._key = itemgetter(*map(self.columns.names.index, key))
        table = f'"{model._meta.db_table}"'
        sets = ", ".join(f'"{n}" = {table}."{n}" + excluded."{n}"' for n in figures)
        keys = ", ".join(f'"{name}"' for name in key)
        self.sql += f" ON CONFLICT ({keys}){only} DO UPDATE SET {sets}"

    def rows(self, rows: Sequence[Any]) -> None:
        """Add them in one order, in which no two can wait in a circle."""
        super().rows(sorted(rows, key=self._key))


class Move:
    """An UPDATE of some columns of threads whose head is where it was expected."""

    def __init__(self, *names: str) -> None:
        fields: list[Any] = [Thread._meta.get_field(name) for name in names]
        self.columns = Columns([*fields, Thread._meta.pk])
        sets = ", ".join(f"{column} = %s" for column in self.columns.quoted[:-1])
        self.sql = (
            f'UPDATE "{Thread._meta.db_table}" SET {sets} '  # noqa: S608 # models' own names
            'WHERE "id" = %s AND "head_seq" = %s'
        )

    def rows(self, moves: Sequence[Values]) -> int:
        """Move (new values, thread id, expected head) each; how many rows were."""
        with connections["default"].cursor() as cursor:
            cursor.executemany(self.sql, self.columns.prepared(moves))
            moved: int = cursor.rowcount
            return moved


class Blank:
    """An UPDATE of events whose names are blanked; their payloads are gone by then."""

    def __init__(self) -> None:
        names = ("body", "page", "erased_by", "thread", "seq")
        fields: list[Any] = [Event._meta.get_field(name) for name in names]
        self.columns = Columns(fields)
        self.sql = (
            f'UPDATE "{Event._meta.db_table}" SET "body" = %s, "page" = %s, '  # noqa: S608 # models' own names
            '"payload" = NULL, "erased_by" = COALESCE("erased_by", %s) '
            'WHERE "thread_id" = %s AND "seq" = %s'
        )

    def rows(self, rows: Sequence[Values]) -> None:
        """Blank the events given as (body, page, erased_by, thread, seq)."""
        if rows:
            with connections["default"].cursor() as cursor:
                cursor.executemany(self.sql, self.columns.prepared(rows))


def delete_batch(model: type[Model], column: str, owner: UUID, *, limit: int) -> int:
    """Delete at most so many rows of an owner; how many went."""
    table, place = model._meta.db_table, "ctid" if _postgres() else "rowid"
    with connections["default"].cursor() as cursor:
        cursor.execute(
            f'DELETE FROM "{table}" WHERE {place} IN (SELECT {place} '  # noqa: S608 # models' own names
            f'FROM "{table}" WHERE "{column}" = %s LIMIT %s)',
            [_uuid(owner), limit],
        )
        gone: int = cursor.rowcount
        return gone


def select_heads(
    names: Mapping[UUID, Collection[str]], *, locked: bool
) -> list[tuple[UUID, UUID, str, UUID, int, bytes]]:
    """Return (thread, project, name, subject, head_seq, head_hash) of these names."""
    wanted = " OR ".join(
        f'("project_id" = %s AND "name" IN ({_places(each)}))'
        for each in names.values()
    )
    values = [text for project in names for text in (_uuid(project), *names[project])]
    projects = {_uuid(project): project for project in names}
    rows = _select(
        'SELECT "id", "project_id", "name", "subject_id", "head_seq", "head_hash" '  # noqa: S608 # places only
        f'FROM "{Thread._meta.db_table}" WHERE {wanted} ORDER BY "id"'
        + (" FOR UPDATE" if locked and _postgres() else ""),
        values,
    )
    return [
        (
            _as_uuid(thread),
            projects[project],
            name,
            _as_uuid(subject),
            seq,
            bytes(digest),
        )
        for thread, project, name, subject, seq, digest in rows
    ]


def select_subjects(
    subjects: Collection[UUID],
) -> list[tuple[UUID, str, int, int, str]]:
    """Return (subject, state, epoch, tombstones, state of its project), in id order.

    Subjects are share-locked on PostgreSQL; projects are not, for each new thread
    moves its project's row.
    """
    rows = _select(
        'SELECT s."id", s."state", s."epoch", s."tombstones", p."state" '  # noqa: S608 # places only
        f'FROM "{Subject._meta.db_table}" s '
        f'JOIN "{Project._meta.db_table}" p ON p."id" = s."project_id" '
        f'WHERE s."id" IN ({_places(subjects)}) ORDER BY s."id"'
        + (" FOR SHARE OF s" if _postgres() else ""),
        [_uuid(subject) for subject in subjects],
    )
    return [(_as_uuid(subject), *others) for subject, *others in rows]


def select_named_subjects(project: UUID, names: Collection[str]) -> list[UUID]:
    """Return the subjects of threads of these names, but for nobody in particular."""
    rows = _select(
        f'SELECT t."subject_id" FROM "{Thread._meta.db_table}" t '  # noqa: S608 # places only
        f'JOIN "{Subject._meta.db_table}" s ON s."id" = t."subject_id" '
        f'WHERE t."project_id" = %s AND t."name" IN ({_places(names)}) '
        'AND NOT s."anonymous"',
        [_uuid(project), *names],
    )
    return [_as_uuid(subject) for (subject,) in rows]


def select_homes(subjects: Collection[UUID]) -> list[UUID]:
    """Return the home threads of subjects, but for nobody in particular."""
    rows = _select(
        f'SELECT t."id" FROM "{Thread._meta.db_table}" t '  # noqa: S608 # places only
        f'JOIN "{Subject._meta.db_table}" s ON s."id" = t."subject_id" '
        f'WHERE t."subject_id" IN ({_places(subjects)}) AND {_OPEN_HOME} '
        'AND NOT s."anonymous" ORDER BY t."id"',
        [*map(_uuid, subjects)],
    )
    return [_as_uuid(thread) for (thread,) in rows]


def select_learnt(
    subject: UUID, records: Collection[tuple[UUID, int]]
) -> list[tuple[UUID, int, int]]:
    """Return (thread, seq, seq at home) of what a subject's home learnt from records.

    In the order in which it was learnt.
    """
    threads, seqs = {thread for thread, _ in records}, {seq for _, seq in records}
    rows = _select(
        'SELECT d."thread_id", d."source_seq", d."derived_seq" '  # noqa: S608 # places only
        f'FROM "{Thread._meta.db_table}" t JOIN "{Derivation._meta.db_table}" d '
        'ON d."derived_thread" = t."id" '
        f'WHERE t."subject_id" = %s AND {_OPEN_HOME} '
        f'AND d."thread_id" IN ({_places(threads)}) '
        f'AND d."source_seq" IN ({_places(seqs)}) ORDER BY d."derived_seq"',
        [_uuid(subject), *map(_uuid, threads), *seqs],
    )
    found = [(_as_uuid(thread), *seqs) for thread, *seqs in rows]
    return [each for each in found if each[:2] in records]


def select_learnt_in(
    subject: UUID, threads: Collection[UUID]
) -> list[tuple[UUID, int, int]]:
    """Return the same of all records of these threads, of what may not hold any more.

    That was retracted, has an end, or shares its timeline with another assertion.
    """
    table = f'"{Assertion._meta.db_table}"'
    rows = _select(
        'SELECT d."thread_id", d."source_seq", d."derived_seq" '  # noqa: S608 # models' own names
        f'FROM "{Thread._meta.db_table}" t JOIN "{Derivation._meta.db_table}" d '
        f'ON d."derived_thread" = t."id" JOIN {table} a '
        'ON a."thread_id" = t."id" AND a."seq" = d."derived_seq" '
        f'WHERE t."subject_id" = %s AND {_OPEN_HOME} '
        f'AND d."thread_id" IN ({_places(threads)}) '
        'AND (a."retracted_seq" IS NOT NULL OR a."valid_until" IS NOT NULL '
        f'OR EXISTS (SELECT 1 FROM {table} o WHERE o."thread_id" = a."thread_id" '
        'AND o."timeline" = a."timeline" AND o."seq" <> a."seq")) '
        'ORDER BY d."derived_seq"',
        [_uuid(subject), *map(_uuid, threads)],
    )
    return [(_as_uuid(thread), *seqs) for thread, *seqs in rows]


def select_timelines(home: UUID, seqs: Collection[int]) -> list[tuple[Any, ...]]:
    """Return TIMELINE_COLUMNS of all rows of the timelines that assertions are of.

    By timeline and seq; `seqs` are of the home thread. Times are texts on SQLite.
    """
    postgres, table = _postgres(), f'"{Assertion._meta.db_table}"'
    chosen = "= ANY(%s)" if postgres else "IN (SELECT value FROM json_each(%s))"
    columns = [*TIMELINE_COLUMNS]
    if not postgres:
        # Its driver takes most of the time to make times of columns.
        columns[-2:] = (f"\"{each}\" || '+00:00'" for each in columns[-2:])
    return _select(
        f"SELECT {', '.join(columns)} FROM {table} "  # noqa: S608 # models' own names
        f'WHERE "thread_id" = %s AND "timeline" IN (SELECT "timeline" FROM {table} '
        f'WHERE "thread_id" = %s AND "seq" {chosen} AND "cardinality" IS NULL) '
        'ORDER BY "timeline", "seq"',
        [_uuid(home), _uuid(home), [*seqs] if postgres else json.dumps([*seqs])],
    )


def select_events_at(places: Mapping[UUID, Sequence[int]]) -> list[EventRow]:
    """Return the events of threads at these seqs, in no order. One query, or none."""
    if not places:
        return []
    each = [
        f'("thread_id" = %s AND "seq" IN ({_places(seqs)}))' for seqs in places.values()
    ]
    values = [value for home, seqs in places.items() for value in (home, *seqs)]
    return EVENTS_READ.where(" OR ".join(each), *values)


def select_project_state(project: UUID) -> str:
    """Return the project's state; share-locked on PostgreSQL."""
    rows = _select(
        f'SELECT "state" FROM "{Project._meta.db_table}" WHERE "id" = %s'  # noqa: S608 # models' own names
        + (" FOR SHARE" if _postgres() else ""),
        [_uuid(project)],
    )
    return "".join(state for (state,) in rows)


def select_events(
    thread: UUID, *, after: int, up_to: int, limit: int
) -> list[tuple[Any, ...]]:
    """Return (seq, type, at, actor, body, payload, erased_by, chain), oldest first."""
    rows = _select(
        'SELECT "seq", "type", "at", "actor", "body", "payload", "erased_by", "chain" '  # noqa: S608 # places only
        f'FROM "{Event._meta.db_table}" WHERE "thread_id" = %s AND "seq" > %s '
        'AND "seq" <= %s ORDER BY "seq" LIMIT %s',
        [_uuid(thread), after, up_to, limit],
    )
    return [(*row[:2], _as_time(row[2]), *row[3:]) for row in rows]


class FoldedRow(NamedTuple):
    """Columns of an event that a fold reads."""

    seq: int
    type: str
    at: datetime
    actor: str
    body: str
    chain: bytes


def select_folded(
    thread: UUID, *, after: int, up_to: int, limit: int
) -> list[FoldedRow]:
    """Return what a fold reads of the events after a seq, oldest first."""
    # SQLite's driver takes most of the time to make times of columns.
    postgres = _postgres()
    at = '"at"' if postgres else "\"at\" || '+00:00'"
    read = _as_time if postgres else datetime.fromisoformat
    rows = _select(
        f'SELECT "seq", "type", {at}, "actor", "body", "chain" '  # noqa: S608 # places only
        f'FROM "{Event._meta.db_table}" WHERE "thread_id" = %s AND "seq" > %s '
        'AND "seq" <= %s ORDER BY "seq" LIMIT %s',
        [_uuid(thread), after, up_to, limit],
    )
    return [
        FoldedRow(seq, kind, read(at), actor, body, chain)
        for seq, kind, at, actor, body, chain in rows
    ]


def select_chain(thread: UUID, seq: int) -> bytes | None:
    """Return the chain's digest at an event; None if there is no such event."""
    rows = _select(
        f'SELECT "chain" FROM "{Event._meta.db_table}" '  # noqa: S608 # places only
        'WHERE "thread_id" = %s AND "seq" = %s',
        [_uuid(thread), seq],
    )
    return bytes(rows[0][0]) if rows else None


def select_snapshot(
    thread: UUID, *, up_to: int, replay_format: int
) -> tuple[int, bytes] | None:
    """Return (seq, sealed) of the newest snapshot at or before a seq; None without."""
    rows = _select(
        f'SELECT "seq", "sealed" FROM "{Snapshot._meta.db_table}" '  # noqa: S608 # places only
        'WHERE "thread_id" = %s AND "seq" <= %s AND "replay_format" = %s '
        'ORDER BY "seq" DESC LIMIT 1',
        [_uuid(thread), up_to, replay_format],
    )
    return (rows[0][0], bytes(rows[0][1])) if rows else None


class RowCounts(NamedTuple):
    """What rows a thread has, and the newest seq that any of them has."""

    slots: int
    turns: int
    pages: int
    levels: int
    evicted_pages: int
    newest: int


def count_rows(thread: UUID, *, up_to: int) -> RowCounts:
    """Count rows of a thread's events up to a seq; `newest` is of all. One query."""
    own = '(SELECT {} FROM "{}" WHERE "thread_id" = %s{})'
    counted = [
        *(
            (model, "COUNT(*)", ' AND "seq" <= %s')
            for model in (Slot, Turn, Page, EvictedPage)
        ),
        # A level's seq is where its text stands, which may be another thread.
        (PageLevel, "COUNT(*)", ""),
        *((model, 'MAX("seq")', "") for model in (Event, Slot, Turn)),
    ]
    places: list[Any] = [
        place
        for _, _, limit in counted
        for place in (_uuid(thread), up_to)[: 2 if limit else 1]
    ]
    columns = ", ".join(
        own.format(what, model._meta.db_table, limit) for model, what, limit in counted
    )
    (found,) = _select(f"SELECT {columns}", places)
    slots, turns, pages, evicted_pages, levels, *newest = found
    return RowCounts(
        slots, turns, pages, levels, evicted_pages, max(seq or 0 for seq in newest)
    )


def select_erased(
    threads: Collection[UUID], *, first: int, last: int
) -> list[tuple[UUID, int]]:
    """Return (thread, seq) of events of a run of seqs that have lost their content."""
    rows = _select(
        f'SELECT "thread_id", "seq" FROM "{Event._meta.db_table}" '  # noqa: S608 # places only
        f'WHERE "thread_id" IN ({_places(threads)}) '
        'AND "seq" BETWEEN %s AND %s AND "erased_by" IS NOT NULL',
        [*map(_uuid, threads), first, last],
    )
    return [(_as_uuid(thread), seq) for thread, seq in rows]


def select_newest_pages(thread: UUID, *, up_to: int, limit: int) -> list[str]:
    """Return the ids of a thread's pages that are there, the last changed first."""
    rows = _select(
        f'SELECT "page_id" FROM "{Page._meta.db_table}" WHERE "thread_id" = %s '  # noqa: S608 # models' own names
        'AND "seq" <= %s AND "deleted_seq" IS NULL ORDER BY "seq" DESC LIMIT %s',
        [_uuid(thread), up_to, limit],
    )
    return [page for (page,) in rows]


def _select(sql: str, values: list[Any]) -> list[tuple[Any, ...]]:
    with connections["default"].cursor() as cursor:
        cursor.execute(sql, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def _places(values: Collection[object]) -> str:
    return ", ".join(["%s"] * len(values))


def _postgres() -> bool:
    return connections["default"].vendor == "postgresql"


def _value(value: Any) -> Any:
    return _uuid(value) if isinstance(value, UUID) else value


def _uuid(value: UUID) -> UUID | str:
    return value if _postgres() else value.hex


def _as_time(value: datetime | str) -> datetime:
    if isinstance(value, str):
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value.astimezone(UTC)


def _as_uuid(value: UUID | str) -> UUID:
    return UUID(value) if isinstance(value, str) else value


#: What the drivers do not hand out as the models' own.
_AS_READ: Mapping[type[Field[Any, Any]], Callable[[Any], Any]] = {
    UUIDField: _as_uuid,
    DateTimeField: _as_time,
}

EVENTS, SLOTS, TURNS, PAGES, LEVELS, EVICTED_PAGES, DUES, DERIVATIONS = (
    Insert(Event, EventRow),
    Insert(Slot, SlotRow),
    Insert(Turn, TurnRow),
    Insert(Page, PageRow),
    Insert(PageLevel, LevelRow),
    Insert(EvictedPage, EvictedPageRow),
    Insert(DueValue, DueRow),
    Insert(Derivation, DerivationRow),
)
#: A page's row in the place of the one that is there, which keeps its own seq.
PAGE_CHANGES = Replace(Page, PageRow, key=("thread_id", "page_id"), kept=("seq",))
BLANKED = Blank()
EVENTS_READ, PAGES_READ, LEVELS_READ = (
    Select(Event, EventRow),
    Select(Page, PageRow),
    Select(PageLevel, LevelRow),
)
