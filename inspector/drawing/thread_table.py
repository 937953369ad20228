"""The table of threads: its columns, and in each row what is said of a thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from inspector.drawing import summaries
from inspector.drawing.scenes import Context, Scene
from memoryhub.models.threads import Thread
from memoryhub.queries.overview import unhealthy
from memoryhub.queries.overview.onsets import Onset
from memoryhub.queries.threads import last_messages, verdicts
from memoryhub.queries.threads.last_messages import LastMessage
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.queries.threads.verdicts import ThreadVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Declare a column: how it is called, and by what order it can be sorted."""

    name: str
    label: str
    #: The word of ours that it shows, as the glossary has it.
    word: str = ""
    sort: str = ""
    numeric: bool = False


#: Always there, and first.
THREAD = Column(name="thread", label="Thread", sort="name")
#: Since when what is searched for is wrong; stands when somebody searches for that.
SINCE = Column(name="since", label="Since")
#: The others in their order.
COLUMNS = (
    Column(name="status", label="Status"),
    Column(name="health", label="Health"),
    SINCE,
    Column(name="last", label="Last message"),
    Column(
        name="rate",
        label="Resident rate",
        word="resident rate",
        sort="rate",
        numeric=True,
    ),
    Column(
        name="hits",
        label="TLB hit rate",
        word="TLB hit rate",
        numeric=True,
    ),
    Column(name="faults", label="Faults", word="fault", sort="faults", numeric=True),
    Column(name="slots", label="Slots", word="slot", sort="slots", numeric=True),
    Column(name="turns", label="Turns", word="turn", sort="turns", numeric=True),
    Column(name="tokens", label="Tokens", sort="tokens", numeric=True),
    Column(name="packed", label="Packed", sort="packed", numeric=True),
    Column(name="room", label="of budget"),
    Column(name="created", label="Created", sort="created", numeric=True),
    Column(name="event", label="Last event", sort="active", numeric=True),
    Column(name="scope", label="Subject and scope"),
    Column(name="labels", label="Labels"),
)
NAMES = tuple(column.name for column in COLUMNS if column is not SINCE)
#: Those that stand unless others are chosen.
USUAL = ("health", "last", "rate", "turns", "packed", "room", "event")
#: The same where somebody looks for what is wrong: that takes room.
FLAGGED = ("health", SINCE.name, "last", "rate", "turns", "event")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRow:
    """Hold a thread as a row shows it."""

    line: ThreadLine
    verdicts: tuple[ThreadVerdict, ...]
    last: LastMessage | None
    #: The beginning of the last message; empty if there is none to show.
    preview: str
    #: By flag, since when it holds; empty where nobody asked.
    onsets: Mapping[str, Onset] = field(default_factory=dict)

    @property
    def since(self) -> Sequence[tuple[ThreadVerdict, Onset]]:
        """List what is wrong of which it is known since when."""
        # Of refused fetches the thread's own counters say nothing.
        return [
            (each, onset)
            for each in verdicts.VERDICTS
            if each in self.verdicts or each.flag == "refused"
            if (onset := self.onsets.get(each.flag)) and onset.at
        ]

    @property
    def measured(self) -> bool:
        """Tell whether there were enough exchanges to call it fine."""
        return self.line.exchanges >= verdicts.ENOUGH_EXCHANGES


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """Hold the heading of a column, and where it sorts the list."""

    column: Column
    #: The query that sorts by it, or turns that order round; empty for none.
    query: str = ""
    #: `ascending` or `descending` if the list is in its order.
    order: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTable:
    """Hold the rows of threads and the headings above them."""

    rows: tuple[ThreadRow, ...]
    headings: tuple[Heading, ...]
    #: The columns that are to be seen; all are there.
    columns: tuple[str, ...]
    #: Those of the threads whose content it shows.
    read: tuple[Thread, ...]


def make(
    lines: Sequence[ThreadLine],
    *,
    columns: Sequence[str] = USUAL,
    headings: Mapping[str, Heading] | None = None,
    onsets: Mapping[UUID, Mapping[str, Onset]] | None = None,
) -> ThreadTable:
    """Make the table of these threads. Two queries, however many."""
    rows = list_rows(lines, onsets=onsets)
    named = headings or {}
    return ThreadTable(
        rows=rows,
        headings=tuple(
            named.get(column.name, Heading(column=column))
            for column in (THREAD, *COLUMNS)
        ),
        columns=tuple(columns),
        read=tuple(row.last.thread for row in rows if row.last is not None),
    )


def list_rows(
    lines: Iterable[ThreadLine],
    *,
    onsets: Mapping[UUID, Mapping[str, Onset]] | None = None,
) -> tuple[ThreadRow, ...]:
    """List the rows of these threads. Two queries, however many."""
    since = onsets or {}
    found = tuple(lines)
    newest = {line.id: line.slots - 1 for line in found if line.slots}
    last = last_messages.list_last(newest)
    return tuple(
        _row(line, last.get(line.id), since.get(line.id, {})) for line in found
    )


def draw_row(scene: Scene) -> Context:
    """Draw the row that is pushed. Three queries."""
    onsets = unhealthy.get_onsets(scene.thread.project_id)
    (row,) = list_rows([ThreadLine.of(scene.thread)], onsets=onsets)
    return {"row": row}


def _row(
    line: ThreadLine, last: LastMessage | None, onsets: Mapping[str, Onset]
) -> ThreadRow:
    return ThreadRow(
        line=line,
        verdicts=verdicts.find_in_line(line),
        last=last,
        preview=summaries.beginning(last.content) if last else "",
        onsets=onsets,
    )
