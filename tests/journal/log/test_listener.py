"""A listener that is cancelled listens no more."""

from __future__ import annotations

import asyncio

import pytest
from channels_redis.core import RedisChannelLayer

from memoryhub.journal.log import listener
from memoryhub.journal.log.listener import Listener

STEPS = 60


async def _ends(steps: int) -> bool:
    """Whether a listener that is cancelled after so many steps of the loop ends."""
    listening = asyncio.create_task(
        Listener("test").listen(lambda thread, seq: None, lambda: ["group"])
    )
    for _ in range(steps):
        await asyncio.sleep(0)
    listening.cancel()
    await asyncio.wait([listening], timeout=2)
    return listening.cancelled()


async def test_a_listener_ends_whenever_it_is_cancelled(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Redis client forgets a cancellation that comes as it has sent something."""
    for steps in range(STEPS):
        layer = RedisChannelLayer(hosts=[{"address": redis_url, "socket_timeout": 15}])
        monkeypatch.setattr(listener, "_layer", lambda layer=layer: layer)
        assert await _ends(steps), steps
        await layer.close_pools()
