"""Panel of all of working memory: the first of each kind."""

from __future__ import annotations

from inspector.drawing.scenes import Context, Panel, ThreadScene
from inspector.nouns import NOUNS
from memoryhub.queries.memory import working_memory
from memoryhub.queries.memory.nouns import NEWEST

#: Keys, and records of each noun, that the panel shows.
GLANCED = 8
GLANCES = tuple(screen.glance for screen in NOUNS if screen.glance is not None)


def _build_panel(scene: ThreadScene) -> Context:
    """Build the panel. At most nine queries."""
    memory = working_memory.get_memory(
        scene.thread,
        max_keys=GLANCED,
        newest=dict.fromkeys(NEWEST, GLANCED),
        seq=scene.at_seq,
    )
    context: Context = {"memory": memory, "listed": memory.keys, "task": memory.task}
    for glance in GLANCES:
        context |= glance.context(memory)
    return context | {"glances": GLANCES}


PANEL = Panel(template="inspector/memory/_panel.html", context=_build_panel)
