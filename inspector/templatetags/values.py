"""Values of keys in lists, and how two of them differ."""

from __future__ import annotations

from django import template

from inspector.memory import values
from inspector.memory.values import DiffLine
from memoryhub.queries.memory.comparisons import KeyDifference

#: Lines of each key, of the 200 that a page compares.
_LINES = 20

register = template.Library()
register.filter(values.glimpse)


@register.filter
def changed_lines(key: KeyDifference) -> tuple[DiffLine, ...]:
    """What differs in a key's value; all of it where one side has none to show."""
    before, after = key.before, key.after
    if before is not None and before.opened and after is not None and after.opened:
        return values.difference(before.value, after.value, most=_LINES)
    if before is not None and before.opened:
        return values.whole(before.value, "gone", most=_LINES)
    if after is not None and after.opened:
        return values.whole(after.value, "come", most=_LINES)
    return ()
