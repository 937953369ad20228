"""Standing rows: one for each record that a thread holds now, so that it can be listed.

A noun declares a projection; what is written, rebuilt and verified follows from it.
What a row says follows from the journal alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet

from memoryhub.journal.rows.statements import Replace
from memoryhub.kernel.state.bodies import Event
from memoryhub.kernel.state.events import ThreadForked, ThreadRetired
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.threads import Thread

#: Rows named in one statement.
CHUNK = 500
_ENDED = (Thread.Status.RETIRED, Thread.Status.ERASED)

Row = TypeVar("Row", bound="tuple[Any, ...]")
#: Rows to put in the place of those there may be, by projection, by (thread, name);
#: None for one that is gone.
StandingRows: TypeAlias = dict[str, dict[tuple[UUID, Any], Any]]


def ended(state: ThreadState) -> bool:
    """Return whether nobody can read the thread: no list and no sweep has its rows."""
    return state.status in _ENDED


class Change(NamedTuple):
    """What an event did to a thread."""

    before: ThreadState
    event: Event
    after: ThreadState


def _as_made(rows: list[Row]) -> list[Row]:
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection(Generic[Row]):
    """What a noun declares of the rows that repeat its part of the state."""

    #: By which `verify` names a difference.
    word: str
    model: type[Model]
    #: The model's columns; `thread_id` is the first, the record's name the second.
    row: type[Row]
    #: Names of the records that a state holds.
    names: Callable[[ThreadState], Iterable[Any]]
    #: (state, name) → the row; None if there is no such record.
    made: Callable[[ThreadState, Any], Row | None]
    #: By event: names of what it may have changed. A fork begins with what its parent
    #: has, and a thread that ended has nothing; that needs no entry.
    touched: Mapping[type[Event], Callable[[Change], Iterable[Any]]]
    #: Adds what only the rows of events can say.
    completed: Callable[[list[Row]], list[Row]] = _as_made
    #: Adds to a stored row what it does not say, being from before a noun.
    filled: Callable[[Row], Row] = lambda row: row

    @property
    def name(self) -> str:
        """The column that tells the records of a thread apart."""
        return str(self.row._fields[1])  # type: ignore[attr-defined]  # a NamedTuple

    def rows(self, state: ThreadState) -> list[Row]:
        """Return all rows of a thread, by name. Queries are those of `completed`."""
        if ended(state):
            return []
        made = (self.made(state, name) for name in sorted(self.names(state)))
        return self.completed([row for row in made if row is not None])

    def stored(self, thread: UUID) -> list[Row]:
        """Return all rows of a thread as they are stored. One query."""
        return self.read(self.queryset(thread).order_by(self.name))

    def read(self, found: QuerySet[Model]) -> list[Row]:
        """Return these names' values as rows. One query."""
        fields: tuple[str, ...] = self.row._fields  # type: ignore[attr-defined]
        return [self.filled(self.row(*each)) for each in found.values_list(*fields)]

    def queryset(self, thread: UUID) -> QuerySet[Model]:
        """Return the stored rows of a thread."""
        return self.model._default_manager.filter(thread=thread)

    def write(self, rows: Mapping[tuple[UUID, Any], Row | None]) -> None:
        """Put rows in the place of those of their names, and take those of None."""
        there = [row for row in rows.values() if row is not None]
        if there:
            _statement(self.model, self.row).rows(self.completed(there))
        gone: dict[UUID, list[Any]] = {}
        for (thread, name), row in rows.items():
            if row is None:
                gone.setdefault(thread, []).append(name)
        for thread, names in gone.items():
            for start in range(0, len(names), CHUNK):
                chunk = {f"{self.name}__in": names[start : start + CHUNK]}
                self.queryset(thread).filter(**chunk).delete()


@cache
def _statement(model: type[Model], row: Any) -> Replace:
    return Replace(model, row, key=row._fields[:2], kept=())


def project(
    rows: StandingRows, projections: Iterable[Projection[Any]], change: Change
) -> None:
    """Add what an event leads to, given the states before and after it."""
    for each in projections:
        names = _touched(each, change)
        if names is None:
            continue
        there = rows.setdefault(each.word, {})
        thread, over = change.before.id, ended(change.after)
        for name in names:
            row = None if over else each.made(change.after, name)
            there[thread, name] = row


def _touched(each: Projection[Any], change: Change) -> Iterable[Any] | None:
    kind = type(change.event)
    if kind in (ThreadForked, ThreadRetired):
        return each.names(change.before)
    find = each.touched.get(kind)
    return None if find is None else find(change)
