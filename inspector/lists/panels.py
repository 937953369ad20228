"""Panels: a partial template and a function that builds its context.

Page, panel URL and push render through this module, so they cannot disagree. A render
does not depend on the viewer: every viewer gets the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.template.loader import render_to_string
from django.urls import reverse

from inspector.drawing import chat, summaries
from inspector.drawing.scenes import Context, Panel, ThreadScene
from memoryhub.kernel.memory.checkpoint_events import CheckpointRestored
from memoryhub.kernel.state.page_events import PageDeleted, SlotStruck
from memoryhub.models.threads import Thread
from memoryhub.queries.access.actors import ActorNames
from memoryhub.queries.memory.checkpoints import count_inherited_clock
from memoryhub.queries.paging.page_views import PageStep
from memoryhub.queries.replay import replay
from memoryhub.queries.threads import forks
from memoryhub.queries.threads.events import ThreadEventLine
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.queries.threads.thresholds import Thresholds
from memoryhub.queries.turns import prices

#: Events that end a page: a link to the page leads to the event before.
_ENDS = (PageDeleted.event_type, SlotStruck.event_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventListRow:
    """An event of a list, in words."""

    line: ThreadEventLine
    summary: str
    preview: str
    #: Body and payload as JSON when the event is open; else empty.
    opened: str = ""
    #: The query of the page that opens or closes the event.
    toggle: str = ""

    @property
    def role(self) -> str:
        """Return the role of the event's message, for its colour."""
        return str(self.line.body.get("role", ""))

    @property
    def turn(self) -> int | None:
        """Return the turn that the event began or packed; None for other events."""
        return summaries.find_turn(self.line)


def render_panel(panel: Panel, scene: ThreadScene, *, pushed: bool = False) -> str:
    """Render one panel; the thread must be loaded with its subject and project."""
    context = {**build_shared_context(scene), "pushed": pushed, **panel.context(scene)}
    return render_to_string(panel.template, context)


def build_shared_context(scene: ThreadScene) -> Context:
    """Build the context that all panels and pages of a thread share."""
    thread = scene.thread
    names = {"project": thread.project.slug, "thread": thread.name}
    line = ThreadLine.from_row(thread)
    return {
        "thread": line,
        "thread_limits": Thresholds.from_project(thread.project),
        # Of all turns, whatever moment the page shows.
        "thread_cost": prices.compute_thread_cost(
            prices.get_table(thread.project), thread
        ),
        "at": scene.seq,
        "live": scene.at_seq is None,
        "tab": scene.tab,
        "pinned": scene.base_seq,
        "carried": scene.list_carried_parameters(),
        "keep": encode_suffix(scene.list_carried_parameters()),
        "search": "",
        "base": reverse("thread", kwargs=names),
        "threads": reverse("threads", kwargs={"project": thread.project.slug}),
        "people": reverse("subjects", kwargs={"project": thread.project.slug}),
        "pushed": False,
        "line_then": None,
        "actors": ActorNames(thread.project_id),
    }


def build_line_at(thread: Thread, seq: int) -> ThreadLine:
    """Build a thread's line as of an event. Two or three queries; none if cached."""
    return ThreadLine.from_row(thread).build_as_of(
        replay.load_state_at(thread, seq).state
    )


def build_event_row(
    thread: Thread, line: ThreadEventLine, *, opened: bool = False, toggle: str = ""
) -> EventListRow:
    """Build the row of an event in a list of the thread's events."""
    whole = {"body": dict(line.body), "payload": line.payload}
    return EventListRow(
        line=line,
        summary=summaries.summarise_event(
            line, inherited=count_inherited_clock(thread)
        ),
        preview=summaries.build_preview(line),
        opened=chat.render_readable_json(whole)[: chat.PAYLOAD_CHARS // 4]
        if opened
        else "",
        toggle=toggle,
    )


def build_named_context(thread: Thread, line: ThreadEventLine | None) -> Context:
    """Build the context of one event, with links.

    One query in a forked thread; a restore reads the state as of its event.
    """
    if line is None:
        return {"named": None}
    inherited = count_inherited_clock(thread)
    named = summaries.summarise_with_name(line, inherited=inherited)
    return {
        "named": named,
        # A deleted page last existed at the event before.
        "named_at": line.seq - (line.type in _ENDS),
        "kept_at": named.number - inherited if named.number else line.seq,
        "kept_name": _find_restored_name(thread, line) or named.name,
        "parent": forks.get_names(thread).get(thread.parent_id, "")
        if named.kind == "parent" and thread.parent_id
        else "",
    }


def _find_restored_name(thread: Thread, line: ThreadEventLine) -> str:
    """Find the name of the checkpoint that an event restored; empty without a name."""
    if line.type != CheckpointRestored.event_type:
        return ""
    state = replay.load_state_at(thread, line.seq).state
    found = state.memory.find_live(line.body["target"])
    return f"checkpoint {found.name}" if found and found.name else ""


def build_step_row(step: PageStep) -> tuple[PageStep, str]:
    """Build a step of a page's life with its summary, without the page's id."""
    words = summaries.summarise_body(step.type, step.body)
    return step, words.removeprefix(step.body.get("page_id") or "").strip()


def encode_suffix(carried: list[tuple[str, str]]) -> str:
    """Encode parameters to append to a query that is not empty."""
    return f"&{urlencode(carried, safe=',')}" if carried else ""
