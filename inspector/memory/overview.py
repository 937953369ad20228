"""Memories: all of working memory at once, a little of each."""

from __future__ import annotations

from inspector.drawing.scenes import Context, Panel, Scene
from inspector.memory import notes
from memoryhub.queries.memory import working_memory

#: Keys and notes that are shown.
GLANCED = 8


def _glance(scene: Scene) -> Context:
    """At most nine queries."""
    memory = working_memory.get_memory(
        scene.thread, max_keys=GLANCED, max_notes=GLANCED, seq=scene.at_seq
    )
    newest = sorted(memory.notes, key=lambda note: -note.seq)
    return {
        "memory": memory,
        "listed": memory.keys,
        "jotted": notes.from_lines(newest),
        "task": memory.task,
    }


PANEL = Panel(template="inspector/memory/_panel.html", context=_glance)
