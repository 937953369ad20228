"""Moments: the panels of a thread at an event, and those that follow its head."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from inspector.drawing import charts, maps, thread_table
from inspector.drawing.scenes import Context, Panel, Scene
from inspector.lists import panels
from inspector.nouns import NOUNS
from inspector.paging import folds, working_set
from inspector.replay import conversation, overview
from inspector.threads import events as thread_events
from inspector.web.search import NOUNS as NOUNS_OF_EVENTS
from memoryhub.kernel.state.state import ThreadState
from memoryhub.queries.paging import eviction_runs, working_set_maps
from memoryhub.queries.paging.eviction_runs import EvictionRun
from memoryhub.queries.replay import replay
from memoryhub.queries.threads import events, timeline
from memoryhub.queries.threads.events import EventLine
from memoryhub.queries.threads.threads import ThreadLine

#: Events shown on each side of the one at hand; while the thumb is being dragged.
AROUND, PASSING = 50, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Right:
    """What stands on the right, and the state that came with it if one did."""

    context: Context
    state: ThreadState | None = None


def _nothing(scene: Scene) -> Context:
    """Draw what is shared alone."""
    return {}


def _line(scene: Scene) -> EventLine | None:
    """Return the event at hand. One query."""
    return events.get_event(scene.thread, scene.seq) if scene.seq else None


def _events(scene: Scene) -> Context:
    # Its links lead to lists of events, whatever else the page shows.
    scene = replace(scene, view="events")
    seq, around = scene.seq, PASSING if scene.passing else AROUND
    listed = events.list_events(
        scene.thread,
        after=max(0, seq - around - 1),
        # A list that follows ends where it says: more may have come meanwhile.
        up_to=seq if scene.at_seq is None else seq + around,
        limit=2 * around + 1,
    )
    shown = [
        panels.event_row(
            line, opened=line.seq in scene.opened, toggle=scene.toggled(line.seq)
        )
        for line in listed
    ]
    return {
        "shown": shown,
        "first": listed[0].seq if listed else 0,
        "keep": panels.kept(scene.carried()),
    }


def _conversation(scene: Scene) -> Context:
    state = replay.state_at(scene.thread, scene.seq).state
    return conversation.picture(scene, _line(scene), state)


def _changes(scene: Scene) -> Context:
    moment = timeline.get_moment(scene.thread, scene.seq)
    line = _line(scene)
    return {
        "moment": moment,
        "event": panels.event_row(line) if line else None,
        **panels.named_context(scene.thread, line),
        "message": thread_events.bubble_of(scene.thread, line, moment)
        if line
        else None,
    }


def _paging(scene: Scene) -> Context:
    return charts.picture(scene.thread, last=scene.at_seq)


def _paging_by_event(scene: Scene) -> Context:
    return charts.picture(scene.thread, last=scene.at_seq, by="event")


def _map(scene: Scene) -> Context:
    return {"map": maps.draw(working_set_maps.get_map(scene.thread))}


def _at(scene: Scene) -> Context:
    run = eviction_runs.get_run(scene.thread, scene.seq) if scene.seq else None
    return _worded(scene, _line(scene), run)


def _worded(scene: Scene, line: EventLine | None, run: EvictionRun | None) -> Context:
    """Put the event at hand into words, with the run that it is one of."""
    under_way = run if run and run.first <= scene.seq <= run.last else None
    all_of_run = under_way.steps if under_way else ()
    leaving = sum(each.level is None for each in all_of_run)
    return {
        "here": panels.event_row(line) if line else None,
        **panels.named_context(scene.thread, line),
        "of_run": under_way,
        "place": len(under_way.up_to(scene.seq)) if under_way else 0,
        "leaving": leaving,
        "shortened": len(all_of_run) - leaving,
        "oob": False,
    }


def _moment(scene: Scene) -> Context:
    line = _line(scene)
    run = eviction_runs.get_run(scene.thread, scene.seq) if scene.seq else None
    right = _Right(context={}) if scene.passing else _right(scene)
    if scene.view == "events":
        left = _events(scene)
    else:
        left = conversation.picture(scene, line, right.state)
    near = [row.line for row in left.get("shown", ())]
    return {
        **left,
        **right.context,
        **_worded(scene, line, run),
        **_difference(scene, right.state),
        "view": scene.view,
        "passing": scene.passing,
        "hidden": scene.hidden,
        "nouns": [(noun, _toggled(scene, noun)) for noun in NOUNS_OF_EVENTS],
        "turn": right.state.turn_count if right.state else None,
        "unpinned": panels.kept(scene.carried(without="base")),
        "untabbed": panels.kept(scene.carried(without="tab")),
        "unviewed": panels.kept(scene.carried(without="view")),
        "marks": timeline.get_marks(scene.thread, scene.seq, near=near),
        "line_then": right.state and ThreadLine.of(scene.thread).as_of(right.state),
    }


def _toggled(scene: Scene, noun: str) -> str:
    """Word the query that shows the events that are hidden, or hides those shown."""
    others = tuple(word for word in scene.hidden if word != noun)
    hidden = others if noun in scene.hidden else (*others, noun)
    return replace(scene, hidden=hidden).query()


def _right(scene: Scene) -> _Right:
    """Draw what the tab asks for; the state comes along, so that it is folded once."""
    if scene.tab == "changes":
        context = _changes(scene)
        return _Right(context=context, state=context["moment"].state)
    if scene.tab == "memory":
        state = replay.state_at(scene.thread, scene.seq).state
        return _Right(context=overview.PANEL.context(scene), state=state)
    fold = folds.fold(scene)
    return _Right(context=working_set.picture_of(scene, fold), state=fold.state)


def _difference(scene: Scene, state: ThreadState | None) -> Context:
    """List what differs between the pinned event and this one, if one is pinned."""
    if scene.base_seq is None or state is None:
        return {}
    before = replay.state_at(scene.thread, scene.base_seq).state
    return {"difference": timeline.differences(before, state)}


def _panel(name: str, context: Any) -> Panel:
    template = f"inspector/threads/timeline/_{name}.html"
    return Panel(template=template, context=context)


PANELS: dict[str, Panel] = {
    "head": Panel(template="inspector/threads/_head.html", context=_nothing),
    "row": Panel(template="inspector/threads/_row.html", context=thread_table.draw_row),
    "moment": _panel("seek", _moment),
    "at": _panel("at", _at),
    "map": _panel("map", _map),
    "map-table": _panel("map_table", _map),
    "events": _panel("events", _events),
    "conversation": _panel("conversation", _conversation),
    "changed": _panel("changed", _changes),
    "working-set": working_set.PANEL,
    "paging": Panel(template="inspector/paging/_panel.html", context=_paging),
    "paging-by-event": Panel(
        template="inspector/paging/_panel.html", context=_paging_by_event
    ),
    "working-memory": overview.PANEL,
    **{each.panel.name or each.name: each.panel for each in NOUNS if each.panel},
}
#: What a socket may ask for: the panels that follow the head.
PUSHED = frozenset(PANELS) - {"moment"}
