"""Current rows: one for each record that a thread holds now, for lists.

A noun declares a projection; writing, rebuilding and verifying follow from it. A row
depends on the journal alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet

from memoryhub.journal.rows.statements import Replace
from memoryhub.kernel.state.bodies import EventBody
from memoryhub.kernel.state.events import ThreadForked, ThreadRetired
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread

#: Rows named in one statement.
CHUNK = 500
_ENDED = (Thread.Status.RETIRED, Thread.Status.ERASED)

Row = TypeVar("Row", bound="tuple[Any, ...]")
#: Rows to write in place of stored ones, by projection, by (thread, name); None deletes
#: the stored row.
StandingRows: TypeAlias = dict[str, dict[tuple[UUID, Any], Any]]


def has_ended(state: ThreadState) -> bool:
    """Return whether nobody can read the thread; no list and no sweep has its rows.

    See decision 17.
    """
    return state.status in _ENDED


class StateChange(NamedTuple):
    """The change that an event made to a thread: the states before and after it."""

    before: ThreadState
    event: EventBody
    after: ThreadState


def _keep_rows(rows: list[Row]) -> list[Row]:
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection(Generic[Row]):
    """A noun's declaration of the rows that repeat its part of the state."""

    #: Word by which `verify` names a difference.
    word: str
    model: type[Model]
    #: The model's columns; `thread_id` is the first, the record's name the second.
    row: type[Row]
    #: Names of the records that a state holds.
    names: Callable[[ThreadState], Iterable[Any]]
    #: (state, name) → the row; None if there is no such record.
    build_row: Callable[[ThreadState, Any], Row | None]
    #: By event: names of the records that it may have changed. Two events need no
    #: entry: a fork begins with its parent's records, and an ended thread has none.
    changed_names: Mapping[type[EventBody], Callable[[StateChange], Iterable[Any]]]
    #: Adds columns that only the stored events can supply.
    complete_rows: Callable[[list[Row]], list[Row]] = _keep_rows
    #: Adds columns that a stored row lacks because it is older than a noun.
    fill_row: Callable[[Row], Row] = lambda row: row

    @property
    def name(self) -> str:
        """Name of the column that identifies a record within its thread."""
        return str(self.row._fields[1])  # type: ignore[attr-defined]  # a NamedTuple

    def build_rows(self, state: ThreadState) -> list[Row]:
        """Return all rows of a thread, by name. Queries: those of `complete_rows`."""
        if has_ended(state):
            return []
        made = (self.build_row(state, name) for name in sorted(self.names(state)))
        return self.complete_rows([row for row in made if row is not None])

    def list_stored(self, thread: UUID) -> list[Row]:
        """Return all stored rows of a thread. One query."""
        return self.read(self.filter_thread(thread).order_by(self.name))

    def read(self, found: QuerySet[Model]) -> list[Row]:
        """Return the queryset's values as rows. One query."""
        fields: tuple[str, ...] = self.row._fields  # type: ignore[attr-defined]
        return [self.fill_row(self.row(*each)) for each in found.values_list(*fields)]

    def filter_thread(self, thread: UUID) -> QuerySet[Model]:
        """Return the stored rows of a thread."""
        return self.model._default_manager.filter(thread=thread)

    def write(self, rows: Mapping[tuple[UUID, Any], Row | None]) -> None:
        """Write rows in place of stored ones; delete the stored rows given as None."""
        there = [row for row in rows.values() if row is not None]
        if there:
            _build_statement(self.model, self.row).write(self.complete_rows(there))
        gone: dict[UUID, list[Any]] = {}
        for (thread, name), row in rows.items():
            if row is None:
                gone.setdefault(thread, []).append(name)
        for thread, names in gone.items():
            for start in range(0, len(names), CHUNK):
                chunk = {f"{self.name}__in": names[start : start + CHUNK]}
                self.filter_thread(thread).filter(**chunk).delete()


@cache
def _build_statement(model: type[Model], row: Any) -> Replace:
    return Replace(model, row, key=row._fields[:2], kept=())


def project(
    rows: StandingRows, projections: Iterable[Projection[Any]], change: StateChange
) -> None:
    """Add the rows that an event leads to, given the states before and after it."""
    for each in projections:
        names = _list_changed(each, change)
        if names is None:
            continue
        there = rows.setdefault(each.word, {})
        thread, over = change.before.id, has_ended(change.after)
        for name in names:
            row = None if over else each.build_row(change.after, name)
            there[thread, name] = row


def _list_changed(each: Projection[Any], change: StateChange) -> Iterable[Any] | None:
    kind = type(change.event)
    if kind in (ThreadForked, ThreadRetired):
        return each.names(change.before)
    find = each.changed_names.get(kind)
    return None if find is None else find(change)
