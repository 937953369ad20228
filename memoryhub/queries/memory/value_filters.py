"""Conditions on the top-level members of JSON values. Pure."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.numbers import Number

Comparison = Literal["eq", "ne", "gt", "gte", "lt", "lte"]

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberCondition:
    """A comparison of one member with a value; an absent member counts as null.

    Numbers are equal if their amounts are, other values if their JSON is. Two numbers
    or two texts have an order; a condition on the order of other values is not met.
    """

    member: str
    op: Comparison
    value: Any

    def is_met(self, value: Any) -> bool:
        found = value.get(self.member) if isinstance(value, dict) else None
        ours, theirs = _to_comparable(found), _to_comparable(self.value)
        if self.op in ("eq", "ne"):
            return (ours == theirs) is (self.op == "eq")
        has_order = ours[0] == theirs[0] != "json"
        return has_order and _ORDERS[self.op](ours[1], theirs[1])

    def to_json(self) -> list[Any]:
        value = strict_json.dump_canonical(self.value).decode()
        return [self.member, self.op, value]


def is_every_met(conditions: Sequence[MemberCondition], value: Any) -> bool:
    return all(each.is_met(value) for each in conditions)


def _to_comparable(value: Any) -> tuple[str, Any]:
    """Return the kind of a value, and a form that compares as values of the kind do."""
    if isinstance(value, Number):
        return "number", value.to_float()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number", value
    if isinstance(value, str):
        return "text", value
    return "json", strict_json.dump_canonical(value)
