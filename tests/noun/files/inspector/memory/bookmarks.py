from __future__ import annotations

from inspector.drawing.scenes import Context, Glance, Panel, ThreadScene
from inspector.lists import screens
from inspector.lists.screens import Screen
from memoryhub.queries.memory import bookmarks
from memoryhub.queries.memory.working_memory import MemoryView


def _build_panel(scene: ThreadScene) -> Context:
    found = bookmarks.list_bookmarks(scene.thread, seq=scene.at_seq)
    return {"bookmarks": found.items}


def _glance(memory: MemoryView) -> Context:
    return {"bookmarks": memory.newest["bookmarks"]}


SCREEN = Screen(
    folder="memory/bookmarks",
    tab="memory",
    scope=screens.THREAD,
    panel=Panel(
        template="inspector/memory/bookmarks/_panel.html", context=_build_panel
    ),
    glance=Glance(template="inspector/memory/bookmarks/_glance.html", context=_glance),
)
