"""The SQL statements that every append and every turn sends, built once.

The ORM builds each statement anew and converts each value through four calls, which
costs more than sealing and chaining the event. Column names still come from the models.
See decision 3.
"""

from __future__ import annotations

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
OPEN_HOME = f't."home" AND t."status" = \'{Thread.Status.OPEN.value}\''
#: Beyond each seq: the largest integer of both databases.
_MAX_SEQ = 2**63 - 1
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
        return rows if is_postgres() else [self._to_texts(row) for row in rows]

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
        met = condition.format(f"({render_placeholders(chosen)})")
        parameters = [_to_parameter(each) for each in (*values, *chosen)]
        rows = run_select(f"{self.sql} WHERE {met}", parameters)
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
    table, place = model._meta.db_table, "ctid" if is_postgres() else "rowid"
    owned, values = f'"{column}" = %s', [to_uuid_parameter(owner)]
    if model in PER_THREAD and column != "thread_id":
        first = f'SELECT "thread_id" FROM "{table}" WHERE {owned} LIMIT 1'  # noqa: S608 # models' own names
        if not (threads := run_select(first, values)):
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
    if is_postgres():
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
        f'("project_id" = %s AND "name" IN ({render_placeholders(each)}))'
        for each in names.values()
    )
    values = [
        text
        for project in names
        for text in (to_uuid_parameter(project), *names[project])
    ]
    projects = {to_uuid_parameter(project): project for project in names}
    rows = run_select(
        'SELECT "id", "project_id", "name", "subject_id", "head_seq", "head_hash" '  # noqa: S608 # places only
        f'FROM "{Thread._meta.db_table}" WHERE {wanted} ORDER BY "id"'
        + (" FOR UPDATE" if locked and is_postgres() else ""),
        values,
    )
    return [
        (
            to_uuid(thread),
            projects[project],
            name,
            to_uuid(subject),
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
    rows = run_select(
        'SELECT s."id", s."state", s."epoch", s."tombstones", p."state", '  # noqa: S608 # places only
        'p."has_webhooks" '
        f'FROM "{Subject._meta.db_table}" s '
        f'JOIN "{Project._meta.db_table}" p ON p."id" = s."project_id" '
        f'WHERE s."id" IN ({render_placeholders(subjects)}) ORDER BY s."id"'
        + (" FOR SHARE OF s" if is_postgres() else ""),
        [to_uuid_parameter(subject) for subject in subjects],
    )
    return [
        (to_uuid(subject), *others, bool(webhooks))
        for subject, *others, webhooks in rows
    ]


def select_named_subjects(project: UUID, names: Collection[str]) -> list[UUID]:
    """Return the subjects of threads with these names, except anonymous subjects."""
    rows = run_select(
        f'SELECT t."subject_id" FROM "{Thread._meta.db_table}" t '  # noqa: S608 # places only
        f'JOIN "{Subject._meta.db_table}" s ON s."id" = t."subject_id" '
        f'WHERE t."project_id" = %s AND t."name" IN ({render_placeholders(names)}) '
        'AND NOT s."anonymous"',
        [to_uuid_parameter(project), *names],
    )
    return [to_uuid(subject) for (subject,) in rows]


def select_homes(subjects: Collection[UUID]) -> list[UUID]:
    """Return the home threads of subjects, except anonymous subjects."""
    rows = run_select(
        f'SELECT t."id" FROM "{Thread._meta.db_table}" t '  # noqa: S608 # places only
        f'JOIN "{Subject._meta.db_table}" s ON s."id" = t."subject_id" '
        f'WHERE t."subject_id" IN ({render_placeholders(subjects)}) AND {OPEN_HOME} '
        'AND NOT s."anonymous" ORDER BY t."id"',
        [*map(to_uuid_parameter, subjects)],
    )
    return [to_uuid(thread) for (thread,) in rows]


def select_events_at(places: Mapping[UUID, Sequence[int]]) -> list[EventTableRow]:
    """Return the events of threads at these seqs, in no order. One query, or none."""
    if not places:
        return []
    each = [
        f'("thread_id" = %s AND "seq" IN ({render_placeholders(seqs)}))'
        for seqs in places.values()
    ]
    values = [value for home, seqs in places.items() for value in (home, *seqs)]
    return EVENTS_READ.select(" OR ".join(each), *values)


def _build_exchange_sql() -> str:
    """Build the statement of `select_exchanges`, without the places.

    The ORM takes four times as long to build the statement as databases do to run it.
    """
    spoken = (
        f'SELECT m."seq" FROM "{Slot._meta.db_table}" m '  # noqa: S608 # models' own names
        'WHERE m."thread_id" = s."thread_id" AND m."struck_seq" IS NULL AND m."role" = '
    )
    begin = (
        f'({spoken}\'user\' AND m."index" <= s."index" ORDER BY m."index" DESC LIMIT 1)'
    )
    until = f'({spoken}\'user\' AND m."index" > s."index" ORDER BY m."index" LIMIT 1)'
    # A bound that is always there lets both databases walk the index from its end.
    answer = (
        f"({spoken}'assistant' AND m.\"seq\" > {begin} "
        f'AND m."seq" < COALESCE({until}, {_MAX_SEQ}) ORDER BY m."seq" DESC LIMIT 1)'
    )
    return (
        f'SELECT s."thread_id", s."seq", {begin}, {answer} '  # noqa: S608 # models' own names
        f'FROM "{Slot._meta.db_table}" s WHERE '
    )


def select_exchanges(
    places: Mapping[UUID, Sequence[int]],
) -> list[tuple[UUID, int, int | None, int | None]]:
    """Return (thread, seq, question, answer) of the messages at these seqs.

    The question is the user's last message up to a message, the answer the assistant's
    last one before the user's next; both are seqs, and neither is a struck message. One
    query, or none without places.
    """
    if not places:
        return []
    each = [
        f'(s."thread_id" = %s AND s."seq" IN ({render_placeholders(seqs)}))'
        for seqs in places.values()
    ]
    values = [
        value
        for home, seqs in places.items()
        for value in (to_uuid_parameter(home), *seqs)
    ]
    rows = run_select(_EXCHANGES + " OR ".join(each), values)
    return [(to_uuid(home), *seqs) for home, *seqs in rows]


def select_project_state(project: UUID) -> str:
    """Return the project's state; share-locked on PostgreSQL."""
    rows = run_select(
        f'SELECT "state" FROM "{Project._meta.db_table}" WHERE "id" = %s'  # noqa: S608 # models' own names
        + (" FOR SHARE" if is_postgres() else ""),
        [to_uuid_parameter(project)],
    )
    return "".join(state for (state,) in rows)


def select_events(
    thread: UUID, *, after: int, up_to: int, limit: int
) -> list[tuple[Any, ...]]:
    """Return (seq, type, at, actor, body, payload, erased_by, chain), oldest first."""
    rows = run_select(
        'SELECT "seq", "type", "at", "actor", "body", "payload", "erased_by", "chain" '  # noqa: S608 # places only
        f'FROM "{Event._meta.db_table}" WHERE "thread_id" = %s AND "seq" > %s '
        'AND "seq" <= %s ORDER BY "seq" LIMIT %s',
        [to_uuid_parameter(thread), after, up_to, limit],
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
    postgres = is_postgres()
    at = '"at"' if postgres else "\"at\" || '+00:00'"
    read = _to_time if postgres else datetime.fromisoformat
    rows = run_select(
        f'SELECT "seq", "type", {at}, "actor", "body", "chain" '  # noqa: S608 # places only
        f'FROM "{Event._meta.db_table}" WHERE "thread_id" = %s AND "seq" > %s '
        'AND "seq" <= %s ORDER BY "seq" LIMIT %s',
        [to_uuid_parameter(thread), after, up_to, limit],
    )
    return [
        FoldedRow(seq, kind, read(at), actor, body, chain)
        for seq, kind, at, actor, body, chain in rows
    ]


def select_chain(thread: UUID, seq: int) -> bytes | None:
    """Return the chain's digest at an event; None if there is no such event."""
    rows = run_select(
        f'SELECT "chain" FROM "{Event._meta.db_table}" '  # noqa: S608 # places only
        'WHERE "thread_id" = %s AND "seq" = %s',
        [to_uuid_parameter(thread), seq],
    )
    return bytes(rows[0][0]) if rows else None


def select_snapshot(
    thread: UUID, *, up_to: int, replay_format: int
) -> tuple[int, bytes] | None:
    """Return (seq, sealed) of the newest snapshot at or before a seq; None if none."""
    rows = run_select(
        f'SELECT "seq", "sealed" FROM "{Snapshot._meta.db_table}" '  # noqa: S608 # places only
        'WHERE "thread_id" = %s AND "seq" <= %s AND "replay_format" = %s '
        'ORDER BY "seq" DESC LIMIT 1',
        [to_uuid_parameter(thread), up_to, replay_format],
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
        for place in (to_uuid_parameter(thread), up_to)[: 2 if limit else 1]
    ]
    columns = ", ".join(
        own.format(what, model._meta.db_table, limit) for model, what, limit in counted
    )
    (found,) = run_select(f"SELECT {columns}", places)
    slots, turns, pages, evicted_pages, levels, *newest = found
    return RowCounts(
        slots, turns, pages, levels, evicted_pages, max(seq or 0 for seq in newest)
    )


def select_erased(
    threads: Collection[UUID], *, first: int, last: int
) -> list[tuple[UUID, int]]:
    """Return (thread, seq) of events in a span of seqs whose content was erased."""
    rows = run_select(
        f'SELECT "thread_id", "seq" FROM "{Event._meta.db_table}" '  # noqa: S608 # places only
        f'WHERE "thread_id" IN ({render_placeholders(threads)}) '
        'AND "seq" BETWEEN %s AND %s AND "erased_by" IS NOT NULL',
        [*map(to_uuid_parameter, threads), first, last],
    )
    return [(to_uuid(thread), seq) for thread, seq in rows]


def select_newest_pages(thread: UUID, *, up_to: int, limit: int) -> list[str]:
    """Return the ids of a thread's live pages, last changed first."""
    rows = run_select(
        f'SELECT "page_id" FROM "{Page._meta.db_table}" WHERE "thread_id" = %s '  # noqa: S608 # models' own names
        'AND "seq" <= %s AND "deleted_seq" IS NULL ORDER BY "seq" DESC LIMIT %s',
        [to_uuid_parameter(thread), up_to, limit],
    )
    return [page for (page,) in rows]


def run_select(sql: str, values: list[Any]) -> list[tuple[Any, ...]]:
    with connections["default"].cursor() as cursor:
        cursor.execute(sql, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def render_placeholders(values: Collection[object]) -> str:
    return ", ".join(["%s"] * len(values))


def is_postgres() -> bool:
    return connections["default"].vendor == "postgresql"


def _to_parameter(value: Any) -> Any:
    return to_uuid_parameter(value) if isinstance(value, UUID) else value


def to_uuid_parameter(value: UUID) -> UUID | str:
    return value if is_postgres() else value.hex


def _to_time(value: datetime | str) -> datetime:
    if isinstance(value, str):
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value.astimezone(UTC)


def to_uuid(value: UUID | str) -> UUID:
    return UUID(value) if isinstance(value, str) else value


#: Conversions of values that drivers return in another type than the models do.
_AS_READ: Mapping[type[Field[Any, Any]], Callable[[Any], Any]] = {
    UUIDField: to_uuid,
    DateTimeField: _to_time,
}

_EXCHANGES = _build_exchange_sql()

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
