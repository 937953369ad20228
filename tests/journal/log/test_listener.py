"""A listener that is cancelled listens no more."""

from __future__ import annotations

import asyncio

import pytest
from channels_redis.core import RedisChannelLayer

from memoryhub.journal.log import listener
from memoryhub.journal.log.listener import Listener

STEPS = 60


async def _ends(steps: int) -> bool:
    """Tell whether a listener ends that is cancelled after so many loop steps."""
    listening = asyncio.create_task(
        Listener("test").listen(lambda thread, seq: None, lambda: ["group"])
    )
    for _ in range(steps):
        await asyncio.sleep(0)
    listening.cancel()
    await asyncio.wait([listening], timeout=2)
    return listening.cancelled()


async def test_listener_ends_whenever_it_is_cancelled(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener's Redis client forgets a cancellation during a send."""
    for steps in range(STEPS):
        layer = RedisChannelLayer(hosts=[{"address": redis_url, "socket_timeout": 15}])
        monkeypatch.setattr(listener, "_get_layer", lambda layer=layer: layer)
        assert await _ends(steps), steps
        await layer.close_pools()
