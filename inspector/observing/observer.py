"""Screen of the observer: its log, waiting observations, and runs of the model."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from inspector.drawing.scenes import Context, Panel, ThreadScene
from inspector.lists import screens
from inspector.lists.screens import ListRequest, Screen
from inspector.lists.visits import Visit
from inspector.observing import rulers
from inspector.observing.instruction_form import build_shown
from inspector.observing.observer_acts import TITLES
from memoryhub.kernel.observing.lines import ObservationLine
from memoryhub.models.threads import Thread
from memoryhub.queries.observing import observers, ranges
from memoryhub.queries.observing.calls import find_call
from memoryhub.queries.observing.observers import ObservationView, Observer
from memoryhub.queries.replay import states
from memoryhub.queries.threads import forks

#: Entries of the table below the ruler, and generations of reflections.
LISTED, GENERATIONS = 50, 20
#: Newest lines shown above the figures.
NEWEST = 8
#: Words for an observation's place, for its maker, or for why a run yielded nothing.
WORDS = {
    "log": "used in requests",
    "waiting": "ready, not used yet",
    "ahead": "ready, used once the log is full",
    "replaced": "replaced by a reflection",
    "erased": "erased",
    "model": "by a model",
    "extractive": "without a model",
    "agent": "by an agent",
    "no_model": "no model answered",
    "no_json": "the answer was not JSON",
    "empty": "the answer had no lines",
    "degenerate": "the answer repeated itself",
    "too_large": "not smaller than its source",
    "lossy": "critical details were lost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownObservationLine:
    """Line of an observation as the screen shows it."""

    mark: str
    at: datetime | None
    text: str
    first: int
    last: int

    @classmethod
    def from_line(cls, line: ObservationLine) -> ShownObservationLine:
        return cls(
            mark=line.mark,
            at=line.at,
            text=line.text,
            first=line.first,
            last=line.end - 1,
        )


def _build_panel(scene: ThreadScene) -> Context:
    """Build the panel, with the newest lines of the log.

    Queries of one state plus four; one more if due, and one for instructions.
    """
    thread, seq = scene.thread, scene.at_seq
    state = states.load_state(thread, seq)
    observer = Observer.from_state(state, now=states.compute_instant(state, seq))
    seen = state.observing
    due = None
    if seq is None and observer.due and settings.MODEL is not None:
        due = ranges.find_next(thread, state, model=settings.MODEL.window_tokens)
    strip = rulers.list_stretches(seen, state.slot_count, due)
    entries = [each for each in strip if each.page_id]
    return {
        "observer": observer,
        "bars": [
            rulers.draw_window_bar(observer, seen),
            rulers.draw_log_bar(observer, seen),
        ],
        "strip": strip,
        "labels": rulers.LABELS,
        "entries": entries[-LISTED:],
        "left_out": max(0, len(entries) - LISTED),
        "newest": _list_newest(thread, seq),
        "generations": observers.list_generations(thread, seq=seq, limit=GENERATIONS),
        "runs": observers.list_runs(thread, seq=seq),
        "instructions": build_shown(thread, state),
        "chosen": "",
        "words": WORDS,
        "in_flight": find_call(thread.id) if seq is None else None,
        "then": "" if seq is None else f"&at_seq={seq}",
    }


def _list_newest(thread: Thread, seq: int | None) -> list[ShownObservationLine]:
    """List the newest lines that requests show instead of messages."""
    log = observers.list_log(thread, seq=seq, newest=NEWEST)
    lines = [line for view in log for line in view.lines or ()]
    return [*map(ShownObservationLine.from_line, lines[-NEWEST:])]


def _build_opened(ask: ListRequest[Visit]) -> Context:
    """Build the panel with the lines of the observation that the address names."""
    visit = ask.where
    chosen = ask.request.GET.get("observation", "")
    seq = visit.moment.at_seq
    view = observers.get_observation(visit.row, chosen, seq=seq)
    dropped = observers.list_dropped(visit.row, chosen, seq=seq)
    return {
        **_build_panel(visit.scene),
        "chosen": chosen,
        "view": view,
        "lines": [*map(ShownObservationLine.from_line, (view and view.lines) or ())],
        "dropped": [*map(ShownObservationLine.from_line, dropped)],
        "home": _find_home_name(visit.row, view),
    }


def _find_home_name(thread: Thread, view: ObservationView | None) -> str:
    """Return the name of the thread whose event made the observation."""
    name: str = thread.name
    if view is None or view.home == thread.id:
        return name
    return forks.get_names(thread)[view.home]


def _build_surroundings(ask: ListRequest[Visit]) -> Context:
    """Build an editor's acts; the panel's CSS class shows either pause or resume."""
    visit = ask.where
    able = visit.editable and observers.get_observer(visit.row).observe
    return {"acts": TITLES if able else {}, "instructing": visit.editable}


SCREEN = Screen(
    folder="observing/observer",
    label="Observing",
    tab="memory",
    scope=screens.THREAD,
    panel=Panel(
        template="inspector/observing/observer/_panel.html", context=_build_panel
    ),
    around=_build_surroundings,
    lines=_build_opened,
    beyond=("observation",),
)
