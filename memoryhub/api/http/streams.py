"""Streams of followed threads: the events to send, and the wake-up when there are more.

A commit of any process rings for the followers of its thread. Once a second the lookout
compares the heads of all followed threads, in case a ring was missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import structlog

from memoryhub.api.http.reading import get_agent_thread
from memoryhub.journal.log import listener
from memoryhub.journal.log.listener import Listener
from memoryhub.queries.threads.events import ThreadEventLine, list_part
from memoryhub.queries.threads.readers import read
from memoryhub.queries.verify.heads import WatchedHead, list_heads
from memoryhub.services.access.api_keys import Agent

log = structlog.get_logger()

LOOK_SECONDS = 1.0
#: Most threads of one head query; databases bound the parameters of a query.
LOOK_THREADS = 5_000
#: Read-ahead for a slow client: a number of events, or a number of bytes and an event.
STREAM_BATCH, STREAM_BYTES = 100, 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """An agent and the thread that it follows."""

    agent: Agent
    name: str
    content: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sendable:
    """Rendered events by seq, and whether more events follow."""

    chunks: list[tuple[int, bytes]]
    more: bool


def read_next_part(
    subscription: Subscription,
    after: int,
    *,
    render: Callable[[ThreadEventLine], bytes],
) -> Sendable:
    """Read and render the next part at once, under the subject's present state.

    Raises what any other reading of the thread raises, e.g. SubjectRestrictedError.
    """
    thread = get_agent_thread(subscription.agent, subscription.name)
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
    """A waiter for changes of one thread; followers may share a bell."""

    thread: UUID
    bell: asyncio.Event = field(default_factory=asyncio.Event)
    #: Whether there may be something to read; true at first.
    moved: bool = True

    def ring_bell(self) -> None:
        self.moved = True
        self.bell.set()


async def wait_for_bell(bell: asyncio.Event, *, seconds: float) -> None:
    """Wait until the bell rings or the time is up."""
    # Not `wait_for`, which loses a cancellation that coincides with the result.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await bell.wait()
    # Cleared before the caller reads, so that a ring during the reads counts.
    bell.clear()


class Lookout:
    """Watcher of threads for their followers; idle without followers."""

    def __init__(self) -> None:
        self._followers: set[Follower] = set()
        self._heads: dict[UUID, WatchedHead] = {}
        self._ear = Listener("streams")
        self._looking: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        #: Running joins and leaves of channel-layer groups.
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
            listen = self._ear.listen(self._ring_followers, self._list_groups)
            self._listening = asyncio.create_task(listen)
        elif first:
            self._keep_task(
                self._ear.join([listener.name_thread_group(follower.thread)])
            )

    def leave(self, follower: Follower) -> None:
        self._followers.discard(follower)
        if all(other.thread != follower.thread for other in self._followers):
            self._keep_task(
                self._ear.leave([listener.name_thread_group(follower.thread)])
            )

    def _keep_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    def _list_groups(self) -> list[str]:
        return [
            *{
                listener.name_thread_group(follower.thread)
                for follower in self._followers
            }
        ]

    def _ring_followers(self, thread: UUID, seq: int) -> None:
        for follower in self._followers:
            if follower.thread == thread:
                follower.ring_bell()

    async def _look(self) -> None:
        while self._followers:
            watched = [*{follower.thread for follower in self._followers}]
            try:
                heads = await _list_heads(watched)
            except Exception as failure:  # noqa: BLE001 # the outermost loop of a task
                log.warning("lookout.failed", code=type(failure).__name__)
            else:
                for follower in self._followers:
                    # A head also changes by erasure or restriction, without a seq.
                    head = heads.get(follower.thread)
                    if head != self._heads.get(follower.thread):
                        follower.ring_bell()
                self._heads = heads
            await asyncio.sleep(LOOK_SECONDS)
        if self._listening is not None:
            self._listening.cancel()


async def _list_heads(threads: Collection[UUID]) -> dict[UUID, WatchedHead]:
    """List the heads of these threads; deleted threads are left out."""
    named = [*threads]
    found: dict[UUID, WatchedHead] = {}
    for start in range(0, len(named), LOOK_THREADS):
        found |= await read(list_heads, named[start : start + LOOK_THREADS])
    return found


#: The only lookout of this process.
lookout = Lookout()
