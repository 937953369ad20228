from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from uuid import UUID

import structlog
from django.db import DatabaseError

from inspector.live import protocol, rendered_panels
from inspector.live.audience import Audience, Viewer
from memoryhub.errors import NotFoundError, SubjectErasedError, ThreadErasedError
from memoryhub.queries.threads.readers import read

log = structlog.get_logger()

#: Where threads are now is what counts.
NO_HEADS: Mapping[UUID, int] = MappingProxyType({})
_ERASED = (NotFoundError, ThreadErasedError, SubjectErasedError)


@dataclass(slots=True, kw_only=True)
class Tally:
    """Count what was done since the process began to serve."""

    #: Reads of a thread that made the texts of all panels that were due of it.
    renders: int = 0
    #: Messages with texts, one to each socket that could take it.
    pushes: int = 0


class Renderer:
    """Render what is due, once for all, and hand it to those who can take it."""

    def __init__(self, audience: Audience) -> None:
        self.audience = audience
        self.tally = Tally()
        self._rung = asyncio.Event()
        self._rest_until = 0.0

    def ring(self) -> None:
        """Note that a thread moved, or that a page can take more."""
        self._rung.set()

    async def serve(self) -> None:
        """Serve once, then wait until rung."""
        self._rung.clear()  # before the reads, so that a ring during them counts
        wait = await self._round()
        if wait == 0.0:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._rung.wait()

    async def _round(self) -> float | None:
        """Serve all that lack nothing, then what the one lacks who waits longest.

        Returns the seconds until the next can be served, None if nobody waits.
        """
        now = time.monotonic()
        late = [viewer for viewer in self._ready() if not self._whole(viewer, now)]
        if not late:
            return None
        viewer = min(late, key=lambda each: (self._wait(each, now), each.served_at))
        if wait := self._wait(viewer, now):
            return wait
        threads = sorted(self._lacking(viewer, now))
        heads = {thread: self.audience.watches[thread].head for thread in threads}
        for thread in threads:
            # Each thread once: a busy one must not keep the others from being sent.
            await self._render(thread)
        for each in self._ready():
            # By the heads of before: a busy thread has moved on meanwhile, and what
            # was rendered is for all of them.
            self._whole(each, now, heads)
        return 0.0

    def _ready(self) -> list[Viewer]:
        return [
            viewer
            for viewer in self.audience.viewers
            if viewer.credit and any(True for _ in self.audience.due(viewer))
        ]

    def _lacking(
        self, viewer: Viewer, now: float, heads: Mapping[UUID, int] = NO_HEADS
    ) -> set[UUID]:
        watches = self.audience.watches
        return {
            thread
            for thread, panel in self.audience.due(viewer)
            if not watches[thread].current(panel, now, heads.get(thread))
        }

    def _wait(self, viewer: Viewer, now: float) -> float:
        """Compute the seconds until what the viewer lacks may be rendered."""
        watches = self.audience.watches
        waits = [watches[each].bucket.wait(now) for each in self._lacking(viewer, now)]
        return max([self._rest_until - now, *waits, 0.0])

    async def _render(self, thread: UUID) -> None:
        """Render what anybody who can take it needs of the thread."""
        await asyncio.sleep(max(0.0, self._rest_until - time.monotonic()))
        watch = self.audience.watches.get(thread)
        names = {
            panel
            for viewer in self._ready()
            for each, panel in self.audience.due(viewer)
            if each == thread
        }
        if watch is None or not names:
            return
        watch.bucket.take(time.monotonic())
        try:
            done = await read(rendered_panels.render, thread, names)
        except DatabaseError:
            raise
        except _ERASED as refusal:
            self.audience.erased(watch, refusal.code, refusal.detail)
            return
        except Exception as failure:  # noqa: BLE001  # must not stop the others
            log.error("live.unpushable", code=type(failure).__name__)
            self.audience.unpushable(watch)
            return
        self.tally.renders += 1
        self._rest_until = time.monotonic() + done.took_seconds * rendered_panels.REST
        if not self.audience.of(watch):
            # It was erased while it was read: nothing of it may be kept.
            return
        watch.panels.update(done.panels)
        watch.head = max(watch.head, done.seq)

    def _whole(
        self, viewer: Viewer, now: float, heads: Mapping[UUID, int] = NO_HEADS
    ) -> bool:
        """Push what is due if nothing of it is lacking."""
        if self._lacking(viewer, now, heads):
            return False
        self._push(viewer)
        return True

    def _push(self, viewer: Viewer) -> None:
        """Send what there is of what is due, in one message."""
        texts = []
        for key in list(self.audience.due(viewer)):
            panel = self.audience.watches[key[0]].panels.get(key[1])
            if panel is None or panel.seq <= viewer.shown[key]:
                continue
            viewer.shown[key] = panel.seq
            if viewer.digests.get(key) != panel.digest:
                viewer.digests[key] = panel.digest
                texts.append(panel.text)
        viewer.served_at = time.monotonic()
        if texts:
            self.tally.pushes += 1
            viewer.pushes, viewer.credit = viewer.pushes + 1, False
            fresh = self.audience.freshness(viewer)
            viewer.post("".join([protocol.mark(viewer.pushes, fresh=fresh), *texts]))
