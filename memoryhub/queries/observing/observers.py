"""Observations of a thread, now or as of an event. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from itertools import chain
from operator import or_
from typing import Any, Literal
from uuid import UUID

from django.conf import settings
from django.db.models import F, Q, QuerySet

from memoryhub.journal import texts
from memoryhub.journal.log import log
from memoryhub.kernel.context import log_lines
from memoryhub.kernel.observing import formulas
from memoryhub.kernel.observing.lines import ObservationLine, read_any
from memoryhub.kernel.state.observing import FailureStreak, Observation
from memoryhub.kernel.state.observing_events import LogReflected, ObserverFailed
from memoryhub.kernel.state.page_events import ObservedBody, PageCreated
from memoryhub.kernel.state.pages import OBSERVATION_IDS
from memoryhub.kernel.state.state import ThreadState
from memoryhub.models.events import Event
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.cursors import ListBatch, ListScope
from memoryhub.queries.replay.states import compute_instant, load_state
from memoryhub.queries.threads.events import get_rows_at

#: Newest events among which failed runs are looked for.
FAILED_SPAN = 10_000
#: Place of an observation: in requests (`log`); waiting for activation as an
#: observation (`waiting`) or reflection (`ahead`); replaced by a reflection; erased.
Standing = Literal["log", "waiting", "ahead", "replaced", "erased"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """Progress of observing a thread, and thresholds, in tokens and slot indexes."""

    observe: bool
    paused: bool
    epoch: int
    generation: int
    slots: int
    cursor: int
    watermark: int
    gaps: tuple[tuple[int, int], ...]
    #: Tokens that requests may hold, and tokens that a request needs with the log in
    #: place of the messages that it replaces.
    window: int
    need: int
    pins: int
    log: int
    #: Tokens of messages that no observation of the log stands for: of all, of messages
    #: with a waiting observation, and of messages without an observation.
    uncovered: int
    waiting: int
    unobserved: int
    #: Unobserved tokens at which the observer is due; tokens that an activation leaves;
    #: tokens of the log at which a reflection condenses the log.
    interval: int
    keep: int
    reflect_at: int
    #: Need at which waiting observations come into requests.
    activate_at: int
    #: Whether a model would be asked now; False while the observer backs off.
    due: bool
    observer: FailureStreak
    reflector: FailureStreak

    @classmethod
    def from_state(cls, state: ThreadState, *, now: datetime) -> Observer:
        """Compute the observer's figures from a state, at an instant. No query."""
        seen, chosen = state.observing, state.paging.settings
        window, need = formulas.compute_window(chosen), formulas.compute_need(state)
        interval = formulas.compute_interval(chosen, need, get_model_window())
        return cls(
            observe=chosen.observe,
            paused=seen.paused,
            epoch=seen.epoch,
            generation=seen.generation,
            slots=state.slot_count,
            cursor=seen.cursor,
            watermark=seen.watermark,
            gaps=tuple(seen.list_gaps()),
            window=window,
            need=need,
            pins=need - seen.log_tokens - formulas.count_uncovered_tokens(state),
            log=seen.log_tokens,
            uncovered=formulas.count_uncovered_tokens(state),
            waiting=sum(
                formulas.compute_weight(each.raw, each.end - each.begin)
                for each in seen.chunks
            ),
            unobserved=formulas.count_unobserved_tokens(state),
            interval=interval,
            keep=formulas.compute_keep(chosen),
            reflect_at=formulas.compute_reflect_at(chosen, get_model_window()),
            activate_at=int(chosen.observe_at * window),
            due=formulas.can_be_due(state)
            and formulas.is_behind(state, get_model_window())
            and not seen.observer.is_waiting(now),
            observer=seen.observer,
            reflector=seen.reflector,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationView:
    """An observation or a reflection."""

    page_id: str
    #: Thread and seq of its event: this thread or an ancestor.
    home: UUID
    seq: int
    at: datetime
    begin: int
    end: int
    standing: Standing
    body: ObservedBody
    #: None once the observation is erased.
    lines: tuple[ObservationLine, ...] | None
    hints: tuple[str, ...]

    @property
    def reflection(self) -> bool:
        return self.body.covers is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A reflection that came into the log, and the observations that it replaced."""

    number: int
    #: Seq of the event `log.reflected`.
    seq: int
    at: datetime
    page_id: str
    replaced: tuple[str, ...]
    tokens_before: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverRun:
    """A run of the observer or the reflector."""

    seq: int
    at: datetime
    role: str
    begin: int
    end: int
    #: `model`, `extractive` or `agent`; or why the run failed.
    outcome: str
    #: Page of the resulting observation; None after a failure.
    page_id: str | None
    tokens_in: int
    tokens_out: int
    cost: float | None
    host: str | None


def get_model_window() -> int | None:
    """Return the configured model's window in tokens; None without one, or unknown."""
    return settings.MODEL.window_tokens if settings.MODEL else None


def get_observer(thread: Thread, *, seq: int | None = None) -> Observer:
    """Return the observer's figures of the thread. Queries: those of a state."""
    state = load_state(thread, seq)
    return Observer.from_state(state, now=compute_instant(state, seq))


def list_log(
    thread: Thread, *, seq: int | None = None, newest: int | None = None
) -> list[ObservationView]:
    """List the observations in requests, in the messages' order. One query more.

    With `newest`, at most that many: those of the newest messages.
    """
    state = load_state(thread, seq)
    log = state.observing.log
    return _open_views(thread, state, log if newest is None else log[-newest:])


def list_waiting(thread: Thread, *, seq: int | None = None) -> list[ObservationView]:
    """List the observations that wait for activation, a reflection last.

    One query more.
    """
    state = load_state(thread, seq)
    ahead = [state.observing.ahead] if state.observing.ahead else []
    return _open_views(thread, state, (*state.observing.chunks, *ahead))


def list_observations(
    thread: Thread, *, seq: int | None = None, after: str | None = None, limit: int = 50
) -> ListBatch[ObservationView]:
    """List the thread's own observations, newest first. One query more.

    Raises BadCursorError.
    """
    filters = [thread.id, seq]
    listing = ListScope(name="observations", project=thread.project_id, filters=filters)
    rows = _filter_observed(thread, seq).filter(type=PageCreated.event_type)
    if after is not None:
        rows = rows.filter(seq__lt=listing.open(after)[0])
    found = [*rows.order_by("-seq")[: limit + 1]]
    state = load_state(thread, seq)
    views = [_open_view(thread, state, row) for row in found[:limit]]
    more = listing.seal([found[limit - 1].seq]) if len(found) > limit else None
    return ListBatch(items=tuple(views), next=more)


def get_observation(
    thread: Thread, page_id: str, *, seq: int | None = None
) -> ObservationView | None:
    """Return an observation in the log, waiting or replaced; None without one.

    One query more.
    """
    state = load_state(thread, seq)
    found = _find_observation(state, page_id)
    return next(iter(_open_views(thread, state, (found,))), None) if found else None


def list_dropped(
    thread: Thread, page_id: str, *, seq: int | None = None
) -> list[ObservationLine]:
    """List the lines that a reflection was made of and did not keep, in order.

    Empty for a page that is no reflection or does not exist. One query more.
    """
    state = load_state(thread, seq)
    found = _find_observation(state, page_id)
    if found is None or not found.covers:
        return []
    made, *read = _open_views(thread, state, (found, *found.covers))
    kept = {(line.mark, line.text) for line in made.lines or ()}
    lines = chain.from_iterable(view.lines or () for view in read)
    return [line for line in lines if (line.mark, line.text) not in kept]


def _find_observation(state: ThreadState, page_id: str) -> Observation | None:
    seen = state.observing
    ahead = (seen.ahead,) if seen.ahead else ()
    every = _iter_all((*seen.log, *seen.chunks, *ahead))
    return next((each for each in every if each.page_id == page_id), None)


def _iter_all(found: Iterable[Observation]) -> Iterable[Observation]:
    """Yield these observations and all that these cover, recursively."""
    return chain.from_iterable((each, *_iter_all(each.covers)) for each in found)


def list_generations(
    thread: Thread, *, seq: int | None = None, limit: int = 50
) -> list[Generation]:
    """List the newest reflections of the log, newest first. Two queries."""
    rows = _filter_observed(thread, seq).filter(type=LogReflected.event_type)
    found = [(row, log.to_recorded(row).event) for row in rows.order_by("-seq")[:limit]]
    pages = [event.page_id for _, event in found if isinstance(event, LogReflected)]
    made = Event.objects.filter(
        thread=thread, type=PageCreated.event_type, page__in=pages
    )
    bodies = {row.page: _read_body(row) for row in made}
    return [
        Generation(
            number=event.generation,
            seq=row.seq,
            at=row.at,
            page_id=event.page_id,
            replaced=tuple(_list_covered(bodies.get(event.page_id))),
            tokens_before=event.log_before,
            tokens=event.log_tokens,
        )
        for row, event in found
        if isinstance(event, LogReflected)
    ]


def list_runs(
    thread: Thread, *, seq: int | None = None, limit: int = 20
) -> list[ObserverRun]:
    """List the last runs of observer and reflector, newest first. Two queries.

    Failures are those of the last `FAILED_SPAN` events: no index has them.
    """
    until = thread.head_seq if seq is None else seq
    made = _filter_observed(thread, seq).filter(type=PageCreated.event_type)
    failed = Event.objects.filter(
        thread=thread,
        type=ObserverFailed.event_type,
        seq__gt=until - FAILED_SPAN,
        seq__lte=until,
    ).order_by("-seq")[:limit]
    shown = (*made.order_by("-seq")[:limit], *failed)
    found = sorted(shown, key=lambda row: -row.seq)[:limit]
    return [_build_run(row) for row in found]


def _filter_observed(thread: Thread, up_to: int | None = None) -> QuerySet[Event]:
    """Return the thread's own events about observations, up to seq `up_to`.

    Their seqs come from the index of pages first: in order of seq a database would read
    the whole thread for the few that there are. A bound of the sum is for no index.
    """
    ranges = [Q(page__gte=each, page__lt=each + "\x7f") for each in OBSERVATION_IDS]
    own = Event.objects.filter(thread=thread)
    found = own.filter(reduce(or_, ranges))
    if up_to is not None:
        found = found.alias(place=F("seq") + 0).filter(place__lte=up_to)
    return own.filter(seq__in=found.values("seq"))


def _build_run(row: Event) -> ObserverRun:
    event: Any = log.to_recorded(row).event
    failed = isinstance(event, ObserverFailed)
    body = event if failed else event.observed
    role = event.role if failed else _get_role(body)
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


def _get_role(body: ObservedBody) -> str:
    return "observer" if body.covers is None else "reflector"


def _open_views(
    thread: Thread, state: ThreadState, found: Sequence[Observation]
) -> list[ObservationView]:
    places = [state.locate_event(each.clock) for each in found]
    rows = get_rows_at(places, content=True)
    return [_open_view(thread, state, rows[place]) for place in places if place in rows]


def _open_view(thread: Thread, state: ThreadState, row: Event) -> ObservationView:
    body, opened = _read_body(row), texts.open_content(thread, row)
    text = opened["content"]["text"] if opened else None
    rows = text.split("\n") if text else []
    return ObservationView(
        page_id=str(row.page),
        home=row.thread_id,
        seq=row.seq,
        at=row.at,
        begin=body.begin,
        end=body.end,
        standing=_find_standing(state, str(row.page), erased=text is None),
        body=body,
        lines=None
        if text is None
        else read_any(log_lines.remove_hints(text), body.begin, body.end),
        hints=tuple(
            line.removeprefix(log_lines.HINT)
            for line in rows
            if line.startswith(log_lines.HINT)
        ),
    )


def _find_standing(state: ThreadState, page_id: str, *, erased: bool) -> Standing:
    seen = state.observing
    if any(each.page_id == page_id for each in seen.log):
        return "log"
    if any(each.page_id == page_id for each in seen.chunks):
        return "waiting"
    if seen.ahead is not None and seen.ahead.page_id == page_id:
        return "ahead"
    return "erased" if erased else "replaced"


def _read_body(row: Event) -> ObservedBody:
    event = log.to_recorded(row).event
    assert isinstance(event, PageCreated)
    assert event.observed is not None
    return event.observed


def _list_covered(body: ObservedBody | None) -> Sequence[str]:
    return (body.covers if body else None) or ()
