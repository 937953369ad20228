"""Views of a slice of working memory, declared by each noun."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from memoryhub.kernel.slices import Slice
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Contents
from memoryhub.models.threads import Thread

Value = TypeVar("Value")
#: Differences by field of a comparison: names or numbers, or texts for people.
SliceDifferences = Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceView(Generic[Value]):
    """Comparison of two values of a slice, and the slice's newest records."""

    slice: Slice[Value]
    #: Fields of a comparison, each with its type in the API.
    fields: Mapping[str, Any]
    #: Example values of these fields, for the OpenAPI document.
    example: Mapping[str, Any]
    #: (thread, state, before, after) → names or numbers of the differences.
    names: Callable[[Thread, ThreadState, Value, Value], SliceDifferences]
    #: (thread, state, before, after, names) → texts of the differences for people.
    texts: Callable[
        [Thread, ThreadState, Value, Value, SliceDifferences], SliceDifferences
    ]
    #: (thread, state, value, limit) → newest records, oldest first. One query.
    newest: Callable[[Thread, ThreadState, Value, int], tuple[Any, ...]] | None = None

    def get_values(self, before: Contents, after: Contents) -> tuple[Value, Value]:
        return self.slice.get(before), self.slice.get(after)
