"""The word to an adapter's user whose framework is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def require_extra(extra: str, *others: str) -> Iterator[None]:
    """Name what to install if a package that the block imports is missing.

    `others` are packages beside the extra. Raises ImportError.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        wanted = " ".join([f"'agent-memoryhub-client[{extra}]'", *others])
        raise ImportError(
            f"{missing.name} is not installed: pip install {wanted}", name=missing.name
        ) from missing
