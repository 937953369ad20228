"""Batches: items cut so that one request takes each part."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TypeVar

Item = TypeVar("Item")
#: The hub's limits: items and bytes of a batch, less some room.
MAX_BATCH, MAX_BODY = 200, 900_000


def cut_batches(items: Iterable[Item]) -> list[list[Item]]:
    """Cut items into batches, in order; an item beyond the bytes stands alone."""
    batches: list[list[Item]] = []
    size = MAX_BODY
    for item in items:
        added = len(json.dumps(item)) + 2
        if size + added > MAX_BODY or len(batches[-1]) == MAX_BATCH:
            batches.append([])
            size = 0
        batches[-1].append(item)
        size += added
    return batches
