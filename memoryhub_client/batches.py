"""Batches: items cut so that one request takes each part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeVar

from memoryhub_client.problems import TooLarge

Item = TypeVar("Item")
#: The hub's limit of items, and bytes that are written at once where there are more.
MAX_BATCH, MAX_BODY = 200, 900_000
#: Bytes of the largest request by default, and of what stands in one beside its items.
BODY_BYTES, ROOM = 1_048_576, 4_096


def cut_batches(
    items: Sequence[Item], body_bytes: int = BODY_BYTES
) -> list[list[Item]]:
    """Cut items into batches, in order; an item beyond `MAX_BODY` stands alone.

    Raises TooLarge for an item that no request of `body_bytes` holds, so that a caller
    who cuts before the first request writes all items or none.
    """
    batches: list[list[Item]] = []
    most = body_bytes - ROOM
    size = limit = min(MAX_BODY, most)
    for number, item in enumerate(items, 1):
        added = len(json.dumps(item)) + 2
        if added > most:
            raise _build_refusal(f"Item {number} of {len(items)}", added, body_bytes)
        if size + added > limit or len(batches[-1]) == MAX_BATCH:
            batches.append([])
            size = 0
        batches[-1].append(item)
        size += added
    return batches


def _build_refusal(item: str, size: int, body_bytes: int) -> TooLarge:
    detail = (
        f"{item} has {size:,} bytes as JSON, and a request to the hub has at most "
        f"{body_bytes:,}. Nothing was written. If MEMORYHUB_BODY_BYTES of the hub is "
        "larger, construct the client with that number as body_bytes."
    )
    members = {"detail": detail, "code": "body_too_large", "max_bytes": body_bytes}
    return TooLarge(413, members, None)
