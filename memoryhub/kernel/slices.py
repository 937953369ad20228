"""Slices of working memory: what a noun keeps there, checkpoints included. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from memoryhub.kernel.erased import Erased
from memoryhub.kernel.state import ThreadState
from memoryhub.kernel.working_memory import Contents

Value = TypeVar("Value")


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
    #: What `checkpoint.taken` says of it.
    counts: Callable[[Value], dict[str, int]]
    #: How many records of two values differ.
    differing: Callable[[Value, Value], int]

    def get(self, contents: Contents) -> Value:
        """The value at one moment."""
        found: Value = contents.slices.get(self.name, self.empty)
        return found

    def put(self, contents: Contents, value: Value) -> Contents:
        """The contents with another value."""
        if value:
            return contents._replace(slices=contents.slices.insert(self.name, value))
        return contents._replace(slices=contents.slices.discard(self.name))

    def value(self, state: ThreadState) -> Value:
        """What the thread holds now."""
        return self.get(state.memory.contents)

    def changed(self, state: ThreadState, value: Value) -> ThreadState:
        """The thread with another value."""
        contents = self.put(state.memory.contents, value)
        return state._replace(memory=state.memory._replace(contents=contents))
