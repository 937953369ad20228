"""Streams: what is sent of a thread that is followed, and when there is more of it.

A commit of any process rings for those who follow its thread; one look a second sees
where all followed threads stand, for what was not heard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import structlog

from memoryhub.api.http.reading import find_thread
from memoryhub.journal.log import listener
from memoryhub.journal.log.listener import Listener
from memoryhub.queries.threads.events import EventLine, list_part
from memoryhub.queries.threads.readers import read
from memoryhub.queries.verify.heads import Head, list_heads
from memoryhub.services.access.api_keys import Agent

log = structlog.get_logger()

LOOK_SECONDS = 1.0
#: Threads that one query of a look asks for; databases bound what a query may name.
LOOK_THREADS = 5_000
#: What is read ahead of a slow client: so many events, or so many bytes and an event.
STREAM_BATCH, STREAM_BYTES = 100, 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Who follows which thread."""

    agent: Agent
    name: str
    content: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sendable:
    """Events as they are sent, by seq, and whether there are more after them."""

    chunks: list[tuple[int, bytes]]
    more: bool


def next_part(
    subscription: Subscription, after: int, *, render: Callable[[EventLine], bytes]
) -> Sendable:
    """Read and render the next part at once, under the subject as it is now.

    Raises what any other reading of the thread would, e.g. SubjectRestrictedError.
    """
    thread = find_thread(subscription.agent, subscription.name)
    if thread.head_seq <= after:
        return Sendable(chunks=[], more=False)
    part = list_part(
        thread,
        after=after,
        limit=STREAM_BATCH,
        content=subscription.content,
        max_bytes=STREAM_BYTES,
    )
    chunks = [(line.seq, render(line)) for line in part.items]
    return Sendable(chunks=chunks, more=part.more)


@dataclass(eq=False, slots=True)
class Follower:
    """Waits for one thread to move; its bell may ring for others as well."""

    thread: UUID
    bell: asyncio.Event = field(default_factory=asyncio.Event)
    #: There may be something to read, as there may be at first.
    moved: bool = True

    def ring(self) -> None:
        self.moved = True
        self.bell.set()


async def rung(bell: asyncio.Event, *, seconds: float) -> None:
    """Wait until the bell has rung or the time is up."""
    # Not `wait_for`, which forgets that it was cancelled when both happen at once.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await bell.wait()
    # Before the reads that follow, so that what happens during them counts.
    bell.clear()


class Lookout:
    """Watches threads for their followers; idle while there are none."""

    def __init__(self) -> None:
        self._followers: set[Follower] = set()
        self._heads: dict[UUID, Head] = {}
        self._ear = Listener("streams")
        self._looking: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        #: What the layer is being told of.
        self._telling: set[asyncio.Task[None]] = set()

    @contextmanager
    def follow(self, thread: UUID) -> Iterator[Follower]:
        follower = Follower(thread)
        self.join(follower)
        try:
            yield follower
        finally:
            self.leave(follower)

    def join(self, follower: Follower) -> None:
        first = all(other.thread != follower.thread for other in self._followers)
        self._followers.add(follower)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
            listen = self._ear.listen(self._ring_followers, self._groups)
            self._listening = asyncio.create_task(listen)
        elif first:
            self._keep_task(self._ear.join([listener.of_thread(follower.thread)]))

    def leave(self, follower: Follower) -> None:
        self._followers.discard(follower)
        if all(other.thread != follower.thread for other in self._followers):
            self._keep_task(self._ear.leave([listener.of_thread(follower.thread)]))

    def _keep_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    def _groups(self) -> list[str]:
        return [*{listener.of_thread(follower.thread) for follower in self._followers}]

    def _ring_followers(self, thread: UUID, seq: int) -> None:
        for follower in self._followers:
            if follower.thread == thread:
                follower.ring()

    async def _look(self) -> None:
        while self._followers:
            watched = [*{follower.thread for follower in self._followers}]
            try:
                heads = await _heads(watched)
            except Exception as failure:  # noqa: BLE001 # the outermost loop of a task
                log.warning("lookout.failed", code=type(failure).__name__)
            else:
                for follower in self._followers:
                    # Also when it is erased or restricted, which moves no seq.
                    head = heads.get(follower.thread)
                    if head != self._heads.get(follower.thread):
                        follower.ring()
                self._heads = heads
            await asyncio.sleep(LOOK_SECONDS)
        if self._listening is not None:
            self._listening.cancel()


async def _heads(threads: Collection[UUID]) -> dict[UUID, Head]:
    """Where these threads stand; those that are gone are left out."""
    named = [*threads]
    found: dict[UUID, Head] = {}
    for start in range(0, len(named), LOOK_THREADS):
        found |= await read(list_heads, named[start : start + LOOK_THREADS])
    return found


#: The process's one lookout.
lookout = Lookout()
