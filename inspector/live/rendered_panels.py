from __future__ import annotations

import hashlib
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from uuid import UUID

from inspector.drawing.scenes import Scene
from inspector.lists import panels
from inspector.replay import moments
from memoryhub.queries.verify import heads

#: How long a rendered text may be handed out; it holds content in the clear.
LIFE_SECONDS = 1.0
PER_SECOND, BURST = 10.0, 2.0
#: A render that took so long is followed by this many times as much rest: watching
#: takes at most a quarter of a core.
REST = 3.0


@dataclass(slots=True, kw_only=True)
class Bucket:
    """Hand out tokens that come back ten a second, at most two of them saved up."""

    tokens: float = BURST
    at: float = 0.0

    def wait(self, now: float) -> float:
        """Compute the seconds until a token can be taken; 0 if one is there."""
        tokens = min(BURST, self.tokens + (now - self.at) * PER_SECOND)
        return max(0.0, (1.0 - tokens) / PER_SECOND)

    def take(self, now: float) -> None:
        saved = min(BURST, self.tokens + (now - self.at) * PER_SECOND)
        self.tokens, self.at = saved - 1.0, now


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPanel:
    """Hold one panel as of `seq`: the same text for every socket."""

    seq: int
    text: str
    digest: bytes
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPanels:
    """Hold panels of a thread from one read of its row."""

    seq: int
    panels: dict[str, RenderedPanel]
    took_seconds: float


@dataclass(slots=True, kw_only=True)
class Watch:
    """Keep what is rendered of a thread that somebody watches, or lately did."""

    thread: UUID
    project: UUID
    #: The newest seq that is known to be on disk.
    head: int = -1
    panels: dict[str, RenderedPanel] = field(default_factory=dict)
    bucket: Bucket = field(default_factory=Bucket)
    #: When its last viewer left; None while there is one.
    left_at: float | None = None

    def current(self, panel: str, now: float, head: int | None = None) -> bool:
        """Tell whether the state at the head is rendered and may still be sent."""
        rendered = self.panels.get(panel)
        return (
            rendered is not None
            and rendered.seq >= (self.head if head is None else head)
            and now - rendered.at <= LIFE_SECONDS
        )

    def forget(self, now: float) -> None:
        """Drop texts that may not be handed out any more."""
        self.panels = {
            name: panel
            for name, panel in self.panels.items()
            if now - panel.at <= LIFE_SECONDS
        }


def render(thread: UUID, names: Collection[str]) -> RenderedPanels:
    """Render panels of a thread as a push holds them. Runs in a reader thread.

    Raises the refusal that a page of the thread would answer.
    """
    began = time.perf_counter()
    row = heads.get_row(thread)
    scene = Scene(thread=row)
    texts = {
        name: panels.render(moments.PANELS[name], scene, pushed=True)
        for name in sorted(names)
    }
    now = time.monotonic()
    rendered = {
        name: RenderedPanel(
            seq=row.head_seq,
            text=text,
            digest=hashlib.blake2b(text.encode(), digest_size=16).digest(),
            at=now,
        )
        for name, text in texts.items()
    }
    took = time.perf_counter() - began
    return RenderedPanels(seq=row.head_seq, panels=rendered, took_seconds=took)
