from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Protocol
from uuid import UUID

import structlog

import inspector
from inspector.live import protocol, standing
from inspector.live.audience import Audience, Viewer
from inspector.live.protocol import LiveCloseCode, SocketRefusedError
from inspector.live.rendered_panels import ThreadWatch
from inspector.live.renderer import Renderer
from inspector.web.read_audit import PLAIN_PANELS, open_view
from memoryhub.errors import NotFoundError, UnavailableError
from memoryhub.queries.threads.readers import read
from memoryhub.queries.verify import heads
from memoryhub.queries.verify.heads import WatchedHead

log = structlog.get_logger()

#: Seconds between looks, with a doorbell and without one; a look finds lost notices.
LOOK_SECONDS, POLL_SECONDS = 2.0, 1.0
CHECK_SECONDS = 5.0
#: Seconds for which a thread is still watched after its last viewer left.
LINGER_SECONDS = 30.0
REJOIN_SECONDS = 60.0
MAX_WATCHES = 10_000
#: Seconds to flush at the end; a peer that reads nothing must not hold up the end.
FAREWELL_SECONDS = 1.0
CANCEL_SECONDS = 0.1


class Bell(Protocol):
    """Notifier of commits. It may lose notices, and tells so by `broken`."""

    @property
    def is_broken(self) -> bool: ...

    async def listen(
        self,
        hear: Callable[[UUID, int], None],
        groups: Callable[[], Collection[str]],
    ) -> None: ...

    async def join(self, groups: Collection[str]) -> None: ...

    async def leave(self, groups: Collection[str]) -> None: ...


class Hub:
    """Path from commit to bytes: one watch a thread, one render for all sockets."""

    def __init__(self) -> None:
        self.bell: Bell | None = None
        self.audience = Audience()
        self.renderer = Renderer(self.audience)
        self._newest: dict[UUID, datetime | None] = {}
        #: Threads named by notices since the last look, of unknown project.
        self._strange: set[UUID] = set()
        self._rejoin_at = 0.0
        self._tasks: list[asyncio.Future[None]] = []

    @property
    def mode(self) -> str:
        """Return `doorbell` if notices of commits arrive at once, else `polling`."""
        return "polling" if self.bell is None or self.bell.is_broken else "doorbell"

    def count_activity(self) -> dict[str, int]:
        """Count sockets, messages and watches now, and work since the start.

        Any thread may call this.
        """
        # Copied at once, since sockets come and go meanwhile.
        viewers = list(self.audience.viewers)
        watches = list(self.audience.watches.values())
        return {
            "sockets": len(viewers),
            "under_way": sum(viewer.under_way for viewer in viewers),
            "threads": len(watches),
            "frames": sum(len(watch.panels) for watch in watches),
            "renders": self.renderer.tally.renders,
            "pushes": self.renderer.tally.pushes,
        }

    async def start(self) -> None:
        """Start to listen, look, serve and check, on the running loop."""
        self.renderer = Renderer(self.audience)
        self._rejoin_at = time.monotonic() + REJOIN_SECONDS
        work = [
            _run_forever(self.renderer.serve, every=lambda: 0.0),
            _run_forever(self.look, every=self._get_look_seconds),
            _run_forever(self.check, every=lambda: CHECK_SECONDS),
        ]
        if self.bell is not None:
            work.append(self.bell.listen(self.hear, self.audience.list_groups))
        self._tasks = [asyncio.ensure_future(each) for each in work]

    async def stop(self) -> None:
        """Stop the tasks and close all sockets; pages reconnect to the next process."""
        running = set(self._tasks)
        while running:
            # Repeated, since a channel layer may swallow a cancellation.
            for task in running:
                task.cancel()
            _, running = await asyncio.wait(running, timeout=CANCEL_SECONDS)
        self._tasks = []
        viewers = list(self.audience.viewers)
        for viewer in viewers:
            viewer.end(LiveCloseCode.RESTART)
            viewer.end_reading()
        self.audience.clear()
        self._newest.clear()
        self._strange.clear()
        flushed = asyncio.gather(*(viewer.flush() for viewer in viewers))
        with suppress(TimeoutError):
            await asyncio.wait_for(flushed, FAREWELL_SECONDS)

    # Sockets

    async def greet(self, viewer: Viewer, hello: protocol.LiveHello) -> None:
        """Accept a hello. Raises SocketRefusedError if it may see no wanted thread."""
        project = viewer.standing.project
        assert project is not None
        threads = {want.thread for want in hello.want}
        found = await read(heads.list_heads, threads, project=project)
        wanted = _select_allowed(viewer, threads, found)
        current = hello.build == inspector.BUILD
        await _audit_reading(viewer, hello, wanted if current else {})
        # Join first, then read, so that no commit in between is missed.
        await self._join_groups(project, wanted.values(), fresh=hello.fresh)
        found = await read(heads.list_heads, wanted, project=project)
        if viewer not in self.audience.viewers:
            viewer.end_reading()
            return
        viewer.set_shown(_map_shown(hello, wanted) if current else {})
        viewer.greeted, viewer.fresh = True, hello.fresh
        seqs = {thread: head.seq for thread, head in found.items()}
        viewer.send_soon(protocol.build_hello(mode=self.mode, heads=seqs))
        if not current:
            viewer.send_soon(protocol.build_resync("build"))
        for thread, seq in seqs.items():
            watch = self.audience.watches[thread]
            watch.head = max(watch.head, seq)
            self.audience.call_back(viewer, watch)
        self.audience.sweep()
        self.renderer.wake()

    def ack(self, viewer: Viewer, n: int) -> None:
        """Note that the page has painted push `n`, and can take the next push."""
        if n == viewer.pushes:
            viewer.credit = True
            self.renderer.wake()

    async def _join_groups(
        self, project: UUID, found: Iterable[WatchedHead], *, fresh: bool
    ) -> None:
        watches, now = self.audience.watches, time.monotonic()
        groups = []
        for head in found:
            if watch := watches.get(head.thread):
                # A watch that was about to be dropped stays while the page joins.
                watch.left_at = watch.left_at and now
                continue
            if len(watches) >= MAX_WATCHES:
                raise SocketRefusedError(LiveCloseCode.TRY_LATER)
            watches[head.thread] = ThreadWatch(thread=head.thread, project=project)
            groups.append(f"thread.{head.thread}")
        if fresh and project not in self.audience.fresh:
            self.audience.fresh[project] = 1
            groups.append(f"project.{project}")
        if groups and self.bell is not None:
            await self.bell.join(groups)

    # Notices and looks

    def hear(self, thread: UUID, seq: int) -> None:
        """Take a notice of a commit. It only wakes; the renderer reads the database."""
        watch, fresh = self.audience.watches.get(thread), self.audience.fresh
        # The project of an unwatched thread is unknown, except that a single project
        # with open lists is taken for it. Otherwise the next look reads the project.
        alone = next(iter(fresh)) if len(fresh) == 1 else None
        project = alone if watch is None else watch.project
        if project in fresh:
            fresh[project] += 1
        elif watch is None and fresh and len(self._strange) < MAX_WATCHES:
            self._strange.add(thread)
        if watch is not None and seq > watch.head:
            watch.head = seq
            self.renderer.wake()

    async def look(self) -> None:
        """Read the heads of watched threads, and send beats to silent sockets.

        One query, and one or two more while lists are open. Beats are sent only after a
        successful look, so that pages of a server that cannot read grow stale.
        """
        watches = self.audience.watches
        before = {
            each.thread: each.head for each in watches.values() if each.left_at is None
        }
        found = await read(heads.list_heads, before) if before else {}
        for thread, seq in before.items():
            if watch := watches.get(thread):
                self._take_head(watch, found.get(thread), before=seq)
        await self._look_for_fresh()
        self._send_beats()
        self.audience.sweep()
        await self._refresh_groups()

    def _take_head(
        self, watch: ThreadWatch, head: WatchedHead | None, *, before: int
    ) -> None:
        if head is None or head.erased:
            code = head.erased if head else None
            proof = head.proof.detail if head and head.proof else {}
            self.audience.drop_erased(watch, code or NotFoundError.code, proof)
            return
        if head.restricted:
            self.audience.drop_restricted(watch)
        if head.seq < before:
            # The head is older than before the query: the database was restored.
            self.audience.reset_head(watch, head.seq)
        elif head.seq > watch.head:
            watch.head = head.seq
            self.renderer.wake()

    async def _look_for_fresh(self) -> None:
        fresh = self.audience.fresh
        if not fresh:
            return
        strange, self._strange = self._strange, set()
        found = await read(heads.list_heads, strange) if strange else {}
        for project in {head.project for head in found.values()}:
            if project in fresh:
                fresh[project] += 1
        newest = await read(heads.list_newest, list(fresh))
        for project, at in newest.items():
            if self._newest.get(project, at) != at and project in fresh:
                fresh[project] += 1
        self._newest = newest

    def _send_beats(self) -> None:
        """Send a beat to each socket that got no message lately."""
        silent = time.monotonic() - LOOK_SECONDS * 0.9
        for viewer in self.audience.viewers:
            if viewer.greeted and viewer.is_silent_since(silent):
                beat = protocol.build_beat(
                    mode=self.mode,
                    heads=self.audience.get_heads(viewer),
                    fresh=self.audience.get_freshness(viewer),
                )
                viewer.send_soon(beat)

    async def _refresh_groups(self) -> None:
        """Leave the groups of abandoned watches; rejoin all groups now and then."""
        now = time.monotonic()
        left = self.audience.drop_abandoned(now - LINGER_SECONDS)
        if self.bell is None:
            return
        if left:
            await self.bell.leave(left)
        if now >= self._rejoin_at:
            # A restarted channel layer has forgotten the groups.
            self._rejoin_at = now + REJOIN_SECONDS
            await self.bell.join(self.audience.list_groups())

    async def check(self) -> None:
        """Close sockets of operators who signed out or lost the role. One query."""
        badges = {viewer.badge for viewer in self.audience.viewers}
        found = await read(standing.list_rights, badges) if badges else {}
        for viewer in list(self.audience.viewers):
            if now := found.get(viewer.badge):
                viewer.standing = now
                if now.close is not None:
                    self.audience.end(viewer, now.close)

    def _get_look_seconds(self) -> float:
        return POLL_SECONDS if self.mode == "polling" else LOOK_SECONDS


def _select_allowed(
    viewer: Viewer, threads: Collection[UUID], found: Mapping[UUID, WatchedHead]
) -> dict[UUID, WatchedHead]:
    """Select the threads that the page may follow, and leave out the others.

    Raises SocketRefusedError if a thread is unknown, or if no thread is left. The code
    matches the answer of the thread's page.
    """
    if len(found) < len(threads):
        raise SocketRefusedError(LiveCloseCode.NOT_FOUND)
    there = {thread: head for thread, head in found.items() if not head.erased}
    if threads and not there:
        raise SocketRefusedError(LiveCloseCode.ERASED)
    officer = viewer.standing.officer
    seen = {t: head for t, head in there.items() if officer or not head.restricted}
    if threads and not seen:
        raise SocketRefusedError(LiveCloseCode.FORBIDDEN)
    return seen


async def _audit_reading(
    viewer: Viewer, hello: protocol.LiveHello, found: Mapping[UUID, WatchedHead]
) -> None:
    """Write audit entries for the page's content. Raises SocketRefusedError."""
    wanted = {
        want.thread for want in hello.want if not PLAIN_PANELS.issuperset(want.panels)
    }
    view = open_view(hello.view, viewer.badge.operator)
    if view and not viewer.reading:
        viewer.view = view
    try:
        await viewer.begin_reading(
            [found[thread] for thread in wanted if thread in found]
        )
    except UnavailableError:
        raise SocketRefusedError(LiveCloseCode.TRY_LATER) from None


def _map_shown(
    hello: protocol.LiveHello, wanted: Collection[UUID]
) -> dict[tuple[UUID, str], int]:
    return {
        (want.thread, panel): want.seq
        for want in hello.want
        for panel in want.panels
        if want.thread in wanted
    }


async def _run_forever(
    work: Callable[[], Awaitable[None]], *, every: Callable[[], float]
) -> None:
    while True:
        await asyncio.sleep(every())
        try:
            await work()
        except Exception as failure:  # noqa: BLE001  # the outermost loop of a task
            log.error("live.failed", code=type(failure).__name__)
            await asyncio.sleep(POLL_SECONDS)


#: The process's one hub.
hub = Hub()
