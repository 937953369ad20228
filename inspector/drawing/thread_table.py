"""The table of threads: columns, headings and rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from inspector.drawing import summaries
from inspector.drawing.scenes import Context, ThreadScene
from memoryhub.models.threads import Thread
from memoryhub.queries.overview import unhealthy
from memoryhub.queries.overview.onsets import VerdictOnset
from memoryhub.queries.threads import last_messages, verdicts
from memoryhub.queries.threads.last_messages import LastMessage
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.queries.threads.thresholds import Thresholds
from memoryhub.queries.threads.verdicts import ThreadVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column of the table: name, label, and the order that sorts by it."""

    name: str
    label: str
    #: The glossary's term that the label explains, if any.
    word: str = ""
    sort: str = ""
    numeric: bool = False


#: The first column, which is always shown.
THREAD = TableColumn(name="thread", label="Thread", sort="name")
#: Start of the problem searched for; shown while a search names a problem.
SINCE = TableColumn(name="since", label="Since")
#: The other columns in their order.
COLUMNS = (
    TableColumn(name="status", label="Status"),
    TableColumn(name="health", label="Health"),
    SINCE,
    TableColumn(name="last", label="Last message"),
    TableColumn(
        name="rate",
        label="Resident rate",
        word="resident rate",
        sort="rate",
        numeric=True,
    ),
    TableColumn(
        name="hits",
        label="TLB hit rate",
        word="TLB hit rate",
        numeric=True,
    ),
    TableColumn(
        name="faults", label="Faults", word="fault", sort="faults", numeric=True
    ),
    TableColumn(name="slots", label="Slots", word="slot", sort="slots", numeric=True),
    TableColumn(name="turns", label="Turns", word="turn", sort="turns", numeric=True),
    TableColumn(name="tokens", label="Tokens", sort="tokens", numeric=True),
    TableColumn(name="packed", label="Packed", sort="packed", numeric=True),
    TableColumn(name="room", label="of budget"),
    TableColumn(name="created", label="Created", sort="created", numeric=True),
    TableColumn(name="event", label="Last event", sort="active", numeric=True),
    TableColumn(name="scope", label="Person and scope"),
    TableColumn(name="labels", label="Labels"),
)
NAMES = tuple(column.name for column in COLUMNS if column is not SINCE)
#: Columns shown unless the operator chooses others.
DEFAULT_COLUMNS = ("health", "last", "rate", "turns", "room", "event")
#: Columns shown by default while a search names a problem.
PROBLEM_COLUMNS = ("health", SINCE.name, "last", "rate", "turns", "event")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRow:
    """A thread as a row of the table shows it."""

    line: ThreadLine
    verdicts: tuple[ThreadVerdict, ...]
    last: LastMessage | None
    #: The beginning of the last message; empty without a message to show.
    preview: str
    #: Start of each problem by flag; empty when not asked for.
    onsets: Mapping[str, VerdictOnset] = field(default_factory=dict)

    @property
    def since(self) -> Sequence[tuple[ThreadVerdict, VerdictOnset]]:
        """List the thread's problems whose start is known, with the start."""
        # The thread's own counters do not record refused fetches.
        flags = {"refused", *(each.flag for each in self.verdicts)}
        return [
            (each, onset)
            for each in verdicts.VERDICTS
            if each.flag in flags
            if (onset := self.onsets.get(each.flag)) and onset.at
        ]

    @property
    def measured(self) -> bool:
        """Tell whether there were enough exchanges to call the thread healthy."""
        return self.line.exchanges >= verdicts.ENOUGH_EXCHANGES


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnHeading:
    """The heading of a column, with the link that sorts the list by the column."""

    column: TableColumn
    #: The query that sorts by the column, or reverses its order; empty for none.
    query: str = ""
    #: `ascending` or `descending` if the list is sorted by the column; else empty.
    order: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTable:
    """Rows of threads and the headings above the rows."""

    rows: tuple[ThreadRow, ...]
    headings: tuple[ColumnHeading, ...]
    #: Names of visible columns; the HTML holds all columns.
    columns: tuple[str, ...]
    #: Threads whose content the table shows.
    read: tuple[Thread, ...]


def build_table(
    lines: Sequence[ThreadLine],
    *,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    headings: Mapping[str, ColumnHeading] | None = None,
    onsets: Mapping[UUID, Mapping[str, VerdictOnset]] | None = None,
    limits: Thresholds,
) -> ThreadTable:
    """Build the table of these threads. Two queries, for any number of threads."""
    rows = build_rows(lines, limits=limits, onsets=onsets)
    named = headings or {}
    return ThreadTable(
        rows=rows,
        headings=tuple(
            named.get(column.name, ColumnHeading(column=column))
            for column in (THREAD, *COLUMNS)
        ),
        columns=tuple(columns),
        read=tuple(row.last.thread for row in rows if row.last is not None),
    )


def build_rows(
    lines: Iterable[ThreadLine],
    *,
    limits: Thresholds,
    onsets: Mapping[UUID, Mapping[str, VerdictOnset]] | None = None,
) -> tuple[ThreadRow, ...]:
    """Build the rows of these threads. Two queries, for any number of threads."""
    since = onsets or {}
    found = tuple(lines)
    newest = {line.id: line.slots - 1 for line in found if line.slots}
    last = last_messages.list_last(newest)
    return tuple(
        _build_row(line, limits, last.get(line.id), since.get(line.id, {}))
        for line in found
    )


def build_row_context(scene: ThreadScene) -> Context:
    """Build the context of the row that is pushed. Three queries."""
    project, line = scene.thread.project, ThreadLine.from_row(scene.thread)
    onsets, limits = unhealthy.get_onsets(project.id), Thresholds.from_project(project)
    (row,) = build_rows([line], limits=limits, onsets=onsets)
    return {"row": row}


def _build_row(
    line: ThreadLine,
    limits: Thresholds,
    last: LastMessage | None,
    onsets: Mapping[str, VerdictOnset],
) -> ThreadRow:
    return ThreadRow(
        line=line,
        verdicts=verdicts.find_in_line(line, limits),
        last=last,
        preview=summaries.cut_to_preview(last.content) if last else "",
        onsets=onsets,
    )
