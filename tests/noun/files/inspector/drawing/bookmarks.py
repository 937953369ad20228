from __future__ import annotations

from inspector.drawing.scenes import Context, Panel, Scene
from memoryhub.queries.memory import bookmarks


def _context(scene: Scene) -> Context:
    found = bookmarks.list_bookmarks(scene.thread, seq=scene.at_seq)
    return {"bookmarks": found.items}


PANEL = Panel(
    template="inspector/memory/bookmarks/_panel.html",
    context=_context,
)
