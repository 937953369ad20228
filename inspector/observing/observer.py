"""The observer: what stands for older messages, what waits, and who was asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from inspector.drawing.scenes import Context, Panel, Scene
from inspector.lists import screens
from inspector.lists.screens import ListRequest, Screen
from inspector.lists.visits import Visit
from inspector.observing import rulers
from inspector.observing.observer_acts import TITLES
from memoryhub.kernel.observing import formulas
from memoryhub.kernel.observing.lines import Line
from memoryhub.models.threads import Thread
from memoryhub.queries.observing import observers, ranges
from memoryhub.queries.observing.observers import ObservationView, Observer
from memoryhub.queries.replay import states
from memoryhub.queries.threads import forks

#: Entries of the table beneath the ruler; and generations.
LISTED, GENERATIONS = 50, 20
#: Words for where an observation stands, who made it, or why nothing came of asking.
WORDS = {
    "log": "stands in requests",
    "waiting": "waits",
    "ahead": "waits until the log is long",
    "replaced": "replaced by a reflection",
    "erased": "erased",
    "model": "by a model",
    "extractive": "extractive",
    "agent": "by an agent",
    "no_model": "no model answered",
    "no_json": "the answer was no JSON",
    "empty": "the answer had no lines",
    "degenerate": "the answer repeated itself",
    "too_large": "no smaller than what it was to stand for",
    "lossy": "what is critical was lost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLine:
    """A line of an observation as it is shown."""

    mark: str
    at: datetime | None
    text: str
    first: int
    last: int

    @classmethod
    def of_line(cls, line: Line) -> ShownLine:
        return cls(
            mark=line.mark,
            at=line.at,
            text=line.text,
            first=line.first,
            last=line.end - 1,
        )


def _panel(scene: Scene) -> Context:
    """All but lines. Those queries of a state, and three more; four where it is due."""
    thread, seq = scene.thread, scene.at_seq
    state = states.state_of(thread, seq)
    observer = Observer.from_state(state, now=states.now_of(state, seq))
    seen = state.observing
    due = None
    if seq is None and observer.due and settings.MODEL is not None:
        due = ranges.find_next(thread, state, model=settings.MODEL.window_tokens)
    strip = rulers.stretches(seen, state.slot_count, due)
    entries = [each for each in strip if each.page_id]
    return {
        "observer": observer,
        "bars": [rulers.window_bar(observer), rulers.log_bar(observer, seen)],
        "around": formulas.LINE,
        "strip": strip,
        "labels": rulers.LABELS,
        "entries": entries[-LISTED:],
        "left_out": max(0, len(entries) - LISTED),
        "generations": observers.list_generations(thread, seq=seq, limit=GENERATIONS),
        "runs": observers.list_runs(thread, seq=seq),
        "chosen": "",
        "words": WORDS,
        "then": "" if seq is None else f"&at_seq={seq}",
    }


def _opened(ask: ListRequest[Visit]) -> Context:
    """The same, beside the lines of the observation that the address names."""
    visit = ask.where
    chosen = ask.request.GET.get("observation", "")
    seq = visit.moment.at_seq
    view = observers.get_observation(visit.row, chosen, seq=seq)
    dropped = observers.list_dropped(visit.row, chosen, seq=seq)
    return {
        **_panel(visit.scene),
        "chosen": chosen,
        "view": view,
        "lines": [*map(ShownLine.of_line, (view and view.lines) or ())],
        "dropped": [*map(ShownLine.of_line, dropped)],
        "home": _home(visit.row, view),
    }


def _home(thread: Thread, view: ObservationView | None) -> str:
    """Name the thread whose event made it."""
    name: str = thread.name
    if view is None or view.home == thread.id:
        return name
    return forks.get_names(thread)[view.home]


def _around(ask: ListRequest[Visit]) -> Context:
    """What an editor may do; whether to pause or to resume, the panel's class says."""
    visit = ask.where
    able = visit.editable and observers.get_observer(visit.row).observe
    return {"acts": TITLES if able else {}}


SCREEN = Screen(
    folder="observing/observer",
    label="Observing",
    tab="memory",
    scope=screens.THREAD,
    panel=Panel(template="inspector/observing/observer/_panel.html", context=_panel),
    around=_around,
    lines=_opened,
    beyond=("observation",),
)
