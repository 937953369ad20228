"""Restorations: what restoring a checkpoint would change now, and what one found.

Never writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import orjson

from memoryhub.kernel.memory import checkpoint_tree, checkpoints
from memoryhub.kernel.memory.checkpoint_events import CheckpointRestored
from memoryhub.kernel.memory.checkpoints import RestoreCheckpoint
from memoryhub.kernel.memory.nouns import SLICES
from memoryhub.kernel.slices import Moved
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Checkpoint, Contents, KeyEntry
from memoryhub.models.threads import Thread
from memoryhub.queries.memory.checkpoints import CheckpointLine, clock_of, lines
from memoryhub.queries.paging import previews
from memoryhub.queries.paging.previews import Preview
from memoryhub.queries.replay.states import now_of, state_of
from memoryhub.queries.threads.events import EventLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """The difference from now to a checkpoint, in the parts that were chosen."""

    #: The thread's head that it was judged by.
    seq: int
    target: CheckpointLine
    parts: tuple[str, ...]
    #: Keys that would have another value or expiry, go, and come back.
    change: int = 0
    go: int = 0
    come: int = 0
    #: Keys of the checkpoint whose instant has passed: they stay away.
    expired: int = 0
    #: Records that would go and come, by slice.
    slices: Mapping[str, Moved] = field(default_factory=dict)
    #: All that would happen, when the working set is a part.
    preview: Preview | None = None

    @property
    def any(self) -> bool:
        kept = self.preview is not None and bool(self.preview.effects)
        keys = self.change or self.go or self.come
        return bool(keys or kept or any(map(any, self.slices.values())))


#: What restoring does to a key.
Effect = Literal["nothing", "changes", "goes", "returns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDrift:
    """A key that was written between a preview and the restore."""

    name: str
    previewed: Effect
    done: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """What had changed, of the parts restored, between a preview and the restore."""

    #: The head that the preview was judged by, and the one before the restore.
    seen: int
    found: int
    keys: tuple[KeyDrift, ...]
    #: By slice what went since, and what came; those that are the same left out.
    slices: Mapping[str, Moved]
    #: Pages that had entered the working set since, and those that had left it.
    pages_in: int
    pages_out: int

    @property
    def events(self) -> int:
        """Events that came in between."""
        return self.found - self.seen

    @property
    def any(self) -> bool:
        return bool(self.keys or self.slices or self.pages_in or self.pages_out)


def get_drift(thread: Thread, line: EventLine, *, seen: int) -> Drift | None:
    """What a restore found otherwise than its preview, as of `seen`, had shown.

    None if the event is no restore, or nothing of `seen` can have led to it. `thread`
    comes with its subject. At most six queries.
    """
    if line.type != CheckpointRestored.event_type or not 1 <= seen < line.seq:
        return None
    event = CheckpointRestored.model_validate_json(orjson.dumps(line.body))
    before, after = state_of(thread, seen), state_of(thread, line.seq - 1)
    if event.target not in before.memory.checkpoints:
        return None
    one, other = before.memory.contents, after.memory.contents
    moved = _moved(event.parts, one, other)
    frames: tuple[set[str], set[str]] = (set(), set())
    if "frames" in event.parts:
        frames = ({*before.paging.frames}, {*after.paging.frames})
    return Drift(
        seen=seen,
        found=_head_before(after, event),
        keys=_key_drift(before, after, event) if "keys" in event.parts else (),
        slices={name: each for name, each in moved.items() if any(each)},
        pages_in=len(frames[1] - frames[0]),
        pages_out=len(frames[0] - frames[1]),
    )


def _moved(parts: Sequence[str], one: Contents, other: Contents) -> dict[str, Moved]:
    return {
        name: part.moved(one, other) for name, part in SLICES.items() if name in parts
    }


def _head_before(after: ThreadState, event: CheckpointRestored) -> int:
    """The head that the restore was given at: it may take a checkpoint of its own."""
    kept = after.memory.checkpoints[event.before]
    own = kept.auto and after.seq_of(kept.clock) == after.seq
    return after.seq - own


def _key_drift(
    before: ThreadState, after: ThreadState, event: CheckpointRestored
) -> tuple[KeyDrift, ...]:
    """Keys that another write had changed by then, by name."""
    names = {
        name
        for state in (before, after)
        for name in checkpoint_tree.names_between(state.memory, None, event.target)
    }
    target = after.memory.checkpoints[event.target].contents
    then, now = before.at or event.judged_at, event.judged_at
    found = []
    for name in sorted(names):
        old = before.memory.contents.find(name, now=then)
        new = after.memory.contents.find(name, now=now)
        if old != new:
            previewed = _effect(old, target.find(name, now=then))
            done = _effect(new, target.find(name, now=now))
            found.append(KeyDrift(name=name, previewed=previewed, done=done))
    return tuple(found)


def _effect(old: KeyEntry | None, new: KeyEntry | None) -> Effect:
    if old == new:
        return "nothing"
    if old is None:
        return "returns"
    return "goes" if new is None else "changes"


def get_restoration(
    thread: Thread, target: int | str, parts: Sequence[str]
) -> Restoration:
    """What restoring these parts would do now. Three queries, more for frames.

    `thread` comes with its subject. Raises CheckpointUnknownError, and the refusal that
    restoring would get.
    """
    state = state_of(thread)
    found = checkpoints.find(state.memory, clock_of(state, target))
    (line,) = lines(thread, state, [found])
    change, go, come, expired = _keys(state, found) if "keys" in parts else (0,) * 4
    return Restoration(
        seq=state.seq,
        target=line,
        parts=tuple(parts),
        change=change,
        go=go,
        come=come,
        expired=expired,
        slices=_moved(parts, state.memory.contents, found.contents),
        preview=_preview(thread, found, parts),
    )


def _keys(state: ThreadState, target: Checkpoint) -> tuple[int, int, int, int]:
    now = now_of(state)
    here, there = state.memory.contents, target.contents
    change = go = come = 0
    for name in checkpoint_tree.names_between(state.memory, None, target.clock):
        old, new = here.find(name, now=now), there.find(name, now=now)
        change += old is not None and new is not None and old != new
        go += old is not None and new is None
        come += old is None and new is not None
    return change, go, come, checkpoints.expired(target, at=now)


def _preview(
    thread: Thread, target: Checkpoint, parts: Sequence[str]
) -> Preview | None:
    if "frames" not in parts:
        return None
    command = RestoreCheckpoint(target=target.clock, parts=tuple(parts))
    return previews.get_preview(thread, command)
