"""The working set: what stands in the model's context, page by page, and why."""

from __future__ import annotations

from inspector.drawing import cells
from inspector.drawing.scenes import Context, Panel, Scene
from inspector.lists import screens
from inspector.lists.screens import Screen
from memoryhub.queries.paging import residency


def picture(scene: Scene) -> Context:
    """The cells, each page by how it came and stands."""
    return cells.picture(residency.get_residency(scene.thread, scene.seq))


SCREEN = Screen(
    folder="paging/working_set",
    scope=screens.THREAD,
    panel=Panel(template="inspector/paging/working_set/_panel.html", context=picture),
)
