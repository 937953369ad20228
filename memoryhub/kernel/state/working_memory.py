"""Working memory: what an agent needs for the job at hand, by reference. Pure.

Everything is persistent, so a checkpoint costs one reference. Every number that stands
for an event is the thread's clock: a fork's seqs follow on those it inherits.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from rpds import HashTrieMap, HashTrieSet

from memoryhub.kernel.state.paging import Frame, Hot, listed

DEFAULT_MAX_KEYS = 10_000
DEFAULT_MAX_KEY_BYTES = 64 * 1_048_576
#: Checkpoints of a thread that were asked for.
MAX_CHECKPOINTS = 1_000
#: Automatic checkpoints that stay, newest ones.
AUTOMATIC_KEPT = 20
#: Names beyond which a set of touched ones becomes "any".
MAX_TOUCHED = 10_000

#: Names that were set, deleted, retimed or expired since; None stands for any name.
Touched: TypeAlias = "HashTrieSet[str] | None"


class KeyEntry(NamedTuple):
    """A key: where its value lies, and until when it counts."""

    #: Of the event whose payload holds the value.
    value: int
    #: Of the event that last set or retimed it.
    version: int
    expires_at: datetime | None
    #: Of the value, canonical UTF-8, padded.
    bytes: int

    def visible(self, now: datetime) -> bool:
        return self.expires_at is None or now < self.expires_at


class Contents(NamedTuple):
    """What working memory holds at one moment: keys, and a slice of each other noun."""

    keys: HashTrieMap[str, KeyEntry] = HashTrieMap()
    #: Of all values, those expired and not yet swept included.
    key_bytes: int = 0
    #: By name, those that are not empty.
    slices: HashTrieMap[str, Any] = HashTrieMap()

    def find(self, key: str, *, now: datetime) -> KeyEntry | None:
        """Return the key's entry, unless it has expired."""
        entry = self.keys.get(key)
        return entry if entry is not None and entry.visible(now) else None

    def visible(self, now: datetime) -> dict[str, KeyEntry]:
        """Return all keys that have not expired, by name."""
        shown = {k: each for k, each in listed(self.keys) if each.visible(now)}
        return dict(sorted(shown.items()))


class Resident(NamedTuple):
    """The working set as a checkpoint holds it."""

    frames: HashTrieMap[str, Frame] = HashTrieMap()
    hot: HashTrieMap[str, Hot] = HashTrieMap()
    pins: HashTrieMap[str, bool] = HashTrieMap()


class Checkpoint(NamedTuple):
    """A point to return to."""

    clock: int
    name: str | None
    #: Taken by a restore, so that it can be undone.
    auto: bool
    #: The checkpoint that its state descended from.
    parent: int | None
    #: Names touched between the parent and this.
    touched: Touched
    contents: Contents
    resident: Resident
    #: It was deleted, and stays without content where branches part.
    joint: bool = False


class WorkingMemory(NamedTuple):
    """The contents of now, and the tree of checkpoints."""

    contents: Contents = Contents()
    #: The checkpoint that the contents descend from.
    base: int | None = None
    #: Since the base.
    touched: Touched = None
    checkpoints: HashTrieMap[int, Checkpoint] = HashTrieMap()
    #: By name of a checkpoint, its clock.
    names: HashTrieMap[str, int] = HashTrieMap()
    #: Clocks of the automatic ones, oldest first.
    automatic: tuple[int, ...] = ()
    joints: int = 0
    #: Sum of the names that the checkpoints have touched: what a snapshot costs.
    weight: int = 0

    @property
    def taken(self) -> int:
        """Checkpoints that were asked for."""
        return len(self.checkpoints) - len(self.automatic) - self.joints

    def live(self, clock: int) -> Checkpoint | None:
        """Return the checkpoint of that clock, unless it was deleted."""
        found = self.checkpoints.get(clock)
        return None if found is None or found.joint else found

    def listed(self) -> list[Checkpoint]:
        """Return all that can be returned to, oldest first."""
        live = [each for each in self.checkpoints.values() if not each.joint]
        return sorted(live, key=lambda each: each.clock)

    def touching(self, names: Iterable[str]) -> Touched:
        """Return what has been touched once these names are."""
        return united(self.touched, names)


def united(touched: Touched, names: Touched | Iterable[str]) -> Touched:
    """Unite what was touched; too many names become any."""
    if touched is None or names is None:
        return None
    for name in names:
        touched = touched.insert(name)
    return touched if len(touched) <= MAX_TOUCHED else None
