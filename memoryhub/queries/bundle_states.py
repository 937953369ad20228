"""States of a bundle: what each thread's journal has come to, as of the cut.

They can all be folded again from the events; they stand there for people and programs
that would rather not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from typing import Final
from uuid import UUID

import orjson

from memoryhub.journal import log, projections
from memoryhub.journal.page_rows import entry_of
from memoryhub.journal.rows import LevelRow, PageRow
from memoryhub.kernel import pins
from memoryhub.kernel.notes import NOTES
from memoryhub.kernel.pages import Entry
from memoryhub.kernel.state import ThreadState
from memoryhub.kernel.tasks import TASK
from memoryhub.models.pages import Page, PageLevel
from memoryhub.models.threads import Thread
from memoryhub.queries import checkpoints, exact_json, keys, notes, pages, tasks
from memoryhub.queries.bundle_cuts import Cut, Part
from memoryhub.queries.bundle_files import Chunk
from memoryhub.queries.bundle_records import (
    CheckpointRecord,
    KeyRecord,
    LevelRecord,
    NoteRecord,
    PageRecord,
    Record,
    TaskRecord,
    ThreadRecord,
)
from memoryhub.queries.cursors import PART_BYTES, fitting

#: Lines made at once.
CHUNK = 500


Lines = Callable[[Thread, ThreadState, datetime], Iterator[Record]]


def texts(
    cut: Cut, lines: Lines, *, among: Collection[UUID] | None = None
) -> Iterator[Chunk]:
    """A file of states: of each thread `among` these, or of all, its records."""
    waiting: list[bytes] = []
    size = 0
    for thread in _threads(cut, among):
        for record in lines(thread, _state(thread), cut.taken_at):
            waiting.append(exact_json.dumps(record) + b"\n")
            size += len(waiting[-1])
            if len(waiting) >= CHUNK or size >= PART_BYTES:
                yield Chunk(b"".join(waiting), len(waiting))
                waiting, size = [], 0
    if waiting:
        yield Chunk(b"".join(waiting), len(waiting))


def thread_texts(cut: Cut) -> Iterator[Chunk]:
    """`state/threads.jsonl`, erased ones included."""
    for some in _chunks(cut.parts):
        rows = Thread.objects.in_bulk([part.id for part in some])
        records = [_thread(cut, part, rows[part.id]) for part in some]
        lines = [exact_json.dumps(record) for record in records]
        yield Chunk(b"\n".join(lines) + b"\n", len(lines))


def _threads(cut: Cut, among: Collection[UUID] | None) -> Iterator[Thread]:
    """The living threads, each as of its cut, with its subject."""
    living = [
        part
        for part in cut.parts
        if part.status != "erased" and (among is None or part.id in among)
    ]
    for some in _chunks(living):
        rows = Thread.objects.in_bulk([part.id for part in some])
        for part in some:
            yield _as_cut(cut, part, rows[part.id])


def _as_cut(cut: Cut, part: Part, row: Thread) -> Thread:
    row.subject = cut.subject
    row.head_seq, row.head_hash = part.head_seq, part.head_hash
    return row


def _state(thread: Thread) -> ThreadState:
    # Not by way of what readers keep: nobody looks at most of these again.
    return log.state_at(thread, thread.head_seq).state


def _chunks(parts: Sequence[Part]) -> Iterator[Sequence[Part]]:
    for begin in range(0, len(parts), CHUNK):
        yield parts[begin : begin + CHUNK]


def _thread(cut: Cut, part: Part, row: Thread) -> ThreadRecord:
    if row.head_seq != part.head_seq and part.status != "erased":
        # It has moved on since, and its row with it.
        columns = projections.columns(_state(_as_cut(cut, part, row)))
        for name, value in columns.items():
            setattr(row, name, value)
    return ThreadRecord(
        id=part.id,
        name=part.name,
        status=part.status,
        agent_type=row.agent_type,
        agent_instance=row.agent_instance,
        session=row.session,
        labels=orjson.loads(row.labels),
        config=orjson.loads(row.config),
        parent=part.parent,
        parent_seq=part.parent_seq,
        head_seq=part.head_seq,
        slots=row.slot_count,
        turns=row.turn_count,
        tokens=row.token_count,
        bytes=row.byte_count,
        created_at=row.created_at,
        last_event_at=row.last_event_at,
        origin=orjson.loads(row.origin) if row.origin else None,
    )


def key_records(
    thread: Thread, state: ThreadState, now: datetime
) -> Iterator[KeyRecord]:
    left = iter(state.memory.contents.visible(now).items())
    while some := list(islice(left, CHUNK)):
        while some:
            size = fitting((each.bytes for _, each in some), max_bytes=PART_BYTES)
            shown, some = dict(some[:size]), some[size:]
            for line in keys.lines(thread, state, shown, content=True):
                yield KeyRecord(
                    thread=thread.id,
                    key=line.name,
                    value=line.value,
                    erased=line.erased,
                    set_at=line.set_at,
                    set_by=line.set_by,
                    expires_at=line.expires_at,
                )


def task_records(
    thread: Thread, state: ThreadState, now: datetime
) -> Iterator[TaskRecord]:
    task = TASK.value(state)
    if task is None:
        return
    view = tasks.view_of(thread, state, task)
    yield TaskRecord(
        thread=thread.id,
        status=view.status,
        description=view.description,
        current_step=view.current_step,
        progress_percent=view.progress_percent,
        started_at=view.started_at,
        updated_at=view.updated_at,
        data=view.data,
    )


def note_records(
    thread: Thread, state: ThreadState, now: datetime
) -> Iterator[NoteRecord]:
    left = iter(NOTES.value(state).lines)
    while some := list(islice(left, CHUNK)):
        for line in notes.lines(thread, state, some):
            yield NoteRecord(
                thread=thread.id,
                seq=line.seq,
                at=line.at,
                by=line.by,
                text=line.text,
            )


def page_records(
    thread: Thread, state: ThreadState, now: datetime
) -> Iterator[PageRecord]:
    rules = pins.pinned(state)
    after = 0
    if thread.parent_id is None:
        for some in _entries_now(thread):
            yield from (_page(state, entry, rules) for entry in some)
            after = some[-1].created_seq
    # What it has moved on from meanwhile, or inherits.
    for entry in pages.iter_entries(state, after=after):
        yield _page(state, entry, rules)


def _entries_now(thread: Thread) -> Iterator[list[Entry]]:
    """Entries of a thread that is no fork, from its rows, while it stands still.

    Three queries for 500, and a fraction of what folding each page would cost.
    """
    head = Thread.objects.filter(id=thread.id, head_seq=thread.head_seq)
    rows = Page.objects.filter(thread=thread, deleted_seq__isnull=True)
    pages_after, after = rows.order_by("seq").values_list(*PageRow._fields), 0
    while some := [PageRow(*row) for row in pages_after.filter(seq__gt=after)[:CHUNK]]:
        made = PageLevel.objects.filter(
            thread=thread, page_id__in=[row.page_id for row in some]
        )
        levels: dict[str, list[LevelRow]] = {}
        for level in made.values_list(*LevelRow._fields):
            levels.setdefault(level[1], []).append(LevelRow(*level))
        # Asked afterwards: a row that was read is then of the cut or before it.
        if not head.exists():
            return
        yield [entry_of(row, levels.get(row.page_id, ())) for row in some]
        after = some[-1].seq


def _page(state: ThreadState, entry: Entry, rules: Mapping[str, str]) -> PageRecord:
    return PageRecord(
        thread=state.id,
        page_id=entry.page_id,
        type=entry.type,
        modality=entry.modality,
        version=entry.version,
        importance=entry.importance,
        role=entry.role,
        slot=entry.slot,
        tier=state.paging.tier(entry.page_id) or entry.home,
        pinned=rules.get(entry.page_id),
        levels=[
            LevelRecord(
                level=level,
                thread=each.location.thread,
                seq=each.location.seq,
                tokens=each.tokens,
            )
            for level, each in enumerate(entry.levels)
            if each is not None
        ],
    )


def checkpoint_records(
    thread: Thread, state: ThreadState, now: datetime
) -> Iterator[CheckpointRecord]:
    left = iter(state.memory.listed())
    while some := list(islice(left, CHUNK)):
        for line in checkpoints.lines(thread, state, some):
            yield CheckpointRecord(
                thread=thread.id,
                seq=line.seq,
                name=line.name,
                description=line.description,
                at=line.at,
                by=line.by,
                auto=line.auto,
                parent=line.parent,
                keys=line.keys,
                notes=line.notes,
                has_task=line.has_task,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFile:
    """A file of states: what a line of it is, and how a thread's are made."""

    record: type[Record]
    lines: Lines
    #: Events without which a thread, or what it goes on from, has none of these.
    needs: frozenset[str]


FILES: Final[Mapping[str, StateFile]] = MappingProxyType(
    {
        "state/keys.jsonl": StateFile(
            record=KeyRecord, lines=key_records, needs=frozenset({"key.set"})
        ),
        "state/tasks.jsonl": StateFile(
            record=TaskRecord, lines=task_records, needs=frozenset({"task.set"})
        ),
        "state/notes.jsonl": StateFile(
            record=NoteRecord, lines=note_records, needs=frozenset({"note.added"})
        ),
        "state/pages.jsonl": StateFile(
            record=PageRecord,
            lines=page_records,
            needs=frozenset({"page.created", "slot.appended"}),
        ),
        "state/checkpoints.jsonl": StateFile(
            record=CheckpointRecord,
            lines=checkpoint_records,
            needs=frozenset({"checkpoint.taken"}),
        ),
    }
)
THREADS: Final = "state/threads.jsonl"
