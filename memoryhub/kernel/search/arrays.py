"""numpy, imported when an array is first needed. Pure.

A server answers before anybody searches; numpy takes a seventh of the start and 20 MB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["Numbers", "Records", "np"]


class _LazyNumpy:
    """numpy's names; after the first of them as cheap as numpy's own."""

    def __getattr__(self, name: str) -> Any:
        import numpy as loaded  # noqa: ICN001, PLC0415 # at the first use, see above

        vars(self).update(vars(loaded))
        return getattr(loaded, name)


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Records = NDArray[np.void]
    Numbers = NDArray[Any]
else:
    np = _LazyNumpy()
    Records = Numbers = Any
