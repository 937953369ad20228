"""Views of a slice of working memory: what a noun declares of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from memoryhub.kernel.slices import Slice
from memoryhub.kernel.state.state import ThreadState
from memoryhub.kernel.state.working_memory import Contents
from memoryhub.models.threads import Thread

Value = TypeVar("Value")
#: By field of a comparison: names or numbers, or what people read of them.
Found = Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceView(Generic[Value]):
    """How two values of a slice are compared, and what the overview shows of one."""

    slice: Slice[Value]
    #: Fields of a comparison, each with its type on the wire.
    fields: Mapping[str, Any]
    #: Of these fields, for the document.
    example: Mapping[str, Any]
    #: (thread, state, before, after) → names or numbers of what differs.
    names: Callable[[Thread, ThreadState, Value, Value], Found]
    #: (thread, state, before, after, those names) → the same as people read it.
    texts: Callable[[Thread, ThreadState, Value, Value, Found], Found]
    #: (thread, state, value, how many) → its newest records, oldest first. One query.
    newest: Callable[[Thread, ThreadState, Value, int], tuple[Any, ...]] | None = None

    def values(self, before: Contents, after: Contents) -> tuple[Value, Value]:
        return self.slice.get(before), self.slice.get(after)
