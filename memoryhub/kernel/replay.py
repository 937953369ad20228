"""The two doors of the kernel: `decide` and `evolve`. Pure.

One line per command and per event; the tables are complete, and a test says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memoryhub.kernel import (
    checkpoints,
    commands,
    erase_events,
    erasing,
    events,
    faults,
    keys,
    memory_commands,
    memory_events,
    notes,
    own_tools,
    page_commands,
    page_events,
    page_table,
    residency,
    runs,
    slots,
    tasks,
    threads,
    tlb_upkeep,
    tool_events,
    turns,
    working_set,
)
from memoryhub.kernel.bodies import Event
from memoryhub.kernel.course import Course, PageTable
from memoryhub.kernel.state import ThreadState

Decide = Callable[[Course, Any, PageTable], None]


def _alone(decide: Callable[[ThreadState, Any], Iterator[commands.Draft]]) -> Decide:
    """A decision that needs no pages, and nothing of what it emits itself."""

    def decided(course: Course, command: Any, pages: PageTable) -> None:
        course.extend(decide(course.state, command))

    return decided


def _open(decide: Decide) -> Decide:
    """A decision that a closed thread refuses."""

    def decided(course: Course, command: Any, pages: PageTable) -> None:
        threads.require_open(course.state)
        decide(course, command, pages)

    return decided


DECIDE: dict[type, Decide] = {
    commands.CreateThread: _alone(threads.create),
    commands.ForkThread: threads.fork,
    commands.AmendThread: threads.amend,
    commands.CloseThread: _alone(threads.close),
    commands.ReopenThread: _alone(threads.reopen),
    commands.RetireThread: _alone(threads.retire),
    commands.AppendSlots: _open(slots.append),
    commands.ImportMessages: _open(runs.advance),
    commands.EraseThread: erasing.erase_thread,
    commands.EraseRecords: erasing.erase_records,
    page_commands.CreatePages: _open(page_table.create_pages),
    page_commands.UpdatePage: _open(page_table.update_page),
    page_commands.DeletePage: _open(page_table.delete_page),
    page_commands.WriteLevels: page_table.write_levels,
    page_commands.MapPage: _open(working_set.map_page),
    page_commands.EvictPage: _open(working_set.evict_page),
    page_commands.PinPage: _open(working_set.pin_page),
    page_commands.UnpinPage: _open(working_set.unpin_page),
    page_commands.ReferencePages: _open(working_set.reference_pages),
    page_commands.FaultPage: _open(faults.fault_page),
    page_commands.BeginTurn: _open(turns.begin_turn),
    page_commands.SetTools: _open(own_tools.set_tools),
    page_commands.RecordContext: _alone(turns.record_context),
    page_commands.InvalidateTlb: _open(tlb_upkeep.invalidate),
    page_commands.FlushTlb: _open(tlb_upkeep.flush),
    memory_commands.ChangeKeys: _open(keys.change_keys),
    memory_commands.RetimeKey: _open(keys.retime_key),
    memory_commands.ClearKeys: _open(keys.clear_keys),
    memory_commands.ExpireKeys: keys.expire_keys,
    memory_commands.EraseValues: keys.erase_values,
    memory_commands.SetTask: _open(tasks.set_task),
    memory_commands.UpdateTask: _open(tasks.update_task),
    memory_commands.ClearTask: _open(tasks.clear_task),
    memory_commands.AddNotes: _open(notes.add_notes),
    memory_commands.ClearNotes: _open(notes.clear_notes),
    memory_commands.TakeCheckpoint: _open(checkpoints.take_checkpoint),
    memory_commands.RestoreCheckpoint: _open(checkpoints.restore_checkpoint),
    memory_commands.DeleteCheckpoint: _open(checkpoints.delete_checkpoint),
}

EVOLVE: dict[type[Event], Callable[[ThreadState, Any], ThreadState]] = {
    events.ThreadCreated: threads.created,
    events.ThreadForked: threads.forked,
    events.ThreadDescribed: threads.described,
    events.ThreadConfigured: threads.configured,
    events.ThreadClosed: threads.closed,
    events.ThreadReopened: threads.reopened,
    events.ThreadRetired: threads.retired,
    events.SlotAppended: slots.appended,
    events.RunRecorded: runs.recorded,
    events.ImportAdvanced: runs.advanced,
    page_events.PageCreated: residency.created,
    page_events.PageUpdated: residency.updated,
    page_events.PageCompressed: residency.compressed,
    page_events.PageMapped: residency.mapped,
    page_events.PageFaulted: residency.faulted,
    page_events.FaultRefused: residency.fault_refused,
    page_events.PageReferenced: residency.referenced,
    page_events.PageEvicted: residency.evicted,
    page_events.PageLowered: residency.lowered,
    page_events.PagePinned: residency.pinned,
    page_events.PageUnpinned: residency.unpinned,
    page_events.PageDeleted: residency.deleted,
    page_events.TurnBegan: turns.began,
    page_events.TurnPacked: turns.packed,
    tool_events.ToolsSet: own_tools.tools_set,
    page_events.TlbInvalidated: residency.tlb_invalidated,
    page_events.TlbFlushed: residency.tlb_flushed,
    memory_events.KeySet: keys.was_set,
    memory_events.KeyRetimed: keys.retimed,
    memory_events.KeyDeleted: keys.deleted,
    memory_events.KeysCleared: keys.cleared,
    memory_events.KeysExpired: keys.expired,
    memory_events.ValuesErased: keys.erased,
    memory_events.TaskSet: tasks.was_set,
    memory_events.TaskUpdated: tasks.updated,
    memory_events.TaskCleared: tasks.cleared,
    memory_events.NoteAdded: notes.added,
    memory_events.NotesCleared: notes.cleared,
    memory_events.CheckpointTaken: checkpoints.taken,
    memory_events.CheckpointRestored: checkpoints.restored,
    memory_events.CheckpointDeleted: checkpoints.deleted,
    erase_events.ThreadErased: erasing.thread_erased,
    erase_events.RecordsErased: erasing.records_erased,
}

#: The eraser's: they are taken whatever became of the thread.
_ERASING = (commands.EraseThread, commands.EraseRecords)

#: Actors whose events keep a thread from being idle, by the word before the colon.
_ACTIVE = frozenset({"agent", "operator", "import"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An event in its place: what the journal adds to a draft."""

    seq: int
    at: datetime
    #: `agent:<key prefix>`, `operator:<id>`, `import`, `worker:<kind>`,
    #: `eraser:<erasure>`.
    actor: str
    event: Event


def decide(
    state: ThreadState,
    command: commands.Command,
    pages: PageTable,
    *,
    at: datetime,
) -> list[commands.Draft]:
    """The events that `command` leads to, in order. Raises a Refusal.

    A thread that was retired or erased takes no command but the eraser's. `pages` is
    asked only for what the state does not hold. `at` is the instant that the events
    will have: by it expiry is judged.
    """
    if not isinstance(command, _ERASING):
        threads.require_alive(state)
    course = Course(state, EVOLVE, at=at)
    DECIDE[type(command)](course, command, pages)
    return course.drafts


def evolve(state: ThreadState, recorded: Recorded) -> ThreadState:
    """The state after one event. Needs no payload."""
    after = EVOLVE[type(recorded.event)](state, recorded.event)
    active = recorded.actor.partition(":")[0] in _ACTIVE
    return after._replace(
        seq=recorded.seq,
        at=recorded.at,
        created_at=recorded.at if recorded.seq == 1 else state.created_at,
        active_seq=recorded.seq if active else state.active_seq,
        active_at=recorded.at if active else state.active_at,
    )
