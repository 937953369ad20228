"""Moments: the panels of a thread at an event, and those that follow its head."""

from __future__ import annotations

from collections.abc import Callable

from inspector.drawing import charts, chat
from inspector.drawing.scenes import Context, Panel, Scene
from inspector.lists import panels
from inspector.memory import overview
from inspector.nouns import NOUNS
from inspector.paging import working_set
from inspector.threads import events as thread_events
from memoryhub.queries.replay import replay
from memoryhub.queries.threads import events, slots, timeline
from memoryhub.queries.threads.events import EventLine
from memoryhub.queries.threads.timeline import Moment

#: Events shown on each side of the one at hand, messages up to it, lines of the tail.
AROUND, MESSAGES, TAIL = 50, 8, 50


def _row(scene: Scene) -> Context:
    return {}


def _events(scene: Scene) -> Context:
    seq = scene.seq
    listed = events.list_events(
        scene.thread, after=max(0, seq - AROUND - 1), up_to=seq + AROUND, limit=101
    )
    shown = [
        panels.told(
            line, opened=line.seq in scene.opened, toggle=scene.toggled(line.seq)
        )
        for line in listed
    ]
    return {"shown": shown, "first": listed[0].seq if listed else 0}


def _summary(scene: Scene, line: EventLine | None = None) -> Context:
    if line is None and scene.seq:
        line = events.get_event(scene.thread, scene.seq)
    moment = timeline.get_moment(scene.thread, scene.seq)
    return {
        "moment": moment,
        "event": panels.told(line) if line else None,
        "message": thread_events.bubble_of(scene.thread, line, moment)
        if line
        else None,
    }


def _messages(scene: Scene) -> Context:
    near = slots.slots_around(scene.thread, scene.seq, before=MESSAGES, after=0)
    room = chat.Room()
    # The newest first gets its room; the page shows the oldest first.
    bubbles = [chat.bubble(slot, room) for slot in reversed(near)][::-1]
    return {"bubbles": bubbles}


def _paging(scene: Scene) -> Context:
    return charts.picture(scene.thread, last=scene.at_seq)


def _tail(scene: Scene) -> Context:
    head = scene.seq
    listed = events.list_events(scene.thread, after=max(0, head - TAIL), up_to=head)
    shown = [panels.told(line) for line in listed]
    return {"shown": shown, "first": listed[0].seq if listed else 0}


def _moment(scene: Scene) -> Context:
    near = _events(scene)
    here = next((t.line for t in near["shown"] if t.line.seq == scene.seq), None)
    tab = _summary(scene, here) if scene.tab == "summary" else _OTHER[scene.tab](scene)
    return {
        **near,
        **tab,
        **_difference(scene, tab.get("moment")),
        "unpinned": panels.kept(scene.carried(without="base")),
        "untabbed": panels.kept(scene.carried(without="tab")),
        "marks": timeline.get_marks(
            scene.thread, scene.seq, near=[told.line for told in near["shown"]]
        ),
        "newer": scene.thread.head_seq - scene.seq,
    }


def _difference(scene: Scene, moment: Moment | None) -> Context:
    """What differs between the pinned event and this one, if one is pinned."""
    if scene.base_seq is None:
        return {}
    before = replay.state_at(scene.thread, scene.base_seq).state
    if moment is None:
        after = replay.state_at(scene.thread, scene.seq).state
    else:
        after = moment.state
    return {"difference": timeline.differences(before, after)}


_OTHER: dict[str, Callable[[Scene], Context]] = {
    "messages": _messages,
    "working-set": working_set.picture,
    "working-memory": overview.PANEL.context,
}
PANELS: dict[str, Panel] = {
    "head": Panel(template="inspector/threads/_head.html", context=_row),
    "row": Panel(template="inspector/threads/_row.html", context=_row),
    "moment": Panel(
        template="inspector/threads/timeline/_moment.html", context=_moment
    ),
    "events": Panel(
        template="inspector/threads/timeline/_events.html", context=_events
    ),
    "summary": Panel(
        template="inspector/threads/timeline/_summary.html", context=_summary
    ),
    "messages": Panel(
        template="inspector/threads/timeline/_messages.html", context=_messages
    ),
    "tail": Panel(template="inspector/threads/events/_tail.html", context=_tail),
    "paging": Panel(template="inspector/paging/_panel.html", context=_paging),
    "working-memory": overview.PANEL,
    **{screen.name: screen.panel for screen in NOUNS if screen.panel is not None},
}
#: What a socket may ask for: the panels that follow the head.
PUSHED = frozenset(PANELS) - {"moment"}
