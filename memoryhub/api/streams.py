"""Streams: one look a second at the heads of all threads that this process follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from uuid import UUID

import structlog

from memoryhub.queries.readers import read
from memoryhub.queries.threads import head_seqs

log = structlog.get_logger()

#: A look asks for all watched threads in one query.
LOOK_SECONDS = 1.0


@dataclass(eq=False, slots=True)
class Follower:
    """Waits for one thread to move."""

    thread: UUID
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait(self, *, seconds: float) -> bool:
        """Whether the thread moved before the time was up."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.moved.wait(), seconds)
        moved = self.moved.is_set()
        # Before the read that follows, so that what happens during it counts.
        self.moved.clear()
        return moved


class Lookout:
    """Watches threads for their followers; idle while there are none."""

    def __init__(self) -> None:
        self._followers: set[Follower] = set()
        self._heads: dict[UUID, int] = {}
        self._looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def follow(self, thread: UUID) -> AsyncIterator[Follower]:
        follower = Follower(thread)
        self._followers.add(follower)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            yield follower
        finally:
            self._followers.discard(follower)

    async def _look(self) -> None:
        while self._followers:
            watched = {follower.thread for follower in self._followers}
            try:
                heads = await read(head_seqs, watched)
            except Exception as failure:  # noqa: BLE001 # the outermost loop of a task
                log.warning("lookout.failed", code=type(failure).__name__)
            else:
                for follower in self._followers:
                    head = heads.get(follower.thread)
                    if head != self._heads.get(follower.thread):
                        follower.moved.set()
                self._heads = heads
            await asyncio.sleep(LOOK_SECONDS)


#: The process's one lookout.
lookout = Lookout()
