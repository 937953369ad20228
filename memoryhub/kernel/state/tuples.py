"""Named tuples with a fast `_replace`. Pure."""

from __future__ import annotations

from typing import Any, TypeVar

TupleT = TypeVar("TupleT", bound=tuple[Any, ...])


def add_quick_replace(kind: type[TupleT]) -> type[TupleT]:
    """Give a class of named tuples a `_replace` that takes less than half the time.

    The library's `_replace` looks up every field among the changes; this `_replace`
    looks up each change among the fields. A fold copies the state and its paging six
    times an event.
    """
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]  # of a NamedTuple
    places = {name: place for place, name in enumerate(names)}
    make = tuple.__new__

    def replace_fields(self: TupleT, /, **changes: Any) -> TupleT:
        values = [*self]
        try:
            for name, value in changes.items():
                values[places[name]] = value
        except KeyError as error:
            raise ValueError(f"Got unexpected field name: {error}") from None
        return make(kind, values)

    kind._replace = replace_fields  # type: ignore[attr-defined]  # of a NamedTuple
    return kind
