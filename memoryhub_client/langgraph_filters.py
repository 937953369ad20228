"""Filters of a LangGraph search, with one meaning, and without LangGraph.

A filter maps fields of a value to conditions, which must all hold:

- A missing field is null: `{"$ne": 1}` and `null` find an item without the field.
- A plain value is equal, and `true` equals 1. Lists are equal element by element.
- An object with a `$` name has operators only: `$eq`, `$ne`, `$gt`, `$gte`, `$lt` and
  `$lte`. Another name is a ValueError, also if no item is looked at.
- Another object holds in part: each of its fields is a condition on an object.
- `$gt` and its like compare numbers, and texts of digits as numbers: "10" is above 9.
  Two texts, one of which is no number, are compared as texts: "b" is above "a". All
  else cannot be compared, and is not found.

InMemoryStore of langgraph-checkpoint 4.3.2 answers alike wherever it answers. It raises
TypeError or ValueError for what cannot be compared as numbers. SqliteStore 3.1.2
differs: `$ne` finds no missing field, but for null. An object in part is a ValueError,
and `{}` finds all. `$eq` with a list or an object finds nothing, `$ne` with one
everything. Two texts of digits are compared as texts. `{"$lt": 5}` finds texts and
objects, which count as 0. A field `a.b` is a path, and one with a space a ValueError.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def is_match(value: Any, conditions: Mapping[str, Any]) -> bool:
    """Return whether all conditions hold. Raises ValueError for an unknown operator."""
    fields = value if isinstance(value, dict) else {}
    # A list, so that each condition is looked at, and each operator.
    found = [_holds(fields.get(name), each) for name, each in conditions.items()]
    return all(found)


def _holds(value: Any, condition: Any) -> bool:
    if isinstance(condition, dict):
        if any(name.startswith("$") for name in condition):
            compared = [_compare(value, *each) for each in condition.items()]
            return all(compared)
        return is_match(value, condition) and isinstance(value, dict)
    if isinstance(condition, list | tuple):
        if not isinstance(value, list) or len(value) != len(condition):
            return False
        return all(_holds(*pair) for pair in zip(value, condition, strict=True))
    return bool(value == condition)


def _compare(value: Any, name: str, operand: Any) -> bool:
    if name in ("$eq", "$ne"):
        return (value == operand) is (name == "$eq")
    if name not in _ORDERS:
        raise ValueError(f"unknown operator: {name}")
    try:
        return _ORDERS[name](float(value), float(operand))
    except (TypeError, ValueError, OverflowError):
        texts = isinstance(value, str) and isinstance(operand, str)
        return texts and _ORDERS[name](value, operand)
