from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
)
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

import structlog

from inspector.live import protocol
from inspector.live.protocol import LiveCloseCode, SocketRefusedError
from inspector.live.rendered_panels import ThreadWatch
from inspector.live.standing import BadgeRights, SocketBadge
from inspector.web import read_audit
from memoryhub.journal.audit import AuditNote
from memoryhub.models.server.ids import uuid7
from memoryhub.queries.verify.heads import WatchedHead
from memoryhub.services.access import audit

log = structlog.get_logger()

#: A thread and the name of a panel.
PanelKey = tuple[UUID, str]


@dataclass(slots=True, kw_only=True, eq=False)
class Viewer:
    """A socket as the hub sees it: the panels shown, and room for the next push."""

    badge: SocketBadge
    standing: BadgeRights
    send: Callable[[str], Awaitable[None]]
    close: Callable[[LiveCloseCode], Awaitable[None]]
    #: The seq that the page shows, by wanted panel.
    shown: dict[PanelKey, int] = field(default_factory=dict)
    digests: dict[PanelKey, bytes] = field(default_factory=dict)
    greeted: bool = False
    #: Id of the view for the audit log; the page may name its own.
    view: str = field(default_factory=lambda: uuid7().hex)
    #: Project by thread whose content the page has shown.
    reading: dict[UUID, UUID] = field(default_factory=dict)
    #: Whether the page wants to hear of new threads of its project.
    fresh: bool = False
    #: No push is in flight: the page has painted all pushes.
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

    def set_shown(self, shown: dict[PanelKey, int]) -> None:
        self.shown, self.digests = shown, {}

    def drop_thread(self, thread: UUID) -> None:
        self.set_shown(
            {key: seq for key, seq in self.shown.items() if key[0] != thread}
        )

    def list_ahead(self, thread: UUID, seq: int) -> list[PanelKey]:
        """List the thread's panels that show events beyond `seq`."""
        return [
            key for key, shown in self.shown.items() if key[0] == thread and shown > seq
        ]

    @property
    def under_way(self) -> int:
        """Return the number of messages that are not yet in the connection."""
        return len(self._tasks)

    def is_silent_since(self, moment: float) -> bool:
        """Tell whether nothing was sent since the moment, and nothing is under way."""
        return self._spoken_at < moment and not self.under_way

    def send_soon(self, text: str) -> None:
        """Send without waiting for a slow peer; messages keep their order."""
        self._spoken_at = time.monotonic()
        self._schedule(self.send(text))

    def end(self, code: LiveCloseCode) -> None:
        self._schedule(self.close(code))

    async def flush(self) -> None:
        """Wait until all messages so far are in the connection."""
        await asyncio.gather(*self._tasks, *self._notes)

    async def begin_reading(self, wanted: Collection[WatchedHead]) -> None:
        """Audit that the page shows the content of these threads.

        Threads that the log has in this view already add no entry. See decision 94.
        Raises UnavailableError; the caller must then show no content.
        """
        new = [head for head in wanted if head.thread not in self.reading]
        if new:
            entries = read_audit.build_socket_entries(
                new,
                operator=self.badge.operator,
                purpose=self.standing.purpose,
                view=self.view,
            )
            await audit.record_looks_soon(entries)
        self.reading |= {head.thread: head.project for head in new}

    def end_reading(self) -> None:
        """Audit that the page is closed, if it has shown content."""
        shown, self.reading = self.reading, {}
        for project, count in Counter(shown.values()).items():
            entry = read_audit.build_closing_entry(
                project,
                operator=self.badge.operator,
                purpose=self.standing.purpose,
                view=self.view,
                count=count,
            )
            task = asyncio.ensure_future(_append_entries([entry]))
            self._notes.add(task)
            task.add_done_callback(self._notes.discard)

    def _schedule(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(self._run_in_turn(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_in_turn(self, work: Awaitable[None]) -> None:
        async with self._turn:
            # The peer may have disconnected before the server notices.
            with suppress(OSError, RuntimeError):
                await work


async def _append_entries(entries: list[AuditNote]) -> None:
    try:
        await audit.append_soon(entries)
    except Exception as failure:  # noqa: BLE001  # the outermost loop of a task
        # The audit log has the beginning of the read, which tells enough.
        log.error("live.failed", code=type(failure).__name__)


class Audience:
    """The open sockets, and the threads and projects that they watch."""

    def __init__(self) -> None:
        self.viewers: set[Viewer] = set()
        self.watches: dict[UUID, ThreadWatch] = {}
        #: By project with an open list: count of threads that were new or moved.
        self.fresh: dict[UUID, int] = {}

    def admit(self, viewer: Viewer) -> None:
        """Admit a socket. Raises SocketRefusedError when there are too many."""
        if len(self.viewers) >= protocol.MAX_SOCKETS:
            raise SocketRefusedError(LiveCloseCode.TRY_LATER)
        session = viewer.badge.session
        same = sum(each.badge.session == session for each in self.viewers)
        if same >= protocol.MAX_SOCKETS_PER_SESSION:
            raise SocketRefusedError(LiveCloseCode.TOO_MANY)
        self.viewers.add(viewer)

    def leave(self, viewer: Viewer) -> None:
        self.viewers.discard(viewer)
        viewer.end_reading()
        self.sweep()

    def end(self, viewer: Viewer, code: LiveCloseCode) -> None:
        viewer.end(code)
        self.leave(viewer)

    def clear(self) -> None:
        self.viewers.clear()
        self.watches.clear()
        self.fresh.clear()

    def list_viewers(self, watch: ThreadWatch) -> list[Viewer]:
        return [each for each in self.viewers if watch.thread in each.threads]

    def iter_due(self, viewer: Viewer) -> Iterator[PanelKey]:
        """Iterate over the panels of which the viewer shows an older state."""
        for key, seq in viewer.shown.items():
            if self.watches[key[0]].head > seq:
                yield key

    def get_heads(self, viewer: Viewer) -> dict[UUID, int]:
        return {thread: self.watches[thread].head for thread in viewer.threads}

    def get_freshness(self, viewer: Viewer) -> int:
        project = viewer.standing.project
        return self.fresh.get(project, 0) if project and viewer.fresh else 0

    def drop_erased(
        self, watch: ThreadWatch, code: str, proof: Mapping[str, object]
    ) -> None:
        """Remove an erased thread's content from every page and from memory.

        See decision 28.
        """
        watch.panels.clear()
        for viewer in self.list_viewers(watch):
            viewer.drop_thread(watch.thread)
            viewer.send_soon(protocol.build_gone(watch.thread, code, proof))

    def drop_restricted(self, watch: ThreadWatch) -> None:
        """Drop a restricted thread for all but officers; close pages of that thread."""
        for viewer in self.list_viewers(watch):
            if viewer.standing.officer:
                continue
            if viewer.threads == {watch.thread}:
                self.end(viewer, LiveCloseCode.FORBIDDEN)
            else:
                viewer.drop_thread(watch.thread)

    def reset_head(self, watch: ThreadWatch, seq: int) -> None:
        """Set an older head after a database restore; pages beyond it fetch again."""
        watch.head = seq
        watch.panels.clear()
        for viewer in self.list_viewers(watch):
            self.call_back(viewer, watch)

    @staticmethod
    def call_back(viewer: Viewer, watch: ThreadWatch) -> None:
        """Ask a page to fetch again the panels that show events beyond the head."""
        if ahead := viewer.list_ahead(watch.thread, watch.head):
            viewer.shown.update(dict.fromkeys(ahead, watch.head))
            viewer.send_soon(protocol.build_resync("behind"))

    def request_refetch(self, watch: ThreadWatch) -> None:
        """Ask pages to fetch panels that failed to render; the answer tells why."""
        for viewer in self.list_viewers(watch):
            mine = [key for key in viewer.shown if key[0] == watch.thread]
            viewer.shown.update(dict.fromkeys(mine, watch.head))
            viewer.send_soon(protocol.build_resync("format"))

    def sweep(self) -> None:
        """Note when the last viewer left each thread, and drop old texts."""
        now = time.monotonic()
        wanted = {thread for viewer in self.viewers for thread in viewer.threads}
        for thread, watch in self.watches.items():
            watch.forget(now)
            if thread in wanted:
                watch.left_at = None
            elif watch.left_at is None:
                watch.left_at = now

    def drop_abandoned(self, before: float) -> list[str]:
        """Drop watches left by `before` and unwatched projects; return their groups."""
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
        return _build_groups(threads=left, projects=closed)

    def list_groups(self) -> list[str]:
        """List the channel-layer groups that the hub must listen to."""
        return _build_groups(threads=list(self.watches), projects=list(self.fresh))


def _build_groups(*, threads: list[UUID], projects: list[UUID]) -> list[str]:
    # Our own ids: names chosen by clients may not fit a group's alphabet.
    return [
        *(f"thread.{thread}" for thread in threads),
        *(f"project.{project}" for project in projects),
    ]
