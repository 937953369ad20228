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
from inspector.live.protocol import Close, RefusedError
from inspector.live.rendered_panels import Watch
from inspector.live.renderer import Renderer
from inspector.web.read_audit import PLAIN_PANELS
from memoryhub.errors import NotFoundError, UnavailableError
from memoryhub.queries.threads.readers import read
from memoryhub.queries.verify import heads
from memoryhub.queries.verify.heads import Head

log = structlog.get_logger()

#: A lost notice costs one look; without a doorbell, looks are all there is.
LOOK_SECONDS, POLL_SECONDS = 2.0, 1.0
CHECK_SECONDS = 5.0
#: How long a thread is still listened for after its last viewer.
LINGER_SECONDS = 30.0
REJOIN_SECONDS = 60.0
MAX_WATCHES = 10_000
#: A peer that reads nothing must not hold up the end of the process.
FAREWELL_SECONDS = 1.0
CANCEL_SECONDS = 0.1


class Bell(Protocol):
    """Tell the hub of commits. It may lose notices; then `broken` says so."""

    @property
    def broken(self) -> bool: ...

    async def listen(
        self,
        hear: Callable[[UUID, int], None],
        groups: Callable[[], Collection[str]],
    ) -> None: ...

    async def join(self, groups: Collection[str]) -> None: ...

    async def leave(self, groups: Collection[str]) -> None: ...


class Hub:
    """Lead from commit to bytes: one watch a thread, one render for all sockets."""

    def __init__(self) -> None:
        self.bell: Bell | None = None
        self.audience = Audience()
        self.renderer = Renderer(self.audience)
        self._newest: dict[UUID, datetime | None] = {}
        #: Heard of since the last look, and not known whose.
        self._strange: set[UUID] = set()
        self._rejoin_at = 0.0
        self._tasks: list[asyncio.Future[None]] = []

    @property
    def mode(self) -> str:
        """Tell whether other processes' commits are heard of at once, or looked for."""
        return "polling" if self.bell is None or self.bell.broken else "doorbell"

    def figures(self) -> dict[str, int]:
        """Count what there is right now, and what was done since the start.

        Any thread may ask.
        """
        # Copied in one go each: sockets come and go meanwhile.
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
        """Begin to listen, look, serve and check, on the running loop."""
        self.renderer = Renderer(self.audience)
        self._rejoin_at = time.monotonic() + REJOIN_SECONDS
        work = [
            _forever(self.renderer.serve, every=lambda: 0.0),
            _forever(self.look, every=self._look_seconds),
            _forever(self.check, every=lambda: CHECK_SECONDS),
        ]
        if self.bell is not None:
            work.append(self.bell.listen(self.hear, self.audience.groups))
        self._tasks = [asyncio.ensure_future(each) for each in work]

    async def stop(self) -> None:
        """Send everybody away; they come back to the process that follows."""
        running = set(self._tasks)
        while running:
            # More than once: a channel layer may swallow a cancellation.
            for task in running:
                task.cancel()
            _, running = await asyncio.wait(running, timeout=CANCEL_SECONDS)
        self._tasks = []
        viewers = list(self.audience.viewers)
        for viewer in viewers:
            viewer.end(Close.RESTART)
            viewer.end_reading()
        self.audience.clear()
        self._newest.clear()
        self._strange.clear()
        flushed = asyncio.gather(*(viewer.flush() for viewer in viewers))
        with suppress(TimeoutError):
            await asyncio.wait_for(flushed, FAREWELL_SECONDS)

    # Sockets

    async def greet(self, viewer: Viewer, hello: protocol.Hello) -> None:
        """Take what a page wants. Raises RefusedError for what it may not see."""
        project = viewer.standing.project
        assert project is not None
        threads = {want.thread for want in hello.want}
        found = await read(heads.list_heads, threads, project=project)
        wanted = _authorise(viewer, threads, found)
        current = hello.build == inspector.BUILD
        await _note(viewer, hello, wanted if current else {})
        # Joined first, then read: what is committed in between is not missed.
        await self._join(project, wanted.values(), fresh=hello.fresh)
        found = await read(heads.list_heads, wanted, project=project)
        if viewer not in self.audience.viewers:
            viewer.end_reading()
            return
        viewer.want(_shown(hello, wanted) if current else {})
        viewer.greeted, viewer.fresh = True, hello.fresh
        seqs = {thread: head.seq for thread, head in found.items()}
        viewer.post(protocol.hello(mode=self.mode, heads=seqs))
        if not current:
            viewer.post(protocol.resync("build"))
        for thread, seq in seqs.items():
            watch = self.audience.watches[thread]
            watch.head = max(watch.head, seq)
            self.audience.call_back(viewer, watch)
        self.audience.sweep()
        self.renderer.ring()

    def ack(self, viewer: Viewer, n: int) -> None:
        """Note that the page has painted push `n`: it can take the next."""
        if n == viewer.pushes:
            viewer.credit = True
            self.renderer.ring()

    async def _join(self, project: UUID, found: Iterable[Head], *, fresh: bool) -> None:
        watches, now = self.audience.watches, time.monotonic()
        groups = []
        for head in found:
            if watch := watches.get(head.thread):
                # One that was about to be dropped is kept for as long as this takes.
                watch.left_at = watch.left_at and now
                continue
            if len(watches) >= MAX_WATCHES:
                raise RefusedError(Close.TRY_LATER)
            watches[head.thread] = Watch(thread=head.thread, project=project)
            groups.append(f"thread.{head.thread}")
        if fresh and project not in self.audience.fresh:
            self.audience.fresh[project] = 1
            groups.append(f"project.{project}")
        if groups and self.bell is not None:
            await self.bell.join(groups)

    # Notices and looks

    def hear(self, thread: UUID, seq: int) -> None:
        """Take a notice. It only rings: what there is to see is read."""
        watch, fresh = self.audience.watches.get(thread), self.audience.fresh
        # Of a thread that nobody watches we don't know whose it is, unless lists of one
        # project only are open; else the next look finds out.
        alone = next(iter(fresh)) if len(fresh) == 1 else None
        project = alone if watch is None else watch.project
        if project in fresh:
            fresh[project] += 1
        elif watch is None and fresh and len(self._strange) < MAX_WATCHES:
            self._strange.add(thread)
        if watch is not None and seq > watch.head:
            watch.head = seq
            self.renderer.ring()

    async def look(self) -> None:
        """See for ourselves where the watched threads are, and say that we are here.

        One query, and one more while lists are open. Only after a look that succeeded
        is anything said, so that pages of a server that can't read grow stale.
        """
        watches = self.audience.watches
        before = {
            each.thread: each.head for each in watches.values() if each.left_at is None
        }
        found = await read(heads.list_heads, before) if before else {}
        for thread, seq in before.items():
            if watch := watches.get(thread):
                self._seen(watch, found.get(thread), before=seq)
        await self._look_for_fresh()
        self._beat()
        self.audience.sweep()
        await self._keep_groups()

    def _seen(self, watch: Watch, head: Head | None, *, before: int) -> None:
        if head is None or head.erased:
            code = head.erased if head else None
            proof = head.proof.detail if head and head.proof else {}
            self.audience.erased(watch, code or NotFoundError.code, proof)
            return
        if head.restricted:
            self.audience.restricted(watch)
        if head.seq < before:
            # Less than there was before we asked.
            self.audience.went_back(watch, head.seq)
        elif head.seq > watch.head:
            watch.head = head.seq
            self.renderer.ring()

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

    def _beat(self) -> None:
        """Say that we are here to those who were not told lately."""
        silent = time.monotonic() - LOOK_SECONDS * 0.9
        for viewer in self.audience.viewers:
            if viewer.greeted and viewer.silent_since(silent):
                beat = protocol.beat(
                    mode=self.mode,
                    heads=self.audience.heads(viewer),
                    fresh=self.audience.freshness(viewer),
                )
                viewer.post(beat)

    async def _keep_groups(self) -> None:
        """Stop listening for what was left; now and then say again what we want."""
        now = time.monotonic()
        left = self.audience.abandoned(now - LINGER_SECONDS)
        if self.bell is None:
            return
        if left:
            await self.bell.leave(left)
        if now >= self._rejoin_at:
            # A layer that was restarted has forgotten who listens to what.
            self._rejoin_at = now + REJOIN_SECONDS
            await self.bell.join(self.audience.groups())

    async def check(self) -> None:
        """Send away who has signed out or lost the role. One query for all."""
        badges = {viewer.badge for viewer in self.audience.viewers}
        found = await read(standing.list_standing, badges) if badges else {}
        for viewer in list(self.audience.viewers):
            if now := found.get(viewer.badge):
                viewer.standing = now
                if now.close is not None:
                    self.audience.end(viewer, now.close)

    def _look_seconds(self) -> float:
        return POLL_SECONDS if self.mode == "polling" else LOOK_SECONDS


def _authorise(
    viewer: Viewer, threads: Collection[UUID], found: Mapping[UUID, Head]
) -> dict[UUID, Head]:
    """Pick what the page may follow. Of a list the rest is left out.

    Raises RefusedError, with what a page of the same thread would answer, when there is
    nothing left.
    """
    if len(found) < len(threads):
        raise RefusedError(Close.NOT_FOUND)
    there = {thread: head for thread, head in found.items() if not head.erased}
    if threads and not there:
        raise RefusedError(Close.ERASED)
    officer = viewer.standing.officer
    seen = {t: head for t, head in there.items() if officer or not head.restricted}
    if threads and not seen:
        raise RefusedError(Close.FORBIDDEN)
    return seen


async def _note(
    viewer: Viewer, hello: protocol.Hello, found: Mapping[UUID, Head]
) -> None:
    """Have on disk whose content the page is shown. Raises RefusedError."""
    wanted = {
        want.thread for want in hello.want if not PLAIN_PANELS.issuperset(want.panels)
    }
    try:
        await viewer.begin_reading(
            [found[thread] for thread in wanted if thread in found]
        )
    except UnavailableError:
        raise RefusedError(Close.TRY_LATER) from None


def _shown(
    hello: protocol.Hello, wanted: Collection[UUID]
) -> dict[tuple[UUID, str], int]:
    return {
        (want.thread, panel): want.seq
        for want in hello.want
        for panel in want.panels
        if want.thread in wanted
    }


async def _forever(
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
