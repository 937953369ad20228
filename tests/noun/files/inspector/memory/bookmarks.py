from __future__ import annotations

from inspector.drawing.scenes import Context, Panel, Scene
from inspector.lists import screens
from inspector.lists.screens import Screen
from memoryhub.queries.memory import bookmarks


def _panel(scene: Scene) -> Context:
    found = bookmarks.list_bookmarks(scene.thread, seq=scene.at_seq)
    return {"bookmarks": found.items}


SCREEN = Screen(
    folder="memory/bookmarks",
    group="memory",
    scope=screens.THREAD,
    panel=Panel(template="inspector/memory/bookmarks/_panel.html", context=_panel),
)
