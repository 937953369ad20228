"""The live view with a channel for each viewer, and a group message for each frame.

So a channel layer's own guide has it, and so it would be without the hub. Frames are
rendered as ours are, once, and the layer is the one in memory: both favour it.
`python -m benchmarks.groups serve …` starts it.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib import import_module
from typing import Any

import django
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.layers import get_channel_layer
from django.core.management import execute_from_command_line

from benchmarks.hubs import PROJECT


def serve(arguments: list[str]) -> None:
    """Run `manage.py` with sockets that are members of groups."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    django.setup()
    vars(import_module("inspector.live.routing"))["LiveConsumer"] = Member
    execute_from_command_line(["manage.py", *arguments])


class Member(AsyncWebsocketConsumer):
    """Viewer with a channel of its own."""

    async def connect(self) -> None:
        await self.accept()

    async def receive(
        self, text_data: str | None = None, bytes_data: bytes | None = None
    ) -> None:
        protocol = import_module("inspector.live.protocol")
        spoken = protocol.parse(text_data)
        if not isinstance(spoken, protocol.LiveHello):
            return
        group = f"frames.{spoken.want[0].thread}"
        await self.channel_layer.group_add(group, self.channel_name)
        await self.send(protocol.build_hello(mode="doorbell", heads={}))
        await _watch(group, spoken, self.scope)

    async def frame(self, event: dict[str, Any]) -> None:
        await self.send(event["text"])


_watched: set[str] = set()


async def _watch(group: str, spoken: Any, scope: Any) -> None:
    """Have the hub render for the group, as if that were one page."""
    if group in _watched:
        return
    _watched.add(group)
    readers = import_module("memoryhub.queries.threads.readers")
    hubs, audience = (
        import_module("inspector.live.hub"),
        import_module("inspector.live.audience"),
    )
    standings = import_module("inspector.live.standing")
    badge = standings.SocketBadge(
        session=scope["session"].session_key,
        operator=scope["user"].pk,
        project=PROJECT,
        near=True,
    )
    (standing,) = (await readers.read(standings.list_rights, {badge})).values()
    viewer = audience.Viewer(badge=badge, standing=standing, send=None, close=None)
    viewer.send = partial(_spread, group, viewer)
    hubs.hub.audience.admit(viewer)
    await hubs.hub.greet(viewer, spoken)


async def _spread(group: str, viewer: Any, text: str) -> None:
    if text.startswith("{"):
        return
    message = {"type": "frame", "text": text}
    # Its stubs know the base class only, which has no methods.
    layer: Any = get_channel_layer()
    await layer.group_send(group, message)
    import_module("inspector.live.hub").hub.ack(viewer, viewer.pushes)


# Runs inside an instance


def print_sessions(*, count: int) -> None:
    """Sign the default operator in so many times."""
    operators = import_module("memoryhub.services.access.operators")
    sockets = import_module("tests.cast.sockets")
    operator = operators.ensure_default()
    for _ in range(count):
        sys.stdout.write(sockets.sign_in(operator) + "\n")


if __name__ == "__main__":
    serve(sys.argv[1:])
