"""Panels of a thread at an event, and panels that follow its head."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from inspector.drawing import charts, maps, thread_table
from inspector.drawing.scenes import Context, Panel, ThreadScene
from inspector.lists import panels
from inspector.nouns import NOUNS
from inspector.paging import folds, working_set
from inspector.replay import conversation, overview
from inspector.threads import events as thread_events
from inspector.web.search import NOUNS as NOUNS_OF_EVENTS
from memoryhub.kernel.state.state import ThreadState
from memoryhub.queries.paging import working_set_maps
from memoryhub.queries.paging.eviction_runs import EvictionRun
from memoryhub.queries.replay import replay
from memoryhub.queries.threads import events, timeline
from memoryhub.queries.threads.events import ThreadEventLine
from memoryhub.queries.threads.threads import ThreadLine

#: Events shown on each side of the chosen event: normally, and while dragging.
AROUND, PASSING = 50, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _RightPane:
    """Context of the right pane, with the state if building the pane folded one."""

    context: Context
    state: ThreadState | None = None


def _build_empty(scene: ThreadScene) -> Context:
    """Build an empty context: the panel needs only the shared context."""
    return {}


def _find_event(scene: ThreadScene) -> ThreadEventLine | None:
    """Find the event of the scene; None before the first. One query."""
    return events.get_event(scene.thread, scene.seq) if scene.seq else None


def _build_events(scene: ThreadScene) -> Context:
    # The panel's links lead to lists of events, whatever view the page shows.
    scene = replace(scene, view="events")
    seq, around = scene.seq, PASSING if scene.passing else AROUND
    listed = events.list_events(
        scene.thread,
        after=max(0, seq - around - 1),
        # A list that follows the head ends at its seq, although more events may exist.
        up_to=seq if scene.at_seq is None else seq + around,
        limit=2 * around + 1,
    )
    shown = [
        panels.build_event_row(
            scene.thread,
            line,
            opened=line.seq in scene.opened,
            toggle=scene.build_toggle_query(line.seq),
        )
        for line in listed
    ]
    return {
        "shown": shown,
        "first": listed[0].seq if listed else 0,
        "keep": panels.encode_suffix(scene.list_carried_parameters()),
    }


def _build_conversation(scene: ThreadScene) -> Context:
    state = replay.load_state_at(scene.thread, scene.seq).state
    return conversation.draw_conversation(scene, _find_event(scene), state)


def _build_changes(scene: ThreadScene) -> Context:
    moment = timeline.get_moment(scene.thread, scene.seq)
    line = _find_event(scene)
    return {
        "moment": moment,
        "event": panels.build_event_row(scene.thread, line) if line else None,
        **panels.build_named_context(scene.thread, line),
        "message": thread_events.draw_bubble(scene.thread, line, moment)
        if line
        else None,
    }


def _build_paging(scene: ThreadScene) -> Context:
    return charts.build_context(scene.thread, last=scene.at_seq)


def _build_paging_by_event(scene: ThreadScene) -> Context:
    return charts.build_context(scene.thread, last=scene.at_seq, by="event")


def _build_map(scene: ThreadScene) -> Context:
    return {"map": maps.draw(working_set_maps.get_map(scene.thread))}


def _build_position(scene: ThreadScene) -> Context:
    return _describe_event(scene, _find_event(scene), folds.find_run(scene))


def _describe_event(
    scene: ThreadScene, line: ThreadEventLine | None, run: EvictionRun | None
) -> Context:
    """Describe the event of the scene, with the eviction run that it is part of."""
    under_way = run if run and run.first <= scene.seq <= run.last else None
    all_of_run = under_way.steps if under_way else ()
    leaving = sum(each.level is None for each in all_of_run)
    return {
        "here": panels.build_event_row(scene.thread, line) if line else None,
        **panels.build_named_context(scene.thread, line),
        "of_run": under_way,
        "place": len(under_way.list_up_to(scene.seq)) if under_way else 0,
        "leaving": leaving,
        "shortened": len(all_of_run) - leaving,
        "oob": False,
    }


def _build_moment(scene: ThreadScene) -> Context:
    line = _find_event(scene)
    run = folds.find_run(scene)
    right = _RightPane(context={}) if scene.passing else _build_right_pane(scene, run)
    if scene.view == "events":
        left = _build_events(scene)
    else:
        left = conversation.draw_conversation(scene, line, right.state)
    near = [row.line for row in left.get("shown", ())]
    return {
        **left,
        **right.context,
        **_describe_event(scene, line, run),
        **_build_difference(scene, right.state),
        "view": scene.view,
        "passing": scene.passing,
        "hidden": scene.hidden,
        "nouns": [(noun, _build_toggle_query(scene, noun)) for noun in NOUNS_OF_EVENTS],
        "turn": right.state.turn_count if right.state else None,
        "unpinned": panels.encode_suffix(scene.list_carried_parameters(without="base")),
        "untabbed": panels.encode_suffix(scene.list_carried_parameters(without="tab")),
        "unviewed": panels.encode_suffix(scene.list_carried_parameters(without="view")),
        "marks": timeline.get_marks(scene.thread, scene.seq, near=near),
        "line_then": right.state
        and ThreadLine.from_row(scene.thread).build_as_of(right.state),
    }


def _build_toggle_query(scene: ThreadScene, noun: str) -> str:
    """Build the query that toggles whether a noun's events are hidden."""
    others = tuple(word for word in scene.hidden if word != noun)
    hidden = others if noun in scene.hidden else (*others, noun)
    return replace(scene, hidden=hidden).query()


def _build_right_pane(scene: ThreadScene, run: EvictionRun | None) -> _RightPane:
    """Build the pane of the tab, and pass its state along so that it is folded once."""
    if scene.tab == "changes":
        context = _build_changes(scene)
        return _RightPane(context=context, state=context["moment"].state)
    if scene.tab == "memory":
        state = replay.load_state_at(scene.thread, scene.seq).state
        return _RightPane(context=overview.PANEL.context(scene), state=state)
    fold = folds.fold_run(scene, run)
    return _RightPane(context=working_set.draw_fold(scene, fold), state=fold.state)


def _build_difference(scene: ThreadScene, state: ThreadState | None) -> Context:
    """List the differences from the pinned event to this event, if one is pinned."""
    if scene.base_seq is None or state is None:
        return {}
    before = replay.load_state_at(scene.thread, scene.base_seq).state
    return {"difference": timeline.list_differences(before, state)}


def _build_panel(name: str, context: Any) -> Panel:
    template = f"inspector/threads/timeline/_{name}.html"
    return Panel(template=template, context=context)


PANELS: dict[str, Panel] = {
    "head": Panel(template="inspector/threads/_head.html", context=_build_empty),
    "row": Panel(
        template="inspector/threads/_row.html", context=thread_table.build_row_context
    ),
    "moment": _build_panel("seek", _build_moment),
    "at": _build_panel("at", _build_position),
    "map": _build_panel("map", _build_map),
    "map-table": _build_panel("map_table", _build_map),
    "events": _build_panel("events", _build_events),
    "conversation": _build_panel("conversation", _build_conversation),
    "changed": _build_panel("changed", _build_changes),
    "working-set": working_set.PANEL,
    "paging": Panel(template="inspector/paging/_panel.html", context=_build_paging),
    "paging-by-event": Panel(
        template="inspector/paging/_panel.html", context=_build_paging_by_event
    ),
    "working-memory": overview.PANEL,
    **{each.panel.name or each.name: each.panel for each in NOUNS if each.panel},
}
#: Panels that a socket may ask for: those that follow the head.
PUSHED = frozenset(PANELS) - {"moment"}
