from __future__ import annotations

import hashlib
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from uuid import UUID

from inspector.drawing.scenes import ThreadScene
from inspector.lists import panels
from inspector.replay import moments
from memoryhub.queries.verify import heads

#: Seconds for which a rendered text is sent; the text holds decrypted content.
LIFE_SECONDS = 1.0
PER_SECOND, BURST = 10.0, 2.0
#: Rest after each render, as a multiple of its duration: rendering takes at most a
#: quarter of a core.
REST_FACTOR = 3.0


@dataclass(slots=True, kw_only=True)
class RenderBucket:
    """Token bucket of renders: ten tokens a second, at most two saved."""

    tokens: float = BURST
    at: float = 0.0

    def wait(self, now: float) -> float:
        """Compute the seconds until a token can be taken; 0 if a token is there."""
        tokens = min(BURST, self.tokens + (now - self.at) * PER_SECOND)
        return max(0.0, (1.0 - tokens) / PER_SECOND)

    def take(self, now: float) -> None:
        saved = min(BURST, self.tokens + (now - self.at) * PER_SECOND)
        self.tokens, self.at = saved - 1.0, now


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPanel:
    """The text of a panel as of `seq`, the same for every socket."""

    seq: int
    text: str
    digest: bytes
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPanels:
    """Panels of a thread, rendered from one read of its row."""

    seq: int
    panels: dict[str, RenderedPanel]
    took_seconds: float


@dataclass(slots=True, kw_only=True)
class ThreadWatch:
    """A watched thread with its rendered panels; kept a while after its last viewer."""

    thread: UUID
    project: UUID
    #: The newest seq known to be on disk.
    head: int = -1
    panels: dict[str, RenderedPanel] = field(default_factory=dict)
    bucket: RenderBucket = field(default_factory=RenderBucket)
    #: When the last viewer left; None while there is a viewer.
    left_at: float | None = None

    def is_current(self, panel: str, now: float, head: int | None = None) -> bool:
        """Tell whether the panel is rendered as of the head, and may still be sent."""
        rendered = self.panels.get(panel)
        return (
            rendered is not None
            and rendered.seq >= (self.head if head is None else head)
            and now - rendered.at <= LIFE_SECONDS
        )

    def forget(self, now: float) -> None:
        """Drop texts that are too old to be sent."""
        self.panels = {
            name: panel
            for name, panel in self.panels.items()
            if now - panel.at <= LIFE_SECONDS
        }


def render(thread: UUID, names: Collection[str]) -> RenderedPanels:
    """Render panels of a thread for a push. Runs in a reader thread.

    Raises the same refusal as a page of the thread.
    """
    began = time.perf_counter()
    row = heads.get_row(thread)
    scene = ThreadScene(thread=row)
    texts = {
        name: panels.render_panel(moments.PANELS[name], scene, pushed=True)
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
