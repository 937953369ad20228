"""Each key's reads and writes of a subject's memory, by day; never a write per read."""

from __future__ import annotations

from typing import Any

import pytest

from memoryhub.models.access.audit import DailyUse
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


async def used() -> tuple[int, int]:
    found = [row async for row in DailyUse.objects.all()]
    return sum(row.reads for row in found), sum(row.writes for row in found)


async def test_reads_and_writes_are_flushed_when_the_server_ends(api: Client) -> None:
    async with serving():
        assert (await api.send("POST", SLOTS, SLOT)).status == 201
        for _ in range(3):
            assert (await api.send("GET", SLOTS)).status == 200
        assert await used() == (0, 0)
    assert await used() == (3, 1)


async def test_refused_request_counts_as_no_use(api: Client, foreign: Client) -> None:
    async with serving():
        assert (await api.send("POST", SLOTS, SLOT)).status == 201
        assert (await foreign.send("GET", SLOTS)).status == 404
        assert (await api.send("GET", f"{SLOTS}?start=x")).status == 422
    assert await used() == (0, 1)
    assert await DailyUse.objects.acount() == 1
