"""Loader of the inspector's pages and sockets, at the first request for either.

A server answers agents before anybody looks. Views, live panels and passkeys take a
sixth of the start and 10 MB.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inspector.live.hub import Hub

#: Modules whose imports include all others of the inspector.
MODULES = ("inspector.urls", "inspector.live.routing")


class InspectorLoader:
    """Loader that imports on a thread, and starts the hub of the live pages."""

    def __init__(self) -> None:
        self._hub: Hub | None = None
        self.start()

    def start(self) -> None:
        """Be ready for this event loop: another one's lock and hub are of no use."""
        self._loading, self._hub = asyncio.Lock(), None

    async def load(self) -> None:
        """Load all modules and start the hub, unless that is done."""
        if self._hub is not None:
            return
        async with self._loading:
            if self._hub is None:
                await asyncio.to_thread(_import_modules)
                hub: Hub = import_module("inspector.live.hub").hub
                await hub.start()
                self._hub = hub

    async def stop(self) -> None:
        """Stop the hub, if it runs."""
        hub, self._hub = self._hub, None
        if hub is not None:
            await hub.stop()

    def count_sockets(self) -> int:
        """Count the open sockets of pages."""
        return 0 if self._hub is None else self._hub.count_activity()["sockets"]


def _import_modules() -> None:
    for name in MODULES:
        import_module(name)


#: The process's one loader.
loader = InspectorLoader()
