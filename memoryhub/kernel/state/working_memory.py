"""Working memory of an agent, and its checkpoints. Pure.

All collections are persistent, so a checkpoint costs one reference. Every number that
names an event is the thread's clock: a fork's seqs follow the inherited seqs.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from rpds import HashTrieMap, HashTrieSet

from memoryhub.kernel.state.paging import Frame, Hot, list_items

DEFAULT_MAX_KEYS = 10_000
DEFAULT_MAX_KEY_BYTES = 64 * 1_048_576
#: Most requested checkpoints of a thread.
MAX_CHECKPOINTS = 1_000
#: Number of newest automatic checkpoints that stay.
AUTOMATIC_KEPT = 20
#: Number of touched names beyond which the set becomes "any".
MAX_TOUCHED = 10_000

#: Names that were set, deleted, retimed or expired since a point; None: any name.
Touched: TypeAlias = "HashTrieSet[str] | None"


class KeyEntry(NamedTuple):
    """A key: the clock of its value, and its expiry."""

    #: Clock of the event whose payload holds the value.
    value: int
    #: Clock of the event that last set or retimed the key.
    version: int
    expires_at: datetime | None
    #: Bytes of the value, canonical UTF-8, padded.
    bytes: int

    def is_visible(self, now: datetime) -> bool:
        return self.expires_at is None or now < self.expires_at


class Contents(NamedTuple):
    """Contents of working memory at one moment: keys, and a slice per other noun."""

    keys: HashTrieMap[str, KeyEntry] = HashTrieMap()
    #: Bytes of all values, including expired values not yet swept.
    key_bytes: int = 0
    #: Slices that are not empty, by name.
    slices: HashTrieMap[str, Any] = HashTrieMap()

    def find_key(self, key: str, *, now: datetime) -> KeyEntry | None:
        """Return the key's entry; None if absent or expired."""
        entry = self.keys.get(key)
        return entry if entry is not None and entry.is_visible(now) else None

    def list_visible(self, now: datetime) -> dict[str, KeyEntry]:
        """List all keys that have not expired, sorted by name."""
        shown = {k: each for k, each in list_items(self.keys) if each.is_visible(now)}
        return dict(sorted(shown.items()))


class Resident(NamedTuple):
    """The part of the working set that a checkpoint holds."""

    frames: HashTrieMap[str, Frame] = HashTrieMap()
    hot: HashTrieMap[str, Hot] = HashTrieMap()
    pins: HashTrieMap[str, bool] = HashTrieMap()


class SavedCheckpoint(NamedTuple):
    """A checkpoint: contents and working set at a clock, and its place in the tree."""

    clock: int
    name: str | None
    #: Taken by a restore, so that the restore can be undone.
    auto: bool
    #: Clock of the checkpoint that this state descended from.
    parent: int | None
    #: Names touched between the parent and this checkpoint.
    touched: Touched
    contents: Contents
    resident: Resident
    #: The checkpoint was deleted, and stays without content where branches part.
    joint: bool = False


class WorkingMemory(NamedTuple):
    """Current contents of working memory, and the tree of its checkpoints."""

    contents: Contents = Contents()
    #: Clock of the checkpoint that the contents descend from.
    base: int | None = None
    #: Names touched since the base.
    touched: Touched = None
    checkpoints: HashTrieMap[int, SavedCheckpoint] = HashTrieMap()
    #: Clock of each named checkpoint, by name.
    names: HashTrieMap[str, int] = HashTrieMap()
    #: Clocks of the automatic checkpoints, oldest first.
    automatic: tuple[int, ...] = ()
    joints: int = 0
    #: Number of names touched by all checkpoints, a measure of a snapshot's size.
    weight: int = 0

    @property
    def taken(self) -> int:
        """Number of requested checkpoints."""
        return len(self.checkpoints) - len(self.automatic) - self.joints

    def find_live(self, clock: int) -> SavedCheckpoint | None:
        """Return the checkpoint at a clock; None if absent or deleted."""
        found = self.checkpoints.get(clock)
        return None if found is None or found.joint else found

    def list_live(self) -> list[SavedCheckpoint]:
        """List the checkpoints that can be restored, oldest first."""
        live = [each for each in self.checkpoints.values() if not each.joint]
        return sorted(live, key=lambda each: each.clock)

    def add_touched(self, names: Iterable[str]) -> Touched:
        """Return the names touched since the base, with `names` added."""
        return unite_touched(self.touched, names)


def unite_touched(touched: Touched, names: Touched | Iterable[str]) -> Touched:
    """Unite touched names; more than `MAX_TOUCHED` names become None, for any."""
    if touched is None or names is None:
        return None
    for name in names:
        touched = touched.insert(name)
    return touched if len(touched) <= MAX_TOUCHED else None
