"""Restorations: what restoring a checkpoint would change now. Never writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memoryhub.kernel import checkpoint_tree, checkpoints
from memoryhub.kernel.memory_commands import RestoreCheckpoint
from memoryhub.kernel.memory_events import Part
from memoryhub.kernel.state import ThreadState
from memoryhub.kernel.working_memory import Checkpoint
from memoryhub.models.threads import Thread
from memoryhub.queries import previews
from memoryhub.queries.checkpoints import CheckpointLine, clock_of, lines
from memoryhub.queries.previews import Preview
from memoryhub.queries.states import now_of, state_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """The difference from now to a checkpoint, in the parts that were chosen."""

    #: The thread's head that it was judged by.
    seq: int
    target: CheckpointLine
    parts: tuple[Part, ...]
    #: Keys that would have another value or expiry, go, and come back.
    change: int = 0
    go: int = 0
    come: int = 0
    #: Keys of the checkpoint whose instant has passed: they stay away.
    expired: int = 0
    task: bool = False
    notes_go: int = 0
    notes_come: int = 0
    #: All that would happen, when the working set is a part.
    preview: Preview | None = None

    @property
    def any(self) -> bool:
        kept = self.preview is not None and bool(self.preview.effects)
        keys = self.change or self.go or self.come
        return bool(keys or self.task or self.notes_go or self.notes_come or kept)


def get_restoration(
    thread: Thread, target: int | str, parts: Sequence[Part]
) -> Restoration:
    """What restoring these parts would do now. Three queries, more for frames.

    `thread` comes with its subject. Raises CheckpointUnknownError, and the refusal that
    restoring would get.
    """
    state = state_of(thread)
    found = checkpoints.find(state.memory, clock_of(state, target))
    (line,) = lines(thread, state, [found])
    change, go, come, expired = _keys(state, found) if "keys" in parts else (0,) * 4
    now, then = state.memory.contents, found.contents
    here = {*now.notes} if "notes" in parts else set()
    there = {*then.notes} if "notes" in parts else set()
    return Restoration(
        seq=state.seq,
        target=line,
        parts=tuple(parts),
        change=change,
        go=go,
        come=come,
        expired=expired,
        task="task" in parts and now.task != then.task,
        notes_go=len(here - there),
        notes_come=len(there - here),
        preview=_preview(thread, found, parts),
    )


def _keys(state: ThreadState, target: Checkpoint) -> tuple[int, int, int, int]:
    now = now_of(state)
    here, there = state.memory.contents, target.contents
    change = go = come = expired = 0
    for name in checkpoint_tree.names_between(state.memory, None, target.clock):
        old, new = here.find(name, now=now), there.find(name, now=now)
        expired += new is None and name in there.keys
        change += old is not None and new is not None and old != new
        go += old is not None and new is None
        come += old is None and new is not None
    return change, go, come, expired


def _preview(
    thread: Thread, target: Checkpoint, parts: Sequence[Part]
) -> Preview | None:
    if "frames" not in parts:
        return None
    command = RestoreCheckpoint(target=target.clock, parts=tuple(parts))
    return previews.get_preview(thread, command)
