"""Panels: a name, a partial and a function to its context.

Page, panel URL and push render through here, so they cannot disagree. One render is
the same bytes for every viewer: nothing in it depends on who looks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlencode

from django.template.loader import render_to_string
from django.urls import reverse

from inspector.drawing import cells, charts, chat, memories, summaries
from inspector.drawing.scenes import TABS, Context, Panel, Scene
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import residency
from memoryhub.queries.paging.page_views import Step
from memoryhub.queries.replay import replay
from memoryhub.queries.threads import events, slots, timeline
from memoryhub.queries.threads.events import EventLine
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.queries.threads.timeline import Moment

#: Events shown on each side of the one at hand, messages up to it, lines of the tail.
AROUND, MESSAGES, TAIL = 50, 8, 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An event with what is said of it in a list."""

    line: EventLine
    summary: str
    preview: str
    #: Body and payload as JSON, when the event stands open.
    opened: str = ""
    #: The query of the page where it is opened, or closed again.
    toggle: str = ""

    @property
    def role(self) -> str:
        """Of the message the event brought, for its colour."""
        return str(self.line.body.get("role", ""))


def render(
    name: str,
    thread: Thread,
    *,
    at_seq: int | None = None,
    pushed: bool = False,
    tab: str = TABS[0],
    opened: frozenset[int] = frozenset(),
    base_seq: int | None = None,
) -> str:
    """One panel. `thread` comes with its subject and project. Raises KeyError."""
    panel = PANELS[name]
    scene = Scene(
        thread=thread, at_seq=at_seq, tab=tab, opened=opened, base_seq=base_seq
    )
    context = {**shared(scene), "pushed": pushed, **panel.context(scene)}
    return render_to_string(panel.template, context)


def shared(scene: Scene) -> Context:
    """What every panel and page of a thread knows."""
    thread = scene.thread
    place = {"project": thread.project.slug, "thread": thread.name}
    return {
        "thread": ThreadLine.of(thread),
        "at": scene.seq,
        "live": scene.at_seq is None,
        "tab": scene.tab,
        "pinned": scene.base_seq,
        "carried": scene.carried(),
        "keep": _kept(scene.carried()),
        "search": "",
        "base": reverse("thread", kwargs=place),
        "threads": reverse("threads", kwargs={"project": thread.project.slug}),
        "pushed": False,
    }


def told(line: EventLine, *, opened: bool = False, toggle: str = "") -> Told:
    whole = {"body": dict(line.body), "payload": line.payload}
    return Told(
        line=line,
        summary=summaries.summary(line),
        preview=summaries.preview(line),
        opened=chat.pretty(whole)[: chat.PAYLOAD_CHARS // 4] if opened else "",
        toggle=toggle,
    )


def told_step(step: Step) -> tuple[Step, str]:
    """Something that happened to a page, and what is said of it."""
    return step, summaries.of_body(step.type, step.body)


def _row(scene: Scene) -> Context:
    return {}


def _events(scene: Scene) -> Context:
    seq = scene.seq
    listed = events.list_events(
        scene.thread, after=max(0, seq - AROUND - 1), up_to=seq + AROUND, limit=101
    )
    shown = [
        told(line, opened=line.seq in scene.opened, toggle=scene.toggled(line.seq))
        for line in listed
    ]
    return {"shown": shown, "first": listed[0].seq if listed else 0}


def _summary(scene: Scene, line: EventLine | None = None) -> Context:
    if line is None and scene.seq:
        line = events.get_event(scene.thread, scene.seq)
    moment = timeline.get_moment(scene.thread, scene.seq)
    return {
        "moment": moment,
        "event": told(line) if line else None,
        "message": bubble_of(scene.thread, line, moment) if line else None,
    }


def bubble_of(
    thread: Thread, line: EventLine, moment: Moment, room: chat.Room | None = None
) -> chat.Bubble | None:
    """The message that an event brought, if it did. No query."""
    if line.type != "slot.appended":
        return None
    slot = timeline.slot_of(thread, line, turn=moment.state.turn_count)
    return chat.bubble(slot, room or chat.Room())


def _messages(scene: Scene) -> Context:
    near = slots.slots_around(scene.thread, scene.seq, before=MESSAGES, after=0)
    room = chat.Room()
    # The newest first gets its room; the page shows the oldest first.
    bubbles = [chat.bubble(slot, room) for slot in reversed(near)][::-1]
    return {"bubbles": bubbles}


def _working_set(scene: Scene) -> Context:
    return cells.picture(residency.get_residency(scene.thread, scene.seq))


def _paging(scene: Scene) -> Context:
    return charts.picture(scene.thread, last=scene.at_seq)


def _keys(scene: Scene) -> Context:
    return memories.keys_panel(scene.thread, scene.at_seq)


def _task(scene: Scene) -> Context:
    return memories.task_panel(scene.thread, scene.at_seq)


def _notes(scene: Scene) -> Context:
    return memories.notes_panel(scene.thread, scene.at_seq)


def _working_memory(scene: Scene) -> Context:
    return memories.glance(scene.thread, scene.at_seq)


def _tail(scene: Scene) -> Context:
    head = scene.seq
    listed = events.list_events(scene.thread, after=max(0, head - TAIL), up_to=head)
    shown = [told(line) for line in listed]
    return {"shown": shown, "first": listed[0].seq if listed else 0}


def _moment(scene: Scene) -> Context:
    near = _events(scene)
    here = next((t.line for t in near["shown"] if t.line.seq == scene.seq), None)
    tab = _summary(scene, here) if scene.tab == "summary" else _OTHER[scene.tab](scene)
    return {
        **near,
        **tab,
        **_difference(scene, tab.get("moment")),
        "unpinned": _kept(scene.carried(without="base")),
        "untabbed": _kept(scene.carried(without="tab")),
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


def _kept(carried: list[tuple[str, str]]) -> str:
    """To be put behind a query that is not empty."""
    return f"&{urlencode(carried, safe=',')}" if carried else ""


_OTHER: dict[str, Callable[[Scene], Context]] = {
    "messages": _messages,
    "working-set": _working_set,
    "working-memory": _working_memory,
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
    "working-set": Panel(
        template="inspector/paging/working_set/_panel.html", context=_working_set
    ),
    "paging": Panel(template="inspector/paging/_panel.html", context=_paging),
    "working-memory": Panel(
        template="inspector/memory/_panel.html", context=_working_memory
    ),
    "keys": Panel(template="inspector/memory/keys/_panel.html", context=_keys),
    "task": Panel(template="inspector/memory/task/_panel.html", context=_task),
    "notes": Panel(template="inspector/memory/notes/_panel.html", context=_notes),
}
#: What a socket may ask for: the panels that follow the head.
PUSHED = PANELS.keys() - {"moment"}
