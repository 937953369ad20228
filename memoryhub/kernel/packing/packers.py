"""Packers: every way there ever was to make a request of a record. Pure.

Recorded contexts name theirs, so none of them ever changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from memoryhub.kernel.packing import requests


class Packer(NamedTuple):
    """How records of one version are read."""

    #: From a record and its texts to the request, as UTF-8; KeyError without a text.
    assemble: Callable[..., bytes]
    #: Where each ref stands in it: first byte and end, in the order of the record.
    ranges: Callable[..., list[tuple[int, int]]]


PACKERS: dict[str, Packer] = dict.fromkeys(
    requests.PACKERS, Packer(requests.assemble, requests.ranges)
)
