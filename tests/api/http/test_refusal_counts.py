"""Counts of refusals by code, and by thread where there is one."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.models.activity import RefusalCount
from tests.api.client import Client
from tests.cast.sockets import serving

pytestmark = pytest.mark.django_db(transaction=True)

SLOTS = "/api/v1/threads/t-1/slots"
SLOT: dict[str, Any] = {
    "from": "user",
    "to": "agent",
    "type": "x.one",
    "content": "hello",
}


async def count_refusals(*, threads: bool) -> dict[str, int]:
    rows = RefusalCount.objects.filter(minutes=60, thread__isnull=not threads)
    return {row.code: row.count async for row in rows}


async def test_refusals_are_counted_by_code_and_thread(api: Client) -> None:
    async with serving():
        assert (await api.send("POST", SLOTS, SLOT)).status == 201
        assert (await api.send("GET", f"{SLOTS}/99")).status == 404
        assert (await api.send("POST", SLOTS, {**SLOT, "from": ""})).status == 422
        assert (await api.send("GET", "/api/v1/threads/nobody/slots")).status == 404
    assert await count_refusals(threads=False) == {"not_found": 2, "name": 1}
    assert await count_refusals(threads=True) == {"not_found": 1, "name": 1}


async def test_refused_fetch_is_counted_once(api: Client) -> None:
    async with serving():
        assert (await api.send("POST", SLOTS, SLOT)).status == 201
        path = "/api/v1/threads/t-1/pages/slot-77/fault"
        answer = await api.send("POST", path, {"reason": "resolve_reference"})
        assert answer.status == 404
    for threads in (True, False):
        assert await count_refusals(threads=threads) == {"page_unknown": 1}


async def test_refusal_without_a_key_is_counted_for_no_project(nobody: Client) -> None:
    async with serving():
        assert (await nobody.send("GET", SLOTS)).status == 401
    assert not await RefusalCount.objects.aexists()
