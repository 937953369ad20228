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

#: No fixed heads: compare with the current heads of watches.
NO_HEADS: Mapping[UUID, int] = MappingProxyType({})
_ERASED = (NotFoundError, ThreadErasedError, SubjectErasedError)


@dataclass(slots=True, kw_only=True)
class RenderTally:
    """Counts of renders and pushes since the process began to serve."""

    #: Reads of a thread, each of which rendered all its due panels.
    renders: int = 0
    #: Messages with texts, one to each socket that could take a push.
    pushes: int = 0


class Renderer:
    """Renderer of due panels, once for all viewers, pushed to viewers with credit."""

    def __init__(self, audience: Audience) -> None:
        self.audience = audience
        self.tally = RenderTally()
        self._rung = asyncio.Event()
        self._rest_until = 0.0

    def wake(self) -> None:
        """Wake the renderer: a thread moved, or a page can take the next push."""
        self._rung.set()

    async def serve(self) -> None:
        """Serve one round, then wait until woken or until a render is allowed."""
        self._rung.clear()  # before the reads, so that a wake during them counts
        wait = await self._serve_round()
        if wait == 0.0:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._rung.wait()

    async def _serve_round(self) -> float | None:
        """Push to complete viewers, then render for the viewer served longest ago.

        Returns the seconds until the next viewer can be served; None if nobody waits.
        """
        now = time.monotonic()
        late = [
            viewer
            for viewer in self._list_ready()
            if not self._push_if_complete(viewer, now)
        ]
        if not late:
            return None
        viewer = min(
            late, key=lambda each: (self._compute_wait(each, now), each.served_at)
        )
        if wait := self._compute_wait(viewer, now):
            return wait
        threads = sorted(self._find_missing(viewer, now))
        heads = {thread: self.audience.watches[thread].head for thread in threads}
        for thread in threads:
            # Each thread once: a busy thread must not hold up the others.
            await self._render_thread(thread)
        for each in self._list_ready():
            # Compare with the heads of before: a busy thread has moved meanwhile, and
            # the rendered texts still serve all viewers.
            self._push_if_complete(each, now, heads)
        return 0.0

    def _list_ready(self) -> list[Viewer]:
        return [
            viewer
            for viewer in self.audience.viewers
            if viewer.credit and any(True for _ in self.audience.iter_due(viewer))
        ]

    def _find_missing(
        self, viewer: Viewer, now: float, heads: Mapping[UUID, int] = NO_HEADS
    ) -> set[UUID]:
        watches = self.audience.watches
        return {
            thread
            for thread, panel in self.audience.iter_due(viewer)
            if not watches[thread].is_current(panel, now, heads.get(thread))
        }

    def _compute_wait(self, viewer: Viewer, now: float) -> float:
        """Compute the seconds until the viewer's missing panels may be rendered."""
        watches = self.audience.watches
        waits = [
            watches[each].bucket.wait(now) for each in self._find_missing(viewer, now)
        ]
        return max([self._rest_until - now, *waits, 0.0])

    async def _render_thread(self, thread: UUID) -> None:
        """Render the thread's panels that viewers with credit need."""
        await asyncio.sleep(max(0.0, self._rest_until - time.monotonic()))
        watch = self.audience.watches.get(thread)
        names = {
            panel
            for viewer in self._list_ready()
            for each, panel in self.audience.iter_due(viewer)
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
            self.audience.drop_erased(watch, refusal.code, refusal.detail)
            return
        except Exception as failure:  # noqa: BLE001  # must not stop the others
            log.error("live.unpushable", code=type(failure).__name__)
            self.audience.request_refetch(watch)
            return
        self.tally.renders += 1
        self._rest_until = (
            time.monotonic() + done.took_seconds * rendered_panels.REST_FACTOR
        )
        if not self.audience.list_viewers(watch):
            # The thread was erased during the read: its texts must not be kept.
            return
        watch.panels.update(done.panels)
        watch.head = max(watch.head, done.seq)

    def _push_if_complete(
        self, viewer: Viewer, now: float, heads: Mapping[UUID, int] = NO_HEADS
    ) -> bool:
        """Push the viewer's due panels if all are rendered; tell whether they were."""
        if self._find_missing(viewer, now, heads):
            return False
        self._push_due(viewer)
        return True

    def _push_due(self, viewer: Viewer) -> None:
        """Send the due panels that are rendered, in one message."""
        texts = []
        for key in list(self.audience.iter_due(viewer)):
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
            fresh = self.audience.get_freshness(viewer)
            viewer.send_soon(
                "".join([protocol.render_mark(viewer.pushes, fresh=fresh), *texts])
            )
