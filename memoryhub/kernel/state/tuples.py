"""Named tuples whose copies with other values are made quickly. Pure."""

from __future__ import annotations

from typing import Any, TypeVar

TupleT = TypeVar("TupleT", bound=tuple[Any, ...])


def with_quick_replace(kind: type[TupleT]) -> type[TupleT]:
    """Give a class of named tuples a `_replace` that takes less than half the time.

    The library's looks up every field among the changes. This one looks up each change
    among the fields. A fold copies the state and its paging six times an event.
    """
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]  # of a NamedTuple
    places = {name: place for place, name in enumerate(names)}
    make = tuple.__new__

    def _replace(self: TupleT, /, **changes: Any) -> TupleT:
        values = [*self]
        try:
            for name, value in changes.items():
                values[places[name]] = value
        except KeyError as error:
            raise ValueError(f"Got unexpected field name: {error}") from None
        return make(kind, values)

    kind._replace = _replace  # type: ignore[attr-defined]  # of a NamedTuple
    return kind
