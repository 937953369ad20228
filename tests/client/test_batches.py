"""Batches of items, and a real hub that is not asked to take half of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from memoryhub_client import AsyncClient, NotFound, TooLarge, threads
from memoryhub_client.batches import MAX_BATCH, ROOM, cut_batches
from memoryhub_client.openai_agents import MemoryHubSession
from tests.harness.instances import Server

SIZES = {
    "none": ([], []),
    "many": ([1] * 201, [200, 1]),
    "large": ([600_000, 600_000, 1], [1, 2]),
    "alone": ([1, 1_000_000, 1], [1, 1, 1]),
}


@pytest.mark.parametrize("case", SIZES)
def test_batches_are_cut_by_number_and_bytes(case: str) -> None:
    sizes, lengths = SIZES[case]
    items = ["x" * size for size in sizes]
    batches = cut_batches(items)
    assert [each for batch in batches for each in batch] == items
    assert [*map(len, batches)] == lengths
    assert max(lengths, default=0) <= MAX_BATCH


def test_item_beyond_a_request_is_refused_with_item_limit_and_setting() -> None:
    with pytest.raises(TooLarge, match=r"Item 2 of 3 .*9,000.*MEMORYHUB_BODY_BYTES"):
        cut_batches(["a", "x" * 9_000, "b"], 9_000)
    assert cut_batches(["a", "x" * 9_000, "b"], 9_004 + ROOM) == [
        ["a"],
        ["x" * 9_000],
        ["b"],
    ]


@pytest.mark.parametrize(("size", "kept"), [(1_044_000, 3), (1_200_000, 0)])
def test_session_keeps_all_items_or_none(
    served: Server, key: str, size: int, kept: int
) -> None:
    picture = {
        "type": "input_image",
        "image_url": "data:image/png;base64," + "A" * size,
    }
    said: list[Any] = ["small", [picture], "after"]

    async def add() -> list[Any]:
        async with AsyncClient(served.url, key) as hub:
            session = MemoryHubSession(hub, f"pictures-{size}", user_id="ada")
            items = [{"role": "user", "content": each} for each in said]
            if kept:
                await session.add_items(items)
                return await session.get_items()
            with pytest.raises(TooLarge):
                await session.add_items(items)
            with pytest.raises(NotFound):
                await hub.send(threads.get(session.thread))
            return await session.get_items()

    assert len(asyncio.run(add())) == kept
