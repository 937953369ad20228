"""The table of threads: columns, headings and rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from inspector.drawing import first_words, summaries
from inspector.drawing.scenes import Context, ThreadScene
from memoryhub.models.threads import Thread
from memoryhub.queries.overview import unhealthy
from memoryhub.queries.overview.onsets import VerdictOnset
from memoryhub.queries.threads import last_messages, verdicts
from memoryhub.queries.threads.last_messages import LastMessage
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.queries.threads.thresholds import Thresholds
from memoryhub.queries.threads.verdicts import ThreadVerdict

#: Names that end with a UUID, and so tell people nothing.
_UUID_NAME = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)
#: Characters shown of a first message in place of such a name.
_WORDS = 60


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
    TableColumn(name="room", label="Budget"),
    TableColumn(name="created", label="Created", sort="created", numeric=True),
    TableColumn(name="event", label="Last event", sort="active", numeric=True),
    TableColumn(name="scope", label="Person and scope"),
    TableColumn(name="labels", label="Labels"),
)
NAMES = tuple(column.name for column in COLUMNS if column is not SINCE)
#: Columns shown unless the operator chooses others.
DEFAULT_COLUMNS = ("health", "last", "rate", "faults", "turns", "room", "event")
#: Columns shown by default while a search names a problem.
PROBLEM_COLUMNS = ("health", SINCE.name, "last", "rate", "faults", "turns", "event")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRow:
    """A thread as a row of the table shows it."""

    line: ThreadLine
    verdicts: tuple[ThreadVerdict, ...]
    last: LastMessage | None
    #: The beginning of the last message; empty without a message to show.
    preview: str
    #: First words of a thread whose name is a UUID; empty for any other thread.
    words: str = ""
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
    """Build the table of these threads. Four queries, for any number of threads."""
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
    """Build the rows of these threads. Four queries, for any number of threads."""
    since = onsets or {}
    found = tuple(lines)
    newest = {line.id: line.slots - 1 for line in found if line.slots}
    last, words = last_messages.list_last(newest), _find_first_words(found)
    return tuple(
        _build_row(
            line,
            limits,
            last.get(line.id),
            since.get(line.id, {}),
            words=words.get(line.id, ""),
        )
        for line in found
    )


def find_title_words(line: ThreadLine) -> str:
    """Find the first words of a thread whose name is a UUID, else "". Two queries."""
    return _find_first_words([line]).get(line.id, "")


def _find_first_words(lines: Iterable[ThreadLine]) -> dict[UUID, str]:
    """Find the first words of threads whose names are UUIDs; a fork's own words."""
    first = {
        line.id: line.inherited
        for line in lines
        if line.slots > line.inherited and _UUID_NAME.search(line.name)
        if not line.home
    }
    found = last_messages.list_last(first)
    return {
        thread: first_words.build_message_words(
            message.content, message.role, chars=_WORDS
        ).text
        for thread, message in found.items()
        if message.content is not None and not message.struck
    }


def build_row_context(scene: ThreadScene) -> Context:
    """Build the context of the row that is pushed. Five queries."""
    project, line = scene.thread.project, ThreadLine.from_row(scene.thread)
    onsets, limits = unhealthy.get_onsets(project.id), Thresholds.from_project(project)
    (row,) = build_rows([line], limits=limits, onsets=onsets)
    return {"row": row}


def _build_row(
    line: ThreadLine,
    limits: Thresholds,
    last: LastMessage | None,
    onsets: Mapping[str, VerdictOnset],
    *,
    words: str,
) -> ThreadRow:
    return ThreadRow(
        line=line,
        verdicts=verdicts.find_in_line(line, limits),
        last=last,
        preview=summaries.cut_to_preview(last.content) if last else "",
        words=words,
        onsets=onsets,
    )
