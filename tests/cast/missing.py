"""Templates' value for a name that is missing in the context."""

from __future__ import annotations


class Missing(str):
    """Value for a name that a template's context lacks: there the test fails."""

    __slots__ = ()

    def __contains__(self, part: object) -> bool:
        """Answer Django, which looks whether it may put the variable's name in."""
        return True

    def __mod__(self, variable: object) -> str:
        raise AssertionError(f"a template wants {variable}")
