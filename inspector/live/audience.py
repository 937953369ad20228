from __future__ import annotations

import asyncio
import time
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

import structlog

from inspector.live import protocol
from inspector.live.protocol import Close, RefusedError
from inspector.live.rendered_panels import Watch
from inspector.live.standing import Badge, Standing
from inspector.web import read_audit
from memoryhub.journal.audit import Entry
from memoryhub.queries.verify.heads import Head
from memoryhub.services.access import audit

log = structlog.get_logger()

#: A thread and the name of a panel.
Key = tuple[UUID, str]


@dataclass(slots=True, kw_only=True, eq=False)
class Viewer:
    """Hold a socket as the hub sees it: what it shows, whether it can take more."""

    badge: Badge
    standing: Standing
    send: Callable[[str], Awaitable[None]]
    close: Callable[[Close], Awaitable[None]]
    #: The seq that the page shows, by what it wants.
    shown: dict[Key, int] = field(default_factory=dict)
    digests: dict[Key, bytes] = field(default_factory=dict)
    greeted: bool = False
    #: Threads whose content it is shown, as they were when that began.
    reading: dict[UUID, Head] = field(default_factory=dict)
    #: Whether it would hear of new threads of its project.
    fresh: bool = False
    #: Nothing is in flight: the page has painted all it got.
    credit: bool = True
    pushes: int = 0
    served_at: float = 0.0
    _spoken_at: float = 0.0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _notes: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def threads(self) -> set[UUID]:
        return {thread for thread, _ in self.shown}

    def want(self, shown: dict[Key, int]) -> None:
        self.shown, self.digests = shown, {}

    def drop(self, thread: UUID) -> None:
        self.want({key: seq for key, seq in self.shown.items() if key[0] != thread})

    def ahead_of(self, thread: UUID, seq: int) -> list[Key]:
        """List panels of the thread that show more than there is."""
        return [
            key for key, shown in self.shown.items() if key[0] == thread and shown > seq
        ]

    @property
    def under_way(self) -> int:
        """Count messages that are not yet in the connection."""
        return len(self._tasks)

    def silent_since(self, moment: float) -> bool:
        """Tell whether nothing was sent since, and nothing is still on its way."""
        return self._spoken_at < moment and not self.under_way

    def post(self, text: str) -> None:
        """Send without waiting for a slow peer; messages keep their order."""
        self._spoken_at = time.monotonic()
        self._do(self.send(text))

    def end(self, code: Close) -> None:
        self._do(self.close(code))

    async def flush(self) -> None:
        """Wait until everything so far has gone into the connection."""
        await asyncio.gather(*self._tasks, *self._notes)

    async def begin_reading(self, wanted: Collection[Head]) -> None:
        """Note that it is shown these threads now, and no others any more.

        Raises UnavailableError; then it must be shown nothing.
        """
        new = [head for head in wanted if head.thread not in self.reading]
        if new:
            await audit.append_soon(self._read_entries(new, outcome="opened"))
        self.reading |= {head.thread: head for head in new}
        kept = {head.thread for head in wanted}
        self.end_reading(self.reading.keys() - kept)

    def end_reading(self, threads: Collection[UUID] | None = None) -> None:
        """Note that it is shown these threads no more; None is all of them."""
        gone = list(self.reading) if threads is None else threads
        left = [self.reading.pop(thread) for thread in gone if thread in self.reading]
        if left:
            entries = self._read_entries(left, outcome="closed")
            task = asyncio.ensure_future(_noted(entries))
            self._notes.add(task)
            task.add_done_callback(self._notes.discard)

    def _read_entries(self, heads: Iterable[Head], *, outcome: str) -> list[Entry]:
        return read_audit.socket_entries(
            heads,
            operator=self.badge.operator,
            purpose=self.standing.purpose,
            outcome=outcome,
        )

    def _do(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(self._in_turn(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _in_turn(self, work: Awaitable[None]) -> None:
        async with self._turn:
            # The peer may be gone before we have heard of it.
            with suppress(OSError, RuntimeError):
                await work


async def _noted(entries: list[Entry]) -> None:
    try:
        await audit.append_soon(entries)
    except Exception as failure:  # noqa: BLE001  # the outermost loop of a task
        # It was noted when it began, by which whoever asks knows as much.
        log.error("live.failed", code=type(failure).__name__)


class Audience:
    """Keep who watches, and what is watched."""

    def __init__(self) -> None:
        self.viewers: set[Viewer] = set()
        self.watches: dict[UUID, Watch] = {}
        #: By project whose list somebody has open: counts what was new or moved.
        self.fresh: dict[UUID, int] = {}

    def admit(self, viewer: Viewer) -> None:
        """Count a socket in. Raises RefusedError when there are too many."""
        if len(self.viewers) >= protocol.MAX_SOCKETS:
            raise RefusedError(Close.TRY_LATER)
        session = viewer.badge.session
        same = sum(each.badge.session == session for each in self.viewers)
        if same >= protocol.MAX_SOCKETS_PER_SESSION:
            raise RefusedError(Close.TOO_MANY)
        self.viewers.add(viewer)

    def leave(self, viewer: Viewer) -> None:
        self.viewers.discard(viewer)
        viewer.end_reading()
        self.sweep()

    def end(self, viewer: Viewer, code: Close) -> None:
        viewer.end(code)
        self.leave(viewer)

    def clear(self) -> None:
        self.viewers.clear()
        self.watches.clear()
        self.fresh.clear()

    def of(self, watch: Watch) -> list[Viewer]:
        return [each for each in self.viewers if watch.thread in each.threads]

    def due(self, viewer: Viewer) -> Iterator[Key]:
        """Iterate over what the viewer shows an older state of."""
        for key, seq in viewer.shown.items():
            if self.watches[key[0]].head > seq:
                yield key

    def heads(self, viewer: Viewer) -> dict[UUID, int]:
        return {thread: self.watches[thread].head for thread in viewer.threads}

    def freshness(self, viewer: Viewer) -> int:
        project = viewer.standing.project
        return self.fresh.get(project, 0) if project and viewer.fresh else 0

    def erased(self, watch: Watch, code: str, proof: Mapping[str, object]) -> None:
        """Take the thread's content off every page and out of our memory."""
        watch.panels.clear()
        for viewer in self.of(watch):
            viewer.drop(watch.thread)
            viewer.post(protocol.gone(watch.thread, code, proof))

    def restricted(self, watch: Watch) -> None:
        """Show nothing of it any more to who is no officer; lists go on without."""
        for viewer in self.of(watch):
            if viewer.standing.officer:
                continue
            if viewer.threads == {watch.thread}:
                self.end(viewer, Close.FORBIDDEN)
            else:
                viewer.drop(watch.thread)

    def went_back(self, watch: Watch, seq: int) -> None:
        """Have pages fetch anew that show more than a restored database has."""
        watch.head = seq
        watch.panels.clear()
        for viewer in self.of(watch):
            self.call_back(viewer, watch)

    @staticmethod
    def call_back(viewer: Viewer, watch: Watch) -> None:
        """Have a page fetch what it shows of events that aren't there (any more)."""
        if ahead := viewer.ahead_of(watch.thread, watch.head):
            viewer.shown.update(dict.fromkeys(ahead, watch.head))
            viewer.post(protocol.resync("behind"))

    def unpushable(self, watch: Watch) -> None:
        """Have pages fetch a panel that can't be rendered: then it says why."""
        for viewer in self.of(watch):
            mine = [key for key in viewer.shown if key[0] == watch.thread]
            viewer.shown.update(dict.fromkeys(mine, watch.head))
            viewer.post(protocol.resync("format"))

    def sweep(self) -> None:
        """Note since when a thread is left, and forget old texts."""
        now = time.monotonic()
        wanted = {thread for viewer in self.viewers for thread in viewer.threads}
        for thread, watch in self.watches.items():
            watch.forget(now)
            if thread in wanted:
                watch.left_at = None
            elif watch.left_at is None:
                watch.left_at = now

    def abandoned(self, before: float) -> list[str]:
        """Drop what nobody came back to; returns the groups that need no listening."""
        left = [
            thread
            for thread, watch in self.watches.items()
            if watch.left_at is not None and watch.left_at <= before
        ]
        kept = {viewer.standing.project for viewer in self.viewers if viewer.fresh}
        closed = [project for project in self.fresh if project not in kept]
        for thread in left:
            del self.watches[thread]
        for project in closed:
            del self.fresh[project]
        return _groups(threads=left, projects=closed)

    def groups(self) -> list[str]:
        """List the groups that must be listened to."""
        return _groups(threads=list(self.watches), projects=list(self.fresh))


def _groups(*, threads: list[UUID], projects: list[UUID]) -> list[str]:
    # Our own ids: names that clients choose don't fit a group's alphabet.
    return [
        *(f"thread.{thread}" for thread in threads),
        *(f"project.{project}" for project in projects),
    ]
