"""The SQL statements that every append and every turn sends, built once.

The ORM builds each statement anew and converts each value through four calls, which
costs more than sealing and chaining the event. Column names still come from the models.
See decision 3.
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
    EventTableRow,
    EvictedPageRow,
    LevelRow,
    PageRow,
    SlotRow,
    TurnTableRow,
    WebhookQueueRow,
)
from memoryhub.models.assertions import Assertion
from memoryhub.models.derivations import Derivation
from memoryhub.models.events import Event, Snapshot
from memoryhub.models.pages import EvictedPage, Page, PageLevel
from memoryhub.models.per_thread import PER_THREAD
from memoryhub.models.projects import Project
from memoryhub.models.slots import Slot, Turn
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.models.webhooks import WebhookQueue
from memoryhub.models.working_memory import DueValue

#: Condition on threads, with the alias `t`.
_OPEN_HOME = f't."home" AND t."status" = \'{Thread.Status.OPEN.value}\''
#: Columns of an assertion from which its timeline is derived; times last.
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


def _to_hex(value: UUID) -> str:
    return value.hex


def _to_text(value: datetime) -> str:
    return str(value.astimezone(UTC).replace(tzinfo=None))


#: Conversions of values that SQLite stores as text, as Django does; PostgreSQL's driver
#: takes all values.
_AS_TEXT: Mapping[type[Field[Any, Any]], Callable[[Any], str]] = {
    UUIDField: _to_hex,
    DateTimeField: _to_text,
}


class Columns:
    """Columns of a statement, which convert values for the database's driver."""

    def __init__(self, fields: Sequence[Field[Any, Any]]) -> None:
        self.names = tuple(field.attname for field in fields)
        self.quoted = [f'"{field.column}"' for field in fields]
        self._texts = [
            (place, _AS_TEXT[kind])
            for place, field in enumerate(fields)
            if (kind := _get_field_type(field)) in _AS_TEXT
        ]

    def prepare(self, rows: Sequence[Values]) -> Sequence[Values]:
        """Convert rows for the driver; values beyond the columns stay unchanged."""
        return rows if _is_postgres() else [self._to_texts(row) for row in rows]

    def _to_texts(self, row: Values) -> Values:
        values = [*row]
        for place, convert in self._texts:
            if values[place] is not None:
                values[place] = convert(values[place])
        return values


def _get_field_type(field: Field[Any, Any]) -> type[Field[Any, Any]]:
    """Return the class of a field's values; for a reference that of its target."""
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

    def write(self, rows: Sequence[Values]) -> None:
        """Insert the rows, in one call."""
        if not rows:
            return
        with connections["default"].cursor() as cursor:
            cursor.executemany(self.sql, self.columns.prepare(rows))


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
            if (kind := _get_field_type(field)) in _AS_READ
        ]
        names, table = ", ".join(columns.quoted), model._meta.db_table
        self.sql = f'SELECT {names} FROM "{table}"'  # noqa: S608 # models' own names

    def select(self, condition: str, *values: Any, chosen: Values = ()) -> list[Row]:
        """Return rows that meet a condition; `{}` in it is for the `chosen` values.

        The other values come before the chosen ones.
        """
        met = condition.format(f"({_render_placeholders(chosen)})")
        parameters = [_to_parameter(each) for each in (*values, *chosen)]
        rows = _run_select(f"{self.sql} WHERE {met}", parameters)
        return [self._to_row(row) for row in rows]

    def _to_row(self, found: Values) -> Row:
        values = [*found]
        for place, convert in self._read:
            if values[place] is not None:
                values[place] = convert(values[place])
        row: Row = self._row(values)
        return row


class Replace(Insert):
    """An INSERT of rows that replace stored rows with the same key."""

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
    """An INSERT that adds its figures to those of the row with the same key."""

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

    def write(self, rows: Sequence[Any]) -> None:
        """Add the rows sorted by key, so that no two processes can deadlock."""
        super().write(sorted(rows, key=self._key))


class Move:
    """An UPDATE of some columns of threads whose head is still at the expected seq.

    Values of columns in `added` are added to the stored values.
    """

    def __init__(self, *names: str, added: Sequence[str] = ()) -> None:
        fields: list[Any] = [Thread._meta.get_field(name) for name in (*names, *added)]
        self.columns = Columns([*fields, Thread._meta.pk])
        values = [f"{column} = %s" for column in self.columns.quoted[: len(names)]]
        sums = [f"{c} = {c} + %s" for c in self.columns.quoted[len(names) : -1]]
        sets = ", ".join(values + sums)
        self.sql = (
            f'UPDATE "{Thread._meta.db_table}" SET {sets} '  # noqa: S608 # models' own names
            'WHERE "id" = %s AND "head_seq" = %s'
        )

    def update(self, moves: Sequence[Values]) -> int:
        """Update threads by (new values, thread id, expected head); return how many."""
        with connections["default"].cursor() as cursor:
            cursor.executemany(self.sql, self.columns.prepare(moves))
            moved: int = cursor.rowcount
            return moved


class Blank:
    """An UPDATE of events whose names are blanked, after their payloads were erased."""

    def __init__(self) -> None:
        names = ("body", "page", "erased_by", "thread", "seq")
        fields: list[Any] = [Event._meta.get_field(name) for name in names]
        self.columns = Columns(fields)
        self.sql = (
            f'UPDATE "{Event._meta.db_table}" SET "body" = %s, "page" = %s, '  # noqa: S608 # models' own names
            '"payload" = NULL, "erased_by" = COALESCE("erased_by", %s) '
            'WHERE "thread_id" = %s AND "seq" = %s'
        )

    def update(self, rows: Sequence[Values]) -> None:
        """Blank the events given as (body, page, erased_by, thread, seq)."""
        if rows:
            with connections["default"].cursor() as cursor:
                cursor.executemany(self.sql, self.columns.prepare(rows))


class Swap:
    """An UPDATE of payloads by the same payloads' references, or back."""

    def __init__(self) -> None:
        names = ("payload", "thread", "seq", "payload_digest")
        fields: list[Any] = [Event._meta.get_field(name) for name in names]
        self.columns = Columns(fields)
        self.sql = (
            f'UPDATE "{Event._meta.db_table}" SET "payload" = %s '  # noqa: S608 # models' own names
            'WHERE "thread_id" = %s AND "seq" = %s AND "payload_digest" = %s '
            'AND "payload" IS NOT NULL AND "erased_by" IS NULL'
        )

    def update(self, rows: Sequence[Values]) -> int:
        """Update rows by (payload, thread, seq, payload_digest); return how many."""
        if not rows:
            return 0
        with connections["default"].cursor() as cursor:
            cursor.executemany(self.sql, self.columns.prepare(rows))
            count: int = cursor.rowcount
            return count


def delete_batch(model: type[Model], column: str, owner: UUID, *, limit: int) -> int:
    """Delete at most `limit` rows of an owner; return how many.

    Rows that other threads have, of a model of `PER_THREAD`, go a thread at a time.
    """
    table, place = model._meta.db_table, "ctid" if _is_postgres() else "rowid"
    owned, values = f'"{column}" = %s', [_to_uuid_parameter(owner)]
    if model in PER_THREAD and column != "thread_id":
        first = f'SELECT "thread_id" FROM "{table}" WHERE {owned} LIMIT 1'  # noqa: S608 # models' own names
        if not (threads := _run_select(first, values)):
            return 0
        owned, values = f'{owned} AND "thread_id" = %s', [*values, *threads[0]]
    with connections["default"].cursor() as cursor:
        cursor.execute(
            # Twice: on a cluster a place names a row of one shard only.
            f'DELETE FROM "{table}" WHERE {place} IN (SELECT {place} '  # noqa: S608 # models' own names
            f'FROM "{table}" WHERE {owned} LIMIT %s) AND {owned}',
            [*values, limit, *values],
        )
        gone: int = cursor.rowcount
        return gone


def announce_removal(threads: Collection[UUID]) -> None:
    """Tell a cluster's triggers whose events the rest of the transaction may delete.

    Workers of a cluster cannot read that these threads are being imported.
    """
    if _is_postgres():
        with connections["default"].cursor() as cursor:
            # Citus passes on no other settings than those of SET LOCAL.
            cursor.execute("SET LOCAL citus.propagate_set_commands = 'local'")
            ids = ",".join(map(str, threads))
            cursor.execute(f"SET LOCAL memoryhub.removing = '{ids}'")


def select_heads(
    names: Mapping[UUID, Collection[str]], *, locked: bool
) -> list[tuple[UUID, UUID, str, UUID, int, bytes]]:
    """Return (thread, project, name, subject, head_seq, head_hash) for these names."""
    wanted = " OR ".join(
        f'("project_id" = %s AND "name" IN ({_render_placeholders(each)}))'
        for each in names.values()
    )
    values = [
        text
        for project in names
        for text in (_to_uuid_parameter(project), *names[project])
    ]
    projects = {_to_uuid_parameter(project): project for project in names}
    rows = _run_select(
        'SELECT "id", "project_id", "name", "subject_id", "head_seq", "head_hash" '  # noqa: S608 # places only
        f'FROM "{Thread._meta.db_table}" WHERE {wanted} ORDER BY "id"'
        + (" FOR UPDATE" if locked and _is_postgres() else ""),
        values,
    )
    return [
        (
            _to_uuid(thread),
            projects[project],
            name,
            _to_uuid(subject),
            seq,
            bytes(digest),
        )
        for thread, project, name, subject, seq, digest in rows
    ]


def select_subjects(
    subjects: Collection[UUID],
) -> list[tuple[UUID, str, int, int, str, bool]]:
    """Return (subject, state, epoch, tombstones, …), in id order.

    Then follow the state of its project, and whether the project has webhooks.

    PostgreSQL share-locks the subjects, but not the projects, since each new thread
    updates its project's row.
    """
    rows = _run_select(
        'SELECT s."id", s."state", s."epoch", s."tombstones", p."state", '  # noqa: S608 # places only
        'p."has_webhooks" '
        f'FROM "{Subject._meta.db_table}" s '
        f'JOIN "{Project._meta.db_table}" p ON p."id" = s."project_id" '
        f'WHERE s."id" IN ({_render_placeholders(subjects)}) ORDER BY s."id"'
        + (" FOR SHARE OF s" if _is_postgres() else ""),
        [_to_uuid_parameter(subject) for subject in subjects],
    )
    return [
        (_to_uuid(subject), *others, bool(webhooks))
        for subject, *others, webhooks in rows
    ]


def select_named_subjects(project: UUID, names: Collection[str]) -> list[UUID]:
    """Return the subjects of threads with these names, except anonymous subjects."""
    rows = _run_select(
        f'SELECT t."subject_id" FROM "{Thread._meta.db_table}" t '  # noqa: S608 # places only
        f'JOIN "{Subject._meta.db_table}" s ON s."id" = t."subject_id" '
        f'WHERE t."project_id" = %s AND t."name" IN ({_render_placeholders(names)}) '
        'AND NOT s."anonymous"',
        [_to_uuid_parameter(project), *names],
    )
    return [_to_uuid(subject) for (subject,) in rows]


def select_homes(subjects: Collection[UUID]) -> list[UUID]:
    """Return the home threads of subjects, except anonymous subjects."""
    rows = _run_select(
        f'SELECT t."id" FROM "{Thread._meta.db_table}" t '  # noqa: S608 # places only
        f'JOIN "{Subject._meta.db_table}" s ON s."id" = t."subject_id" '
        f'WHERE t."subject_id" IN ({_render_placeholders(subjects)}) AND {_OPEN_HOME} '
        'AND NOT s."anonymous" ORDER BY t."id"',
        [*map(_to_uuid_parameter, subjects)],
    )
    return [_to_uuid(thread) for (thread,) in rows]


def select_learnt(
    subject: UUID, records: Collection[tuple[UUID, int]]
) -> list[tuple[UUID, int, int]]:
    """Return (thread, seq, seq at home) of facts learnt from records.

    In the order in which the subject's home learnt them.
    """
    threads, seqs = {thread for thread, _ in records}, {seq for _, seq in records}
    rows = _select_learnt(subject, threads, seqs)
    found = [(_to_uuid(thread), *seqs) for _, thread, *seqs in rows]
    return [each for each in found if each[:2] in records]


def select_learnt_in(
    subject: UUID, threads: Collection[UUID]
) -> list[tuple[UUID, int, int]]:
    """Return (thread, seq, seq at home) of facts that may have ended.

    Only facts that the subject's home learnt from these threads. Such a fact was
    retracted, has an end, or shares its timeline with another assertion. One query
    where nothing was learnt, else two.
    """
    rows = _select_learnt(subject, threads)
    ended = _select_ended(rows[0][0], [row[3] for row in rows]) if rows else ()
    return [(_to_uuid(thread), *at) for _, thread, *at in rows if at[1] in ended]


def _select_learnt(
    subject: UUID, threads: Collection[UUID], seqs: Collection[int] = ()
) -> list[tuple[Any, ...]]:
    """Return (home, thread, seq, seq at home) of facts learnt from these threads."""
    among = f' AND d."source_seq" IN ({_render_placeholders(seqs)})' if seqs else ""
    return _run_select(
        'SELECT t."id", d."thread_id", d."source_seq", d."derived_seq" '  # noqa: S608 # places only
        f'FROM "{Thread._meta.db_table}" t JOIN "{Derivation._meta.db_table}" d '
        'ON d."derived_thread" = t."id" '
        f'WHERE t."subject_id" = %s AND {_OPEN_HOME} '
        f'AND d."thread_id" IN ({_render_placeholders(threads)}){among} '
        'ORDER BY d."derived_seq"',
        [_to_uuid_parameter(subject), *map(_to_uuid_parameter, threads), *seqs],
    )


def _select_ended(home: Any, seqs: Collection[int]) -> set[int]:
    """Return those of a home's assertions that may have ended."""
    table = f'"{Assertion._meta.db_table}"'
    chosen, values = _render_among(seqs)
    rows = _run_select(
        f'SELECT a."seq" FROM {table} a '  # noqa: S608 # models' own names
        f'WHERE a."thread_id" = %s AND a."seq" {chosen} '
        'AND (a."retracted_seq" IS NOT NULL OR a."valid_until" IS NOT NULL '
        f'OR EXISTS (SELECT 1 FROM {table} o WHERE o."thread_id" = a."thread_id" '
        'AND o."timeline" = a."timeline" AND o."seq" <> a."seq"))',
        [home, values],
    )
    return {seq for (seq,) in rows}


def _render_among(seqs: Collection[int]) -> tuple[str, Any]:
    """Return the condition that a seq is among these, and its one value."""
    if _is_postgres():
        return "= ANY(%s)", [*seqs]
    return "IN (SELECT value FROM json_each(%s))", json.dumps([*seqs])


def select_timelines(home: UUID, seqs: Collection[int]) -> list[tuple[Any, ...]]:
    """Return TIMELINE_COLUMNS of all rows of these assertions' timelines.

    Ordered by timeline and seq; `seqs` are of the home thread. Times are texts on
    SQLite.
    """
    postgres, table = _is_postgres(), f'"{Assertion._meta.db_table}"'
    chosen, values = _render_among(seqs)
    columns = [*TIMELINE_COLUMNS]
    if not postgres:
        # SQLite's driver spends most of the time on converting times.
        columns[-2:] = (f"\"{each}\" || '+00:00'" for each in columns[-2:])
    return _run_select(
        f"SELECT {', '.join(columns)} FROM {table} "  # noqa: S608 # models' own names
        f'WHERE "thread_id" = %s AND "timeline" IN (SELECT "timeline" FROM {table} '
        f'WHERE "thread_id" = %s AND "seq" {chosen} AND "cardinality" IS NULL) '
        'ORDER BY "timeline", "seq"',
        [_to_uuid_parameter(home), _to_uuid_parameter(home), values],
    )


def select_events_at(places: Mapping[UUID, Sequence[int]]) -> list[EventTableRow]:
    """Return the events of threads at these seqs, in no order. One query, or none."""
    if not places:
        return []
    each = [
        f'("thread_id" = %s AND "seq" IN ({_render_placeholders(seqs)}))'
        for seqs in places.values()
    ]
    values = [value for home, seqs in places.items() for value in (home, *seqs)]
    return EVENTS_READ.select(" OR ".join(each), *values)


def select_project_state(project: UUID) -> str:
    """Return the project's state; share-locked on PostgreSQL."""
    rows = _run_select(
        f'SELECT "state" FROM "{Project._meta.db_table}" WHERE "id" = %s'  # noqa: S608 # models' own names
        + (" FOR SHARE" if _is_postgres() else ""),
        [_to_uuid_parameter(project)],
    )
    return "".join(state for (state,) in rows)


def select_events(
    thread: UUID, *, after: int, up_to: int, limit: int
) -> list[tuple[Any, ...]]:
    """Return (seq, type, at, actor, body, payload, erased_by, chain), oldest first."""
    rows = _run_select(
        'SELECT "seq", "type", "at", "actor", "body", "payload", "erased_by", "chain" '  # noqa: S608 # places only
        f'FROM "{Event._meta.db_table}" WHERE "thread_id" = %s AND "seq" > %s '
        'AND "seq" <= %s ORDER BY "seq" LIMIT %s',
        [_to_uuid_parameter(thread), after, up_to, limit],
    )
    return [(*row[:2], _to_time(row[2]), *row[3:]) for row in rows]


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
    """Return the columns that a fold reads of the events after a seq, oldest first."""
    # SQLite's driver spends most of the time on converting times.
    postgres = _is_postgres()
    at = '"at"' if postgres else "\"at\" || '+00:00'"
    read = _to_time if postgres else datetime.fromisoformat
    rows = _run_select(
        f'SELECT "seq", "type", {at}, "actor", "body", "chain" '  # noqa: S608 # places only
        f'FROM "{Event._meta.db_table}" WHERE "thread_id" = %s AND "seq" > %s '
        'AND "seq" <= %s ORDER BY "seq" LIMIT %s',
        [_to_uuid_parameter(thread), after, up_to, limit],
    )
    return [
        FoldedRow(seq, kind, read(at), actor, body, chain)
        for seq, kind, at, actor, body, chain in rows
    ]


def select_chain(thread: UUID, seq: int) -> bytes | None:
    """Return the chain's digest at an event; None if there is no such event."""
    rows = _run_select(
        f'SELECT "chain" FROM "{Event._meta.db_table}" '  # noqa: S608 # places only
        'WHERE "thread_id" = %s AND "seq" = %s',
        [_to_uuid_parameter(thread), seq],
    )
    return bytes(rows[0][0]) if rows else None


def select_snapshot(
    thread: UUID, *, up_to: int, replay_format: int
) -> tuple[int, bytes] | None:
    """Return (seq, sealed) of the newest snapshot at or before a seq; None if none."""
    rows = _run_select(
        f'SELECT "seq", "sealed" FROM "{Snapshot._meta.db_table}" '  # noqa: S608 # places only
        'WHERE "thread_id" = %s AND "seq" <= %s AND "replay_format" = %s '
        'ORDER BY "seq" DESC LIMIT 1',
        [_to_uuid_parameter(thread), up_to, replay_format],
    )
    return (rows[0][0], bytes(rows[0][1])) if rows else None


class RowCounts(NamedTuple):
    """Numbers of rows that a thread has, and the newest seq of any row."""

    slots: int
    turns: int
    pages: int
    levels: int
    evicted_pages: int
    newest: int


def count_rows(thread: UUID, *, up_to: int) -> RowCounts:
    """Count rows of a thread's events up to a seq. One query.

    `newest` is the newest seq of all rows, beyond that seq too.
    """
    own = '(SELECT {} FROM "{}" WHERE "thread_id" = %s{})'
    counted = [
        *(
            (model, "COUNT(*)", ' AND "seq" <= %s')
            for model in (Slot, Turn, Page, EvictedPage)
        ),
        # A level's seq is the place of its text, which may be in another thread.
        (PageLevel, "COUNT(*)", ""),
        *((model, 'MAX("seq")', "") for model in (Event, Slot, Turn)),
    ]
    places: list[Any] = [
        place
        for _, _, limit in counted
        for place in (_to_uuid_parameter(thread), up_to)[: 2 if limit else 1]
    ]
    columns = ", ".join(
        own.format(what, model._meta.db_table, limit) for model, what, limit in counted
    )
    (found,) = _run_select(f"SELECT {columns}", places)
    slots, turns, pages, evicted_pages, levels, *newest = found
    return RowCounts(
        slots, turns, pages, levels, evicted_pages, max(seq or 0 for seq in newest)
    )


def select_erased(
    threads: Collection[UUID], *, first: int, last: int
) -> list[tuple[UUID, int]]:
    """Return (thread, seq) of events in a span of seqs whose content was erased."""
    rows = _run_select(
        f'SELECT "thread_id", "seq" FROM "{Event._meta.db_table}" '  # noqa: S608 # places only
        f'WHERE "thread_id" IN ({_render_placeholders(threads)}) '
        'AND "seq" BETWEEN %s AND %s AND "erased_by" IS NOT NULL',
        [*map(_to_uuid_parameter, threads), first, last],
    )
    return [(_to_uuid(thread), seq) for thread, seq in rows]


def select_newest_pages(thread: UUID, *, up_to: int, limit: int) -> list[str]:
    """Return the ids of a thread's live pages, last changed first."""
    rows = _run_select(
        f'SELECT "page_id" FROM "{Page._meta.db_table}" WHERE "thread_id" = %s '  # noqa: S608 # models' own names
        'AND "seq" <= %s AND "deleted_seq" IS NULL ORDER BY "seq" DESC LIMIT %s',
        [_to_uuid_parameter(thread), up_to, limit],
    )
    return [page for (page,) in rows]


def _run_select(sql: str, values: list[Any]) -> list[tuple[Any, ...]]:
    with connections["default"].cursor() as cursor:
        cursor.execute(sql, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def _render_placeholders(values: Collection[object]) -> str:
    return ", ".join(["%s"] * len(values))


def _is_postgres() -> bool:
    return connections["default"].vendor == "postgresql"


def _to_parameter(value: Any) -> Any:
    return _to_uuid_parameter(value) if isinstance(value, UUID) else value


def _to_uuid_parameter(value: UUID) -> UUID | str:
    return value if _is_postgres() else value.hex


def _to_time(value: datetime | str) -> datetime:
    if isinstance(value, str):
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value.astimezone(UTC)


def _to_uuid(value: UUID | str) -> UUID:
    return UUID(value) if isinstance(value, str) else value


#: Conversions of values that drivers return in another type than the models do.
_AS_READ: Mapping[type[Field[Any, Any]], Callable[[Any], Any]] = {
    UUIDField: _to_uuid,
    DateTimeField: _to_time,
}

EVENTS, SLOTS, TURNS, PAGES, LEVELS, EVICTED_PAGES, DUES, DERIVATIONS = (
    Insert(Event, EventTableRow),
    Insert(Slot, SlotRow),
    Insert(Turn, TurnTableRow),
    Insert(Page, PageRow),
    Insert(PageLevel, LevelRow),
    Insert(EvictedPage, EvictedPageRow),
    Insert(DueValue, DueRow),
    Insert(Derivation, DerivationRow),
)
#: Writes a page's row in place of the stored one, which keeps its own seq.
PAGE_CHANGES = Replace(Page, PageRow, key=("thread_id", "page_id"), kept=("seq",))
#: Moves only the head of a queue that is stored: the rest is the sender's.
WEBHOOK_QUEUES = Replace(
    WebhookQueue,
    WebhookQueueRow,
    key=("thread_id", "webhook"),
    kept=("sent_seq", "due_at", "failures"),
)
BLANKED = Blank()
SWAPPED = Swap()
EVENTS_READ, PAGES_READ, LEVELS_READ = (
    Select(Event, EventTableRow),
    Select(Page, PageRow),
    Select(PageLevel, LevelRow),
)
