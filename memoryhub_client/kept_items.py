"""Messages that people read, with a framework's own item beside, as it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memoryhub_client import slots
from memoryhub_client.async_client import AsyncClient
from memoryhub_client.batches import MAX_BATCH
from memoryhub_client.slots import Slot

#: Member of a message that the hub stores, but neither shows, searches nor counts.
BESIDE = "extra_content"


def build_slots(
    messages: Sequence[dict[str, Any]],
    kind: str,
    item: Mapping[str, Any],
    *,
    agent_at: str | None = None,
) -> list[Slot]:
    """Build the slots of an item's messages; the last one carries the item.

    An item without messages is an empty message of the system.
    """
    shown = messages or [{"role": "system", "content": ""}]
    built = [slots.chat(replace_nul(each)) for each in shown]
    built[-1]["content"] = {**built[-1]["content"], BESIDE: {kind: item}}
    for slot in built if agent_at else ():
        slot["agent_at"] = agent_at
    return built


def replace_nul(value: Any) -> Any:
    """Return the value with U+FFFD in place of U+0000, which the hub refuses."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, dict):
        return {replace_nul(name): replace_nul(each) for name, each in value.items()}
    return [*map(replace_nul, value)] if isinstance(value, list) else value


def find_item(slot: Mapping[str, Any], kind: str) -> Any:
    """Return the item that the slot carries; None if it carries none of this kind."""
    content = slot["content"]
    beside = content.get(BESIDE) if isinstance(content, dict) else None
    return beside.get(kind) if isinstance(beside, dict) else None


async def list_indexes(hub: AsyncClient, thread: str) -> list[int]:
    """List the indexes of the messages that are not struck."""
    listing = slots.list_all(thread, content="none", limit=MAX_BATCH)
    return [each["index"] async for each in hub.each(listing)]


async def strike_slots(hub: AsyncClient, thread: str, indexes: Sequence[int]) -> None:
    """Take messages out of requests, lists and searches, 200 in one request."""
    for start in range(0, len(indexes), MAX_BATCH):
        batch = indexes[start : start + MAX_BATCH]
        await hub.send(slots.strike(thread, batch))
