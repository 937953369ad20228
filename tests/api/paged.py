"""Pages of one thread, as an agent makes and moves them."""

from __future__ import annotations

from typing import Any

from tests.api.client import PAGE, Answer, Client

T = "/threads/t-1"


async def make(
    api: Client, page_id: str, text: str = "Fares.", **fields: Any
) -> Answer:
    body = {**PAGE, "page_id": page_id, "content": {"text": text}, **fields}
    return await api.post(f"{T}/pages", body)


async def act(api: Client, page_id: str, verb: str, **fields: Any) -> Answer:
    return await api.post(f"{T}/pages/{page_id}/{verb}", fields)


async def list_ids(api: Client, query: str = "") -> list[str]:
    items = (await api.get(f"{T}/pages{query}")).json["items"]
    return [item["page_id"] for item in items]
