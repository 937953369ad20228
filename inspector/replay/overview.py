"""Overview of a thread's memory: the first of each kind, on its page and in Replay.

Kinds that hold something come first, in one order: what the model reads before each
request, then what the agent keeps. The last line names the empty kinds.
"""

from __future__ import annotations

from itertools import chain

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from inspector.access.access import require_signed_in
from inspector.drawing.scenes import Context, Panel, ThreadScene
from inspector.lists import visits
from inspector.nouns import NOUNS
from inspector.observing.observer import ShownObservationLine
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge import blocks, facts
from memoryhub.queries.knowledge.blocks import BlockView
from memoryhub.queries.knowledge.facts import FactFilter
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.knowledge.timelines import find_seq_at
from memoryhub.queries.memory import keys, working_memory
from memoryhub.queries.memory.nouns import NEWEST
from memoryhub.queries.observing import observers
from memoryhub.queries.replay import states

#: Most keys, facts, blocks, lines of the log, and records of a noun that are shown.
GLANCED = 8
_GLANCED_SCREENS = tuple(screen for screen in NOUNS if screen.glance is not None)
GLANCES = tuple(screen.glance for screen in _GLANCED_SCREENS if screen.glance)


def _build_panel(scene: ThreadScene) -> Context:
    """Build the panel. At most 27 queries, and none per row."""
    memory = working_memory.get_memory(
        scene.thread,
        max_keys=GLANCED,
        newest=dict.fromkeys(NEWEST, GLANCED),
        seq=scene.at_seq,
    )
    context: Context = {"memory": memory, "listed": memory.keys, "task": memory.task}
    for glance in GLANCES:
        context |= glance.context(memory)
    context |= _build_log(scene) | _build_knowledge(scene)
    stats = memory.stats
    kept = {
        "observer": ("Observations", context["log_size"]),
        "task": ("Task", int(memory.task is not None)),
        "keys": ("Keys", stats.keys),
        **{
            screen.name: (screen.title, stats.figures[screen.name])
            for screen in _GLANCED_SCREENS
        },
        "checkpoints": ("Checkpoints", stats.checkpoints + stats.automatic),
    }
    empty = {path: title for path, (title, count) in kept.items() if not count}
    counted = [(path, *each) for path, each in kept.items() if path not in empty]
    shared = context["person_facts"] or context["blocks"] or context["items"]
    return context | {
        "glances": GLANCES,
        "counted": counted,
        "empty": empty,
        "filled": bool(shared or counted),
    }


def _build_log(scene: ThreadScene) -> Context:
    """Build the newest lines of the log. One query beside those of a state."""
    seen = states.load_state(scene.thread, scene.at_seq).observing
    newest = observers.list_log(scene.thread, seq=scene.at_seq, newest=GLANCED)
    lines = [*chain.from_iterable(view.lines or () for view in newest)][-GLANCED:]
    return {
        "log_size": len(seen.log),
        "log_tokens": seen.log_tokens,
        "log_lines": [*map(ShownObservationLine.from_line, lines)],
        "then": "" if scene.at_seq is None else f"&at_seq={scene.at_seq}",
    }


def _build_knowledge(scene: ThreadScene) -> Context:
    """Build the first facts and blocks of the thread's person as of the moment.

    At most seventeen queries, and two for each fifty timelines without a fact that
    holds.
    """
    thread, subject = scene.thread, scene.thread.subject
    names = {"project": thread.project.slug, "subject": subject.id}
    state = states.load_state(thread, scene.at_seq)
    at = states.compute_instant(state, scene.at_seq)
    where = FactFilter(valid_at=at, known_at=None if scene.at_seq is None else at)
    found = facts.list_facts(subject, where, limit=GLANCED)
    home = find_home(subject)
    known_at = None if home is None or scene.at_seq is None else find_seq_at(home, at)
    kept = ""
    if found.items and known_at is not None:
        # The page of facts takes whole minutes: round up, so that all facts hold.
        kept = f"known={known_at}&valid={-(-at.timestamp() // 60):.0f}&"
    then = f"?at_seq={known_at}" if known_at else ""
    items_address = ""
    if home is not None:
        shared = {"project": thread.project.slug, "thread": home.name}
        items_address = reverse("keys", kwargs=shared) + then
    return {
        "person_facts": found.items,
        "more_facts": found.next is not None,
        "facts_address": f"{reverse('facts', kwargs=names)}?{kept}",
        "blocks": _list_blocks(home, known_at),
        "blocks_address": reverse("blocks", kwargs=names) + then,
        # An item is a key of the home thread, whose own page lists the keys.
        "items": (
            0 if home is None or thread.home else keys.count_keys(home, seq=known_at)
        ),
        "items_address": items_address,
    }


def _list_blocks(home: Thread | None, seq: int | None) -> list[BlockView]:
    """List the first blocks now, or as of an event of the home thread."""
    if home is None or seq == 0:
        return []
    if seq is None:
        return blocks.list_current(home, limit=GLANCED)
    return blocks.list_blocks(home, seq=seq)[:GLANCED]


PANEL = Panel(template="inspector/memory/_panel.html", context=_build_panel)


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Show all kinds of memory of a thread on one page."""
    visit = visits.find(request, project, thread)
    # The whole page is one panel, and pushed: no part of the page stands still.
    context = {**PANEL.context(visit.scene), "standing": ""}
    return visits.render_page(request, "inspector/memory/overview.html", visit, context)
