"""Sizes that tell little: a content counts as large as the next step. Pure."""

from __future__ import annotations

from typing import Final

_STEP: Final = 64
#: Up to which steps are of that many bytes; from there on of an eighth at most.
_EVEN: Final = 1_024


def padded(size: int) -> int:
    """Round a size in bytes up to a step: 64, 128, …, 1,024, 1,152, …"""
    size = max(size, 1)
    step = _STEP if size <= _EVEN else 1 << ((size - 1).bit_length() - 4)
    return -(-size // step) * step
