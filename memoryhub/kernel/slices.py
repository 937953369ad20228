"""Slices of working memory: what a noun keeps there, checkpoints included. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from memoryhub.kernel.state.bodies import Count
from memoryhub.kernel.state.erased import Erased
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Contents

Value = TypeVar("Value")
#: Where a measure stands: in `checkpoint.taken`, in statistics, among the figures of
#: the timeline.
MeasurePlace = Literal["checkpoint", "stats", "timeline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One figure reported of a value: a number, a flag or a word of ours."""

    read: Callable[[Any], Any]
    places: frozenset[MeasurePlace] = frozenset({"checkpoint", "stats", "timeline"})
    #: As a field of a body.
    kind: Any = Count


class Moved(NamedTuple):
    """How many records go, and how many come, from one value to another."""

    gone: int = 0
    come: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Generic[Value]):
    """What a noun declares of its values in working memory.

    They are persistent, so that a checkpoint costs a reference. An empty one is false,
    and is not kept.
    """

    #: By which a restore names it.
    name: str
    empty: Value
    #: (value, one before it) → fields of the canonical form that tell how they differ.
    to_json: Callable[[Value, Value], dict[str, Any]]
    #: (those fields, the one before it) → the value.
    from_json: Callable[[Mapping[str, Any], Value], Value]
    #: The value without what was erased; the same object where nothing was.
    without: Callable[[Value, Erased], Value]
    #: By name, what is reported of it without opening anything.
    measures: Mapping[str, Measure]
    #: By which two values are compared: each record with what makes it another.
    records: Callable[[Value], Iterable[Hashable]]
    #: It has many records, so that a restore counts those that went and came.
    many: bool = True

    def get(self, contents: Contents) -> Value:
        """Return the value at one moment."""
        found: Value = contents.slices.get(self.name, self.empty)
        return found

    def put(self, contents: Contents, value: Value) -> Contents:
        """Return the contents with another value."""
        if value:
            return contents._replace(slices=contents.slices.insert(self.name, value))
        return contents._replace(slices=contents.slices.discard(self.name))

    def value(self, state: ThreadState) -> Value:
        """Return what the thread holds now."""
        return self.get(state.memory.contents)

    def moved(self, before: Contents, after: Contents) -> Moved:
        """Count what differs between two moments; nothing where they are equal."""
        one, other = self.get(before), self.get(after)
        if one == other:
            return Moved()
        here, there = {*self.records(one)}, {*self.records(other)}
        return Moved(gone=len(here - there), come=len(there - here))

    def changed(self, state: ThreadState, value: Value) -> ThreadState:
        """Return the thread with another value."""
        contents = self.put(state.memory.contents, value)
        return state._replace(memory=state.memory._replace(contents=contents))
