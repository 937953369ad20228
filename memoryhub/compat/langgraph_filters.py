"""Filters of a search for items, with the meaning that they have in the client.

Restated, since the server is installed without the client; a test holds both together.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from memoryhub.compat.fields import build_refusal

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def is_match(value: Any, conditions: Mapping[str, Any]) -> bool:
    """Tell whether all hold. Raises HubRefusedError for an unknown operator."""
    fields = value if isinstance(value, dict) else {}
    # A list, so that each condition is looked at, and each operator.
    found = [_is_fulfilled(fields.get(name), each) for name, each in conditions.items()]
    return all(found)


def _is_fulfilled(value: Any, condition: Any) -> bool:
    if isinstance(condition, dict):
        if any(name.startswith("$") for name in condition):
            compared = [_is_ordered(value, *each) for each in condition.items()]
            return all(compared)
        return is_match(value, condition) and isinstance(value, dict)
    if isinstance(condition, list):
        if not isinstance(value, list) or len(value) != len(condition):
            return False
        return all(_is_fulfilled(*pair) for pair in zip(value, condition, strict=True))
    return bool(value == condition)


def _is_ordered(value: Any, name: str, operand: Any) -> bool:
    if name in ("$eq", "$ne"):
        return (value == operand) is (name == "$eq")
    if name not in _ORDERS:
        raise build_refusal(f"filter: only $eq, $ne, {', '.join(_ORDERS)}")
    try:
        return _ORDERS[name](float(value), float(operand))
    except (TypeError, ValueError, OverflowError):
        texts = isinstance(value, str) and isinstance(operand, str)
        return texts and _ORDERS[name](value, operand)
