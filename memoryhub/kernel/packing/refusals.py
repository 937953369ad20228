"""Refusals of packing, and the budget that would do."""

from __future__ import annotations

from collections.abc import Callable


class TooSmallError(ValueError):
    """Not even the newest message fits, however short it is cut."""

    #: Packs the same request under a smaller or larger budget.
    pack_within: Callable[[int], object]
    limit: int
    most: int

    def find_least_budget(self) -> int | None:
        """Find the least budget of the request that would do; None if none would.

        Packs the request some 20 times.
        """
        too_small = enough = self.limit
        while not self._is_enough(enough):
            if enough == self.most:
                return None
            too_small, enough = enough, min(2 * enough, self.most)
        while enough - too_small > 1:
            middle = (too_small + enough) // 2
            if self._is_enough(middle):
                enough = middle
            else:
                too_small = middle
        return enough

    def _is_enough(self, budget: int) -> bool:
        try:
            self.pack_within(budget)
        except TooSmallError:
            return False
        return True
