"""Screen of the task: its fields, its progress, and each change of it."""

from __future__ import annotations

from collections.abc import Sequence

from inspector.drawing import trees
from inspector.drawing.scenes import Context, Panel, ThreadScene
from inspector.lists import screens
from inspector.lists.screens import ListRequest, Screen
from inspector.lists.visits import Visit
from inspector.memory import editing
from memoryhub.queries.memory import checkpoints, task_views
from memoryhub.queries.memory.task_views import TaskStep

_WIDE, _HIGH = 600, 100


def _build_panel(scene: ThreadScene) -> Context:
    """Build the panel of the task and its history. At most seven queries."""
    history = task_views.get_history(scene.thread, seq=scene.at_seq)
    data = history.task.data if history.task else None
    return {
        "history": history,
        "line": draw_path(history.steps, end=scene.at_seq or scene.thread.head_seq),
        "data": None if data is None else trees.build_tree(data),
        "restored": checkpoints.find_last_restore(
            scene.thread, "task", seq=scene.at_seq
        ),
    }


def draw_path(steps: Sequence[TaskStep], *, end: int) -> str:
    """Draw progress as an SVG path, 600 wide and 100 high; empty without progress."""
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


def _build_surroundings(ask: ListRequest[Visit]) -> Context:
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
    around=_build_surroundings,
    panel=Panel(template="inspector/memory/task/_panel.html", context=_build_panel),
    difference="inspector/memory/task/_difference.html",
)
