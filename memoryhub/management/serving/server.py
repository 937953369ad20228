"""The server in this process: bound first, then prepared, then run until a signal."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from collections.abc import Callable

import uvicorn
from django.conf import settings
from django.db import connections

from memoryhub.api.threads.protocol import MESSAGE_BYTES
from memoryhub.errors import StartRefusedError
from memoryhub.management.serving.frames import FrameBound

if sys.platform != "win32":
    from memoryhub.management.serving.heads import HeadBound

#: Seconds that open streams may delay a stop before they are cut.
GRACE_SECONDS = 5


class Server(uvicorn.Server):
    """A uvicorn server that reports when it listens and that a thread can stop."""

    def __init__(self, config: uvicorn.Config, *, listening: Callable[[], None]):
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # Objects loaded by now stay: without the freeze the collector would scan them
        # every few thousand requests, at a fiftieth of the cost of an append.
        gc.freeze()
        self._listening()

    def stop(self) -> None:
        """Stop as on SIGTERM: finish requests, drain the writer."""
        self.should_exit = True


def bind(host: str, port: int) -> socket.socket:
    """Bind a socket to this address, so that a port in use is known before all else."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except (OSError, OverflowError) as failure:
        bound.close()
        reason = failure.strerror if isinstance(failure, OSError) else "no such port"
        raise StartRefusedError(
            f"port_taken: can not listen on {host} port {port} ({reason}); "
            "choose another with --port"
        ) from None
    bound.set_inheritable(False)
    return bound


def build_url(bound: socket.socket) -> str:
    """Build the address to open in a browser on this machine."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def build_server(*, listening: Callable[[], None]) -> Server:
    """Build a server of `memoryhub.asgi`; `listening` is called once it serves."""
    # The last connection to close checkpoints SQLite's log: that must be the writer's.
    connections.close_all()
    proxies = settings.TRUSTED_PROXIES
    config = uvicorn.Config(
        "memoryhub.asgi:application",
        http=_choose_protocol(),
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        ws=FrameBound,
        ws_max_size=MESSAGE_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=20,
        ws_ping_timeout=20,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    return Server(config, listening=listening)


def _choose_protocol() -> type[asyncio.Protocol] | str:
    """Return our HTTP protocol, or uvicorn's choice where httptools is missing."""
    return HeadBound if sys.platform != "win32" else "auto"
