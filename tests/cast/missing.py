"""What a template says of a context that is not whole."""

from __future__ import annotations


class Missing(str):
    """Stands where a template wants what its context lacks: there the test fails."""

    __slots__ = ()

    def __contains__(self, part: object) -> bool:
        """Django looks whether it may put the variable's name into it."""
        return True

    def __mod__(self, variable: object) -> str:
        raise AssertionError(f"a template wants {variable}")
