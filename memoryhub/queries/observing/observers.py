"""What is observed of a thread, now or as of an event. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, Literal
from uuid import UUID

from django.conf import settings

from memoryhub.journal.log import log
from memoryhub.kernel.levels import log_lines
from memoryhub.kernel.observing import formulas
from memoryhub.kernel.observing.lines import Line, read_any
from memoryhub.kernel.state.observing import Failing, Observation
from memoryhub.kernel.state.observing_events import LogReflected, ObserverFailed
from memoryhub.kernel.state.page_events import ObservedBody, PageCreated
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import Batch, Listing
from memoryhub.queries.replay import replay
from memoryhub.queries.replay.states import now_of, state_of
from memoryhub.queries.threads.events import rows_at

#: Where an observation stands: in requests; waiting for them, as an observation or as a
#: reflection; behind a reflection that took its place; or nowhere, as it was erased.
Standing = Literal["log", "waiting", "ahead", "replaced", "erased"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """How far a thread is observed, and what is due when. Tokens, slot indexes."""

    observe: bool
    paused: bool
    epoch: int
    generation: int
    slots: int
    cursor: int
    watermark: int
    gaps: tuple[tuple[int, int], ...]
    #: What requests may hold, and what it would take to show all there is.
    window: int
    need: int
    pins: int
    log: int
    #: Messages as they were said that no observation of the log stands for: in all,
    #: and those of which an observation waits.
    uncovered: int
    waiting: int
    unobserved: int
    #: After how many unobserved tokens the observer is due; what an activation leaves;
    #: the length of the log at which it is condensed.
    interval: int
    keep: int
    reflect_at: int
    #: At which need what waits comes into requests.
    activate_at: int
    #: Whether a model would be asked then: not while it waits after a failure.
    due: bool
    observer: Failing
    reflector: Failing

    @classmethod
    def from_state(cls, state: ThreadState, *, now: datetime) -> Observer:
        """Compute it from a state, as it is at an instant; nothing is read."""
        seen, chosen = state.observing, state.paging.settings
        window, need = formulas.window(chosen), formulas.need(state)
        interval = formulas.interval(chosen, need, model_window())
        return cls(
            observe=chosen.observe,
            paused=seen.paused,
            epoch=seen.epoch,
            generation=seen.generation,
            slots=state.slot_count,
            cursor=seen.cursor,
            watermark=seen.watermark,
            gaps=tuple(seen.gaps()),
            window=window,
            need=need,
            pins=need - seen.log_tokens - formulas.uncovered(state),
            log=seen.log_tokens,
            uncovered=formulas.uncovered(state),
            waiting=sum(
                formulas.weight(each.raw, each.end - each.begin) for each in seen.chunks
            ),
            unobserved=formulas.unobserved(state),
            interval=interval,
            keep=formulas.keep(chosen),
            reflect_at=formulas.reflect_at(chosen, model_window()),
            activate_at=int(chosen.observe_at * window),
            due=formulas.may_be_due(state)
            and formulas.is_behind(state, model_window())
            and not seen.observer.waits(now),
            observer=seen.observer,
            reflector=seen.reflector,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationView:
    """An observation or a reflection."""

    page_id: str
    #: Its event, in the journal of this thread or of an ancestor.
    home: UUID
    seq: int
    at: datetime
    begin: int
    end: int
    standing: Standing
    body: ObservedBody
    #: None once it is erased.
    lines: tuple[Line, ...] | None
    hints: tuple[str, ...]

    @property
    def reflection(self) -> bool:
        return self.body.covers is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A reflection that came into the log, and what it took the place of."""

    number: int
    #: Of `log.reflected`.
    seq: int
    at: datetime
    page_id: str
    replaced: tuple[str, ...]
    tokens_before: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverRun:
    """Somebody was asked to observe or reflect."""

    seq: int
    at: datetime
    role: str
    begin: int
    end: int
    #: `model`, `extractive` or `agent`; or why nothing came of it.
    outcome: str
    #: What it led to.
    page_id: str | None
    tokens_in: int
    tokens_out: int
    cost: float | None
    host: str | None


def model_window() -> int | None:
    """Return the tokens that the configured model takes; None without, or unknown."""
    return settings.MODEL.window_tokens if settings.MODEL else None


def get_observer(thread: Thread, *, seq: int | None = None) -> Observer:
    """Return what is observed of the thread. Those queries of a state."""
    state = state_of(thread, seq)
    return Observer.from_state(state, now=now_of(state, seq))


def list_log(thread: Thread, *, seq: int | None = None) -> list[ObservationView]:
    """Return what stands in requests for messages, in their order. One query more."""
    state = state_of(thread, seq)
    return _views(thread, state, state.observing.log)


def list_waiting(thread: Thread, *, seq: int | None = None) -> list[ObservationView]:
    """Return what waits to come into requests, a reflection last. One query more."""
    state = state_of(thread, seq)
    ahead = [state.observing.ahead] if state.observing.ahead else []
    return _views(thread, state, (*state.observing.chunks, *ahead))


def list_observations(
    thread: Thread, *, seq: int | None = None, after: str | None = None, limit: int = 50
) -> Batch[ObservationView]:
    """List all that the thread itself has observed, newest first. One query more.

    Raises BadCursorError.
    """
    filters = [thread.id, seq]
    listing = Listing(name="observations", project=thread.project_id, filters=filters)
    rows = Event.objects.filter(thread=thread, type=PageCreated.event_type)
    rows = rows.filter(page__regex=r"^(obs|ref)-\d+$")
    if seq is not None:
        rows = rows.filter(seq__lte=seq)
    if after is not None:
        rows = rows.filter(seq__lt=listing.open(after)[0])
    found = [*rows.order_by("-seq")[: limit + 1]]
    state = state_of(thread, seq)
    views = [_view(thread, state, row) for row in found[:limit]]
    more = listing.seal([found[limit - 1].seq]) if len(found) > limit else None
    return Batch(items=tuple(views), next=more)


def get_observation(
    thread: Thread, page_id: str, *, seq: int | None = None
) -> ObservationView | None:
    """Return an observation that stands, waits or was replaced; None for no such one.

    One query more.
    """
    state = state_of(thread, seq)
    found = _find(state, page_id)
    return next(iter(_views(thread, state, (found,))), None) if found else None


def list_dropped(thread: Thread, page_id: str, *, seq: int | None = None) -> list[Line]:
    """Return the lines that a reflection was made of and does not have as they were.

    In order; none of what is no reflection, or not there. One query more.
    """
    state = state_of(thread, seq)
    found = _find(state, page_id)
    if found is None or not found.covers:
        return []
    made, *read = _views(thread, state, (found, *found.covers))
    kept = {(line.mark, line.text) for line in made.lines or ()}
    lines = chain.from_iterable(view.lines or () for view in read)
    return [line for line in lines if (line.mark, line.text) not in kept]


def _find(state: ThreadState, page_id: str) -> Observation | None:
    seen = state.observing
    ahead = (seen.ahead,) if seen.ahead else ()
    every = _iter_all((*seen.log, *seen.chunks, *ahead))
    return next((each for each in every if each.page_id == page_id), None)


def _iter_all(found: Iterable[Observation]) -> Iterable[Observation]:
    """These and all that they stand for."""
    return chain.from_iterable((each, *_iter_all(each.covers)) for each in found)


def list_generations(
    thread: Thread, *, seq: int | None = None, limit: int = 50
) -> list[Generation]:
    """List the newest reflections of the log, newest first. Two queries."""
    rows = Event.objects.filter(thread=thread, type=LogReflected.event_type)
    if seq is not None:
        rows = rows.filter(seq__lte=seq)
    found = [(row, log.recorded(row).event) for row in rows.order_by("-seq")[:limit]]
    pages = [event.page_id for _, event in found if isinstance(event, LogReflected)]
    made = Event.objects.filter(
        thread=thread, type=PageCreated.event_type, page__in=pages
    )
    bodies = {row.page: _body(row) for row in made}
    return [
        Generation(
            number=event.generation,
            seq=row.seq,
            at=row.at,
            page_id=event.page_id,
            replaced=tuple(_covers(bodies.get(event.page_id))),
            tokens_before=event.log_before,
            tokens=event.log_tokens,
        )
        for row, event in found
        if isinstance(event, LogReflected)
    ]


def list_runs(
    thread: Thread, *, seq: int | None = None, limit: int = 20
) -> list[ObserverRun]:
    """List who was asked last and what came of it, newest first. One query."""
    rows = Event.objects.filter(thread=thread)
    if seq is not None:
        rows = rows.filter(seq__lte=seq)
    made = rows.filter(
        type=PageCreated.event_type, page__regex=r"^(obs|ref)-\d+$"
    ).order_by("-seq")[:limit]
    failed = rows.filter(type=ObserverFailed.event_type).order_by("-seq")[:limit]
    found = sorted((*made, *failed), key=lambda row: -row.seq)[:limit]
    return [_run(row) for row in found]


def _run(row: Event) -> ObserverRun:
    event: Any = log.recorded(row).event
    failed = isinstance(event, ObserverFailed)
    body = event if failed else event.observed
    role = event.role if failed else _role(body)
    return ObserverRun(
        seq=row.seq,
        at=row.at,
        role=role,
        begin=body.begin,
        end=body.end,
        outcome=event.failure if failed else body.method,
        page_id=None if failed else event.page_id,
        tokens_in=body.tokens_in,
        tokens_out=body.tokens_out,
        cost=body.cost,
        host=body.host,
    )


def _role(body: ObservedBody) -> str:
    return "observer" if body.covers is None else "reflector"


def _views(
    thread: Thread, state: ThreadState, found: Sequence[Observation]
) -> list[ObservationView]:
    places = [state.place(each.clock) for each in found]
    rows = rows_at(places, content=True)
    return [_view(thread, state, rows[place]) for place in places if place in rows]


def _view(thread: Thread, state: ThreadState, row: Event) -> ObservationView:
    body, opened = _body(row), replay.opened(thread, row)
    text = opened["content"]["text"] if opened else None
    rows = text.split("\n") if text else []
    return ObservationView(
        page_id=str(row.page),
        home=row.thread_id,
        seq=row.seq,
        at=row.at,
        begin=body.begin,
        end=body.end,
        standing=_standing(state, str(row.page), erased=text is None),
        body=body,
        lines=None
        if text is None
        else read_any(log_lines.without_hints(text), body.begin, body.end),
        hints=tuple(
            line.removeprefix(log_lines.HINT)
            for line in rows
            if line.startswith(log_lines.HINT)
        ),
    )


def _standing(state: ThreadState, page_id: str, *, erased: bool) -> Standing:
    seen = state.observing
    if any(each.page_id == page_id for each in seen.log):
        return "log"
    if any(each.page_id == page_id for each in seen.chunks):
        return "waiting"
    if seen.ahead is not None and seen.ahead.page_id == page_id:
        return "ahead"
    return "erased" if erased else "replaced"


def _body(row: Event) -> ObservedBody:
    event = log.recorded(row).event
    assert isinstance(event, PageCreated)
    assert event.observed is not None
    return event.observed


def _covers(body: ObservedBody | None) -> Sequence[str]:
    return (body.covers if body else None) or ()
