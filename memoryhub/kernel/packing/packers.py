"""Packers: every version of the code that makes a request from a record. Pure.

A recorded context names its packer, so no packer ever changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from memoryhub.kernel.packing import requests


class Packer(NamedTuple):
    """Functions that read records of one version."""

    #: Makes the request from a record and its texts, as UTF-8; KeyError without a text.
    assemble: Callable[..., bytes]
    #: Lists the place of each ref: first byte and end, in the order of the record.
    ranges: Callable[..., list[tuple[int, int]]]


PACKERS: dict[str, Packer] = dict.fromkeys(
    requests.PACKERS, Packer(requests.assemble, requests.list_ref_ranges)
)
