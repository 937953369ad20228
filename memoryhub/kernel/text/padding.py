"""Sizes rounded up to steps, so that a stored size does not reveal the length. Pure."""

from __future__ import annotations

from typing import Final

_STEP: Final = 64
#: Size in bytes up to which all steps are `_STEP` bytes; above, a step is an eighth of
#: the size at most.
_EVEN: Final = 1_024


def pad_size(size: int) -> int:
    """Round a size in bytes up to a step: 64, 128, …, 1,024, 1,152, …"""
    size = max(size, 1)
    step = _STEP if size <= _EVEN else 1 << ((size - 1).bit_length() - 4)
    return -(-size // step) * step
