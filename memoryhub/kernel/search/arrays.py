"""Lazy numpy, imported when an array is first needed. Pure.

A server answers before anybody searches. The import of numpy takes a seventh of the
start and 20 MB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["Numbers", "Records", "np"]


class _LazyNumpy:
    """Namespace of numpy; after its first use as cheap as numpy itself."""

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
