from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from inspector.live.consumers import LIVE_PATH, LiveConsumer
from inspector.live.protocol import LiveCloseCode

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


async def websocket_application(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve every socket of a browser. Expects `session` and `user` in the scope."""
    if LIVE_PATH.fullmatch(scope["path"]):
        live = cast("Application", LiveConsumer.as_asgi())
        await live(scope, receive, send)
        return
    # A router would log a traceback for an unknown path. A refused handshake looks like
    # a lost connection, which the browser would retry for ever.
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": LiveCloseCode.NOT_FOUND})
