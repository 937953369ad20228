"""A comparison as people read it: values, fields of the task, texts of notes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memoryhub.kernel.memory import checkpoints
from memoryhub.kernel.memory.notes import NOTES
from memoryhub.kernel.memory.tasks import TASK
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Contents
from memoryhub.models.threads import Thread
from memoryhub.queries.memory import comparisons, notes, tasks
from memoryhub.queries.memory.checkpoints import clock_of
from memoryhub.queries.memory.comparisons import HEAD, Comparison, KeyDifference, Point
from memoryhub.queries.memory.notes import NoteLine
from memoryhub.queries.memory.tasks import TaskView
from memoryhub.queries.replay.states import state_of

#: Notes whose texts are shown on each side, and keys of a batch.
SHOWN_NOTES, KEYS = 20, 200
KINDS = ("added", "removed", "changed", "rewritten", "retimed")
_FIELDS = (
    "status", "description", "current_step", "progress_percent", "started_at", "data",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    name: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonView:
    """What differs from `a` to `b`, with the texts."""

    told: Comparison
    #: Of the task; empty when it is the same.
    fields: tuple[FieldDifference, ...]
    notes_added: tuple[NoteLine, ...]
    notes_removed: tuple[NoteLine, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Keys of this batch by what became of them."""
        kinds: list[str] = [each.kind for each in self.told.keys.items]
        return {kind: kinds.count(kind) for kind in KINDS}

    @property
    def bytes(self) -> int:
        """Bytes of values more than before, in this batch."""
        return sum(map(bytes_of, self.told.keys.items))

    @property
    def any(self) -> bool:
        told = self.told
        frames = told.frames_in or told.frames_out or told.pins_in or told.pins_out
        said = told.task or told.notes_added or told.notes_removed
        return bool(told.keys.items or frames or said)


def bytes_of(key: KeyDifference) -> int:
    """Bytes that a key's value has more than before."""
    before = key.before.bytes if key.before else 0
    return (key.after.bytes if key.after else 0) - before


def get_comparison(
    thread: Thread,
    a: Point,
    b: Point,
    *,
    values: bool = False,
    seq: int | None = None,
    after: str | None = None,
) -> ComparisonView:
    """Two checkpoints, or one and now. At most eight queries.

    `thread` comes with its subject. Raises as `comparisons.compare` does.
    """
    told = comparisons.compare(
        thread, a, b, values=values, seq=seq, after=after, limit=KEYS
    )
    state = state_of(thread, seq)
    one, other = _contents(state, a), _contents(state, b)
    return ComparisonView(
        told=told,
        fields=_fields(thread, state, one, other) if told.task else (),
        notes_added=_notes(thread, state, other, told.notes_added),
        notes_removed=_notes(thread, state, one, told.notes_removed),
    )


def _contents(state: ThreadState, point: Point) -> Contents:
    if point == HEAD:
        return state.memory.contents
    return checkpoints.find(state.memory, clock_of(state, point)).contents


def _fields(
    thread: Thread, state: ThreadState, one: Contents, other: Contents
) -> tuple[FieldDifference, ...]:
    before, after = (_task(thread, state, contents) for contents in (one, other))
    pairs = [(n, getattr(before, n, None), getattr(after, n, None)) for n in _FIELDS]
    return tuple(
        FieldDifference(name=name, before=old, after=new)
        for name, old, new in pairs
        if old != new
    )


def _task(thread: Thread, state: ThreadState, contents: Contents) -> TaskView | None:
    task = TASK.get(contents)
    return tasks.view_of(thread, state, task) if task else None


def _notes(
    thread: Thread, state: ThreadState, contents: Contents, seqs: tuple[int, ...]
) -> tuple[NoteLine, ...]:
    wanted = {*seqs[-SHOWN_NOTES:]}
    found = [
        note for note in NOTES.get(contents).lines if state.seq_of(note.clock) in wanted
    ]
    return notes.lines(thread, state, found)
