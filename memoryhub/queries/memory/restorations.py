"""Restorations: previews of a restore, and drift between preview and restore.

Never writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import orjson

from memoryhub.kernel.memory import checkpoint_tree, checkpoints
from memoryhub.kernel.memory.checkpoint_events import CheckpointRestored
from memoryhub.kernel.memory.checkpoints import ReopenAndRestore
from memoryhub.kernel.memory.nouns import SLICES
from memoryhub.kernel.slices import RecordMoves
from memoryhub.kernel.state.events import ThreadReopened
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Contents, KeyEntry, SavedCheckpoint
from memoryhub.models.threads import Thread
from memoryhub.queries.memory.checkpoints import CheckpointLine, build_lines, to_clock
from memoryhub.queries.paging import previews
from memoryhub.queries.paging.previews import CommandPreview
from memoryhub.queries.replay.states import compute_instant, load_state
from memoryhub.queries.threads.events import ThreadEventLine, get_event


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """The difference from now to a checkpoint, in the chosen parts."""

    #: The thread's head at which the preview was computed.
    seq: int
    target: CheckpointLine
    parts: tuple[str, ...]
    #: Numbers of keys that would change value or expiry, disappear, and return.
    change: int = 0
    go: int = 0
    come: int = 0
    #: Number of expired keys in the checkpoint: these keys stay absent.
    expired: int = 0
    #: Records that would be removed and added, by slice.
    slices: Mapping[str, RecordMoves] = field(default_factory=dict)
    #: Preview of the page moves, when the working set is one of the parts.
    preview: CommandPreview | None = None

    @property
    def any(self) -> bool:
        kept = self.preview is not None and bool(self.preview.effects)
        keys = self.change or self.go or self.come
        return bool(keys or kept or any(map(any, self.slices.values())))


#: Effect of a restore on a key.
KeyEffect = Literal["nothing", "changes", "goes", "returns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDrift:
    """A key that another event wrote between a preview and the restore."""

    name: str
    previewed: KeyEffect
    done: KeyEffect


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Changes in the restored parts between a preview and the restore."""

    #: The head at the preview, and the head before the restore.
    seen: int
    found: int
    keys: tuple[KeyDrift, ...]
    #: Records removed and added since the preview, by slice; unchanged slices are left
    #: out.
    slices: Mapping[str, RecordMoves]
    #: Numbers of pages that entered and that left the working set since the preview.
    pages_in: int
    pages_out: int

    @property
    def events(self) -> int:
        """Number of events between the preview and the restore."""
        return self.found - self.seen

    @property
    def any(self) -> bool:
        return bool(self.keys or self.slices or self.pages_in or self.pages_out)


def get_drift(thread: Thread, line: ThreadEventLine, *, seen: int) -> Drift | None:
    """Return how a restore differs from its preview as of `seen`.

    None if the event is no restore, or if no preview as of `seen` can have led to the
    restore. `thread` comes with its subject. At most seven queries.
    """
    if line.type != CheckpointRestored.event_type or not 1 <= seen < line.seq:
        return None
    event = CheckpointRestored.model_validate_json(orjson.dumps(line.body))
    before, after = load_state(thread, seen), load_state(thread, line.seq - 1)
    if event.target not in before.memory.checkpoints:
        return None
    one, other = before.memory.contents, after.memory.contents
    moved = _list_moved(event.parts, one, other)
    frames: tuple[set[str], set[str]] = (set(), set())
    if "frames" in event.parts:
        frames = ({*before.paging.frames}, {*after.paging.frames})
    return Drift(
        seen=seen,
        found=_find_head_before(thread, before, after, event),
        keys=_list_key_drift(before, after, event) if "keys" in event.parts else (),
        slices={name: each for name, each in moved.items() if any(each)},
        pages_in=len(frames[1] - frames[0]),
        pages_out=len(frames[0] - frames[1]),
    )


def _list_moved(
    parts: Sequence[str], one: Contents, other: Contents
) -> dict[str, RecordMoves]:
    return {
        name: part.count_moves(one, other)
        for name, part in SLICES.items()
        if name in parts
    }


def _find_head_before(
    thread: Thread, before: ThreadState, after: ThreadState, event: CheckpointRestored
) -> int:
    """Find the head before the restore's own events: a reopening and a checkpoint."""
    kept = after.memory.checkpoints[event.before]
    head = after.seq - (kept.auto and after.to_seq(kept.clock) == after.seq)
    if before.status != "closed" or head == before.seq:
        return head
    return head - (get_event(thread, head).type == ThreadReopened.event_type)


def _list_key_drift(
    before: ThreadState, after: ThreadState, event: CheckpointRestored
) -> tuple[KeyDrift, ...]:
    """List, by name, keys that another write changed before the restore."""
    names = {
        name
        for state in (before, after)
        for name in checkpoint_tree.list_names_between(state.memory, None, event.target)
    }
    target = after.memory.checkpoints[event.target].contents
    then, now = before.at or event.judged_at, event.judged_at
    found = []
    for name in sorted(names):
        old = before.memory.contents.find_key(name, now=then)
        new = after.memory.contents.find_key(name, now=now)
        if old != new:
            previewed = _compute_effect(old, target.find_key(name, now=then))
            done = _compute_effect(new, target.find_key(name, now=now))
            found.append(KeyDrift(name=name, previewed=previewed, done=done))
    return tuple(found)


def _compute_effect(old: KeyEntry | None, new: KeyEntry | None) -> KeyEffect:
    if old == new:
        return "nothing"
    if old is None:
        return "returns"
    return "goes" if new is None else "changes"


def get_restoration(
    thread: Thread, target: int | str, parts: Sequence[str]
) -> Restoration:
    """Preview a restore of these parts now. Three queries, more for frames.

    `thread` comes with its subject. Raises CheckpointUnknownError, and the refusal that
    the restore would raise.
    """
    state = load_state(thread)
    found = checkpoints.require_checkpoint(state.memory, to_clock(state, target))
    (line,) = build_lines(thread, state, [found])
    change, go, come, expired = (
        _count_keys(state, found) if "keys" in parts else (0,) * 4
    )
    return Restoration(
        seq=state.seq,
        target=line,
        parts=tuple(parts),
        change=change,
        go=go,
        come=come,
        expired=expired,
        slices=_list_moved(parts, state.memory.contents, found.contents),
        preview=_build_preview(thread, found, parts),
    )


def _count_keys(
    state: ThreadState, target: SavedCheckpoint
) -> tuple[int, int, int, int]:
    now = compute_instant(state)
    here, there = state.memory.contents, target.contents
    change = go = come = 0
    for name in checkpoint_tree.list_names_between(state.memory, None, target.clock):
        old, new = here.find_key(name, now=now), there.find_key(name, now=now)
        change += old is not None and new is not None and old != new
        go += old is not None and new is None
        come += old is None and new is not None
    return change, go, come, checkpoints.count_expired(target, at=now)


def _build_preview(
    thread: Thread, target: SavedCheckpoint, parts: Sequence[str]
) -> CommandPreview | None:
    if "frames" not in parts:
        return None
    # A closed thread can be previewed too.
    command = ReopenAndRestore(target=target.clock, parts=tuple(parts))
    return previews.get_preview(thread, command)
