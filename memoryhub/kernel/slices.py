"""Slices of working memory: values that a noun keeps, with checkpoints. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from memoryhub.kernel.state.bodies import Count
from memoryhub.kernel.state.erased import ErasedPlaces
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Contents

Value = TypeVar("Value")
#: Places that show a measure: `checkpoint.taken`, statistics, and the figures of the
#: timeline.
MeasurePlace = Literal["checkpoint", "stats", "timeline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A figure reported of a value: a number, a flag or a word of ours."""

    read: Callable[[Any], Any]
    places: frozenset[MeasurePlace] = frozenset({"checkpoint", "stats", "timeline"})
    #: Type of the figure as a field of a body.
    kind: Any = Count


class RecordMoves(NamedTuple):
    """Number of records removed and added between two values."""

    gone: int = 0
    come: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Generic[Value]):
    """A noun's declaration of its values in working memory.

    Values are persistent, so that a checkpoint costs a reference. An empty value is
    false, and is not kept.
    """

    #: Name of the slice in a restore.
    name: str
    empty: Value
    #: (value, value before) → fields of the canonical form that tell the difference.
    to_json: Callable[[Value, Value], dict[str, Any]]
    #: (these fields, value before) → value.
    from_json: Callable[[Mapping[str, Any], Value], Value]
    #: Removes erased records from a value; returns the same object if none were erased.
    without: Callable[[Value, ErasedPlaces], Value]
    #: Reported figures by name, read without opening anything.
    measures: Mapping[str, Measure]
    #: Lists the records of a value for comparison: each record with its identity.
    records: Callable[[Value], Iterable[Hashable]]
    #: Whether there are many records: then a restore counts removed and added records.
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

    def get_current(self, state: ThreadState) -> Value:
        """Return the thread's present value."""
        return self.get(state.memory.contents)

    def count_moves(self, before: Contents, after: Contents) -> RecordMoves:
        """Count the records that differ between two moments; none if equal."""
        one, other = self.get(before), self.get(after)
        if one == other:
            return RecordMoves()
        here, there = {*self.records(one)}, {*self.records(other)}
        return RecordMoves(gone=len(here - there), come=len(there - here))

    def replace_value(self, state: ThreadState, value: Value) -> ThreadState:
        """Return the thread with another value."""
        contents = self.put(state.memory.contents, value)
        return state._replace(memory=state.memory._replace(contents=contents))
