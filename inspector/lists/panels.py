"""Panels: a partial and a function to its context.

Page, panel URL and push render through here, so they cannot disagree. One render is
the same bytes for every viewer: nothing in it depends on who looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.template.loader import render_to_string
from django.urls import reverse

from inspector.drawing import chat, summaries
from inspector.drawing.scenes import Context, Panel, Scene
from memoryhub.kernel.state.page_events import PageDeleted
from memoryhub.models.threads import Thread
from memoryhub.queries.access.actors import ActorNames
from memoryhub.queries.paging.page_views import Step
from memoryhub.queries.replay import replay
from memoryhub.queries.threads import forks
from memoryhub.queries.threads.events import EventLine
from memoryhub.queries.threads.threads import ThreadLine


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """Hold an event of a list, in words."""

    line: EventLine
    summary: str
    preview: str
    #: Body and payload as JSON, when the event stands open.
    opened: str = ""
    #: The query of the page where it is opened, or closed again.
    toggle: str = ""

    @property
    def role(self) -> str:
        """Give the role of the message that the event brought, for its colour."""
        return str(self.line.body.get("role", ""))

    @property
    def turn(self) -> int | None:
        """Give the turn that the event began, or packed the request of."""
        return summaries.turn_of(self.line)


def render(panel: Panel, scene: Scene, *, pushed: bool = False) -> str:
    """Render one panel of a thread that comes with its subject and project."""
    context = {**shared(scene), "pushed": pushed, **panel.context(scene)}
    return render_to_string(panel.template, context)


def shared(scene: Scene) -> Context:
    """Gather what every panel and page of a thread knows."""
    thread = scene.thread
    names = {"project": thread.project.slug, "thread": thread.name}
    return {
        "thread": ThreadLine.of(thread),
        "at": scene.seq,
        "live": scene.at_seq is None,
        "tab": scene.tab,
        "pinned": scene.base_seq,
        "carried": scene.carried(),
        "keep": kept(scene.carried()),
        "search": "",
        "base": reverse("thread", kwargs=names),
        "threads": reverse("threads", kwargs={"project": thread.project.slug}),
        "pushed": False,
        "line_then": None,
        "actors": ActorNames(thread.project_id),
    }


def line_at(thread: Thread, seq: int) -> ThreadLine:
    """Word a thread as of an event. Two queries or three; none where it was sought."""
    return ThreadLine.of(thread).as_of(replay.state_at(thread, seq).state)


def event_row(line: EventLine, *, opened: bool = False, toggle: str = "") -> EventRow:
    """Word an event for a list."""
    whole = {"body": dict(line.body), "payload": line.payload}
    return EventRow(
        line=line,
        summary=summaries.summary(line),
        preview=summaries.preview(line),
        opened=chat.readable(whole)[: chat.PAYLOAD_CHARS // 4] if opened else "",
        toggle=toggle,
    )


def named_context(thread: Thread, line: EventLine | None) -> Context:
    """Word one event with a link to what it names. One query where a thread forked."""
    if line is None:
        return {"named": None}
    named = summaries.named(line)
    before = forks.get_segments(thread)[:-1]
    return {
        "named": named,
        # A page that was deleted was last there just before.
        "named_at": line.seq - (line.type == PageDeleted.event_type),
        "kept_at": named.number - sum(part.up_to_seq for part in before)
        if named.number
        else line.seq,
        "parent": forks.get_names(thread).get(thread.parent_id, "")
        if named.kind == "parent" and thread.parent_id
        else "",
    }


def step_row(step: Step) -> tuple[Step, str]:
    """Give something that happened to a page, and its words without the page's id."""
    words = summaries.of_body(step.type, step.body)
    return step, words.removeprefix(step.body.get("page_id") or "").strip()


def kept(carried: list[tuple[str, str]]) -> str:
    """Word what is put behind a query that is not empty."""
    return f"&{urlencode(carried, safe=',')}" if carried else ""
