"""The task: its fields, how far it came, and each turn that it took."""

from __future__ import annotations

from collections.abc import Sequence

from inspector.drawing import trees
from inspector.drawing.scenes import Context, Panel, Scene
from inspector.lists import screens
from inspector.lists.screens import ListRequest, Screen
from inspector.lists.visits import Visit
from inspector.memory import editing
from memoryhub.queries.memory import task_views
from memoryhub.queries.memory.task_views import TaskStep

_WIDE, _HIGH = 600, 100


def _panel(scene: Scene) -> Context:
    """The task, and how it went. At most five queries."""
    history = task_views.get_history(scene.thread, seq=scene.at_seq)
    data = history.task.data if history.task else None
    return {
        "history": history,
        "line": path(history.steps, end=scene.at_seq or scene.thread.head_seq),
        "data": None if data is None else trees.tree(data),
    }


def path(steps: Sequence[TaskStep], *, end: int) -> str:
    """Progress as the path of an SVG, 600 wide and 100 high; empty without any."""
    if not any(step.progress_percent is not None for step in steps):
        return ""
    first = steps[0].seq
    scale = _WIDE / max(1, end - first)
    drawn, high = [], None
    for step in steps:
        x = round((step.seq - first) * scale, 1)
        percent = step.progress_percent
        if high is not None:
            drawn.append(f"H{x}")
        if percent is not None:
            y = round(_HIGH - percent, 1)
            drawn.append(f"M{x} {y}" if high is None else f"V{y}")
        high = percent
    return "".join(drawn) + (f"H{_WIDE}" if high is not None else "")


def _around(ask: ListRequest[Visit]) -> Context:
    visit = ask.where
    return {
        "editing": visit.editable,
        "saved": editing.find_saved(ask.request, visit),
        "problem": "",
    }


SCREEN = Screen(
    folder="memory/task",
    tab="memory",
    scope=screens.THREAD,
    around=_around,
    panel=Panel(template="inspector/memory/task/_panel.html", context=_panel),
    difference="inspector/memory/task/_difference.html",
)
