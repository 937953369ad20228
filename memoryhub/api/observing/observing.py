from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import BaseModel

from memoryhub.api.document.fields import ThreadName
from memoryhub.api.document.memory_fields import EmptyIn
from memoryhub.api.document.schemas import AsOf
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.preconditions import CONDITIONAL, KEEPING, idempotency, if_match
from memoryhub.api.http.reading import GONE, find_state, find_thread, seq_of
from memoryhub.api.observing.observing_schemas import (
    GenerationOut,
    GenerationsOut,
    GenerationsQuery,
    LogOut,
    ObservationIn,
    ObservationOut,
    ObservationsOut,
    ObservationsQuery,
    ObservedOut,
    ObserverOut,
    ObserverStateOut,
    RunOut,
)
from memoryhub.errors import (
    BadCursorError,
    LogChangedError,
    LogFullError,
    NothingToDoError,
    ObserverOffError,
    RangeOpenError,
    RangeTakenError,
    SeqUnknownError,
    StaleEpochError,
)
from memoryhub.journal import Receipt
from memoryhub.kernel.observing.observing import PauseObserver, ResumeObserver
from memoryhub.kernel.state.page_events import PageCreated
from memoryhub.kernel.state.state import ThreadState
from memoryhub.queries.lists.cursors import Batch
from memoryhub.queries.observing import observers
from memoryhub.queries.observing.observers import ObservationView, Observer
from memoryhub.queries.replay import states
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.observing import observers as steering
from memoryhub.services.observing.observers import Draft

router = StrictRouter(tags=["observing"])

_READS: Final = (*GONE, SeqUnknownError)
#: What keeping an observation may answer.
_KEEPS: Final = (
    *KEEPING,
    *(ObserverOffError, StaleEpochError, RangeTakenError, RangeOpenError),
    LogFullError,
)
_REFLECTS: Final = (
    *KEEPING,
    *(ObserverOffError, StaleEpochError, LogChangedError, NothingToDoError),
)

_Act = Callable[..., Awaitable[Receipt]]


@router.route(
    "GET",
    "/threads/{thread}/observer",
    needs=auth.READ,
    out=ObserverOut,
    refusals=_READS,
)
async def get(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """How far a thread is observed, what is due when, and the newest runs."""
    return await read(_get, auth.caller(request), thread, query)


@router.route(
    "GET", "/threads/{thread}/log", needs=auth.READ, out=LogOut, refusals=_READS
)
async def get_log(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """What stands in requests in the place of messages."""
    return await read(_get_log, auth.caller(request), thread, query)


@router.route(
    "GET",
    "/threads/{thread}/observations",
    needs=auth.READ,
    out=ObservationsOut,
    refusals=[*_READS, BadCursorError],
)
async def list_all(
    request: HttpRequest, thread: Path[ThreadName], query: Query[ObservationsQuery]
) -> HttpResponse:
    """All that the thread itself has observed, newest first; or what has one state."""
    return await read(_list, auth.caller(request), thread, query)


@router.route(
    "GET",
    "/threads/{thread}/generations",
    needs=auth.READ,
    out=GenerationsOut,
    refusals=_READS,
)
async def list_generations(
    request: HttpRequest, thread: Path[ThreadName], query: Query[GenerationsQuery]
) -> HttpResponse:
    """The newest reflections of the log, and what each took the place of."""
    return await read(_list_generations, auth.caller(request), thread, query)


@router.route(
    "POST",
    "/threads/{thread}/observations",
    needs=auth.WRITE,
    out=ObservedOut,
    status=(201,),
    refusals=_KEEPS,
)
async def create(
    request: HttpRequest, thread: Path[ThreadName], body: ObservationIn
) -> HttpResponse:
    """Keep what an agent has observed; the built-in observer pauses then.

    It waits until a turn needs the room, or `:activate`; that of a gap in the log
    stands there at once.
    """
    draft = Draft(
        begin=body.begin,
        end=body.end,
        epoch=body.epoch,
        lines=body.made(),
        current_task=body.current_task,
        suggested_response=body.suggested_response,
    )
    act = partial(steering.create, draft=draft)
    return await _act(request, thread, body, act, status=201)


@router.route(
    "POST",
    "/threads/{thread}/observer:run",
    needs=auth.WRITE,
    out=ObservedOut,
    refusals=[*_KEEPS, NothingToDoError],
)
async def run(
    request: HttpRequest, thread: Path[ThreadName], body: EmptyIn
) -> HttpResponse:
    """Observe the next messages now, without a model."""
    return await _act(request, thread, body, steering.run)


@router.route(
    "POST",
    "/threads/{thread}/observer:activate",
    needs=auth.WRITE,
    out=ObservedOut,
    refusals=CONDITIONAL,
)
async def activate(
    request: HttpRequest, thread: Path[ThreadName], body: EmptyIn
) -> HttpResponse:
    """Take what waits into requests now, as the next turn would."""
    return await _act(request, thread, body, steering.activate)


@router.route(
    "POST",
    "/threads/{thread}/observer:abort",
    needs=auth.WRITE,
    out=ObservedOut,
    refusals=CONDITIONAL,
)
async def abort(
    request: HttpRequest, thread: Path[ThreadName], body: EmptyIn
) -> HttpResponse:
    """Begin nothing until `:resume`, and refuse what was begun."""
    act = partial(steering.submit, command=PauseObserver())
    return await _act(request, thread, body, act)


@router.route(
    "POST",
    "/threads/{thread}/observer:resume",
    needs=auth.WRITE,
    out=ObservedOut,
    refusals=CONDITIONAL,
)
async def resume(
    request: HttpRequest, thread: Path[ThreadName], body: EmptyIn
) -> HttpResponse:
    """Go on observing: after `:abort`, failures, or an agent's own observations."""
    act = partial(steering.submit, command=ResumeObserver())
    return await _act(request, thread, body, act)


@router.route(
    "POST",
    "/threads/{thread}/observer:reflect",
    needs=auth.WRITE,
    out=ObservedOut,
    refusals=_REFLECTS,
)
async def reflect(
    request: HttpRequest, thread: Path[ThreadName], body: EmptyIn
) -> HttpResponse:
    """Condense the log to half now, without a model."""
    return await _act(request, thread, body, steering.reflect)


async def _act(
    request: HttpRequest, thread: str, body: BaseModel, act: _Act, *, status: int = 200
) -> HttpResponse:
    agent = auth.caller(request)
    receipt = await act(
        agent=agent,
        thread=thread,
        if_match=if_match(request),
        request=idempotency(request, body),
    )
    state = receipt.state
    if state is None:
        state = await read(_state_after, agent, thread, receipt)
    made = [each.page_id for each in receipt.all(PageCreated)]
    out = ObservedOut(
        thread=receipt.name,
        thread_id=receipt.thread,
        seq=receipt.seq,
        page_id=made[-1] if made else None,
        observer=_observer(state, receipt.seq),
    )
    return rendered(out, status=status, replayed=receipt.replayed)


def _state_after(agent: Agent, name: str, receipt: Receipt) -> ThreadState:
    """The thread as it was after what is told again."""
    thread = threads.get_unrestricted(agent.project, name, bound=agent.bound)
    return states.state_of(thread, receipt.seq)


def _observer(state: ThreadState, seq: int | None) -> ObserverStateOut:
    found = Observer.from_state(state, now=states.now_of(state, seq))
    return ObserverStateOut.of(found, state.paging.settings)


def _get(agent: Agent, name: str, moment: AsOf) -> HttpResponse:
    thread, state = find_state(agent, name, moment)
    out = ObserverOut(
        thread=name,
        seq=state.seq,
        observer=_observer(state, seq_of(thread, moment)),
        runs=[RunOut.of(each) for each in observers.list_runs(thread, seq=state.seq)],
    )
    return rendered(out)


def _get_log(agent: Agent, name: str, moment: AsOf) -> HttpResponse:
    thread, state = find_state(agent, name, moment)
    found = observers.list_log(thread, seq=state.seq)
    out = LogOut(
        thread=name,
        seq=state.seq,
        log_tokens=state.observing.log_tokens,
        items=[ObservationOut.of(each) for each in found],
    )
    return rendered(out)


def _list(agent: Agent, name: str, query: ObservationsQuery) -> HttpResponse:
    thread = find_thread(agent, name)
    seq = seq_of(thread, query)
    found: Batch[ObservationView]
    if query.state is None:
        found = observers.list_observations(
            thread, seq=seq, after=query.after, limit=query.limit
        )
    elif query.after is not None:
        raise BadCursorError
    else:
        standing = {"log": observers.list_log, "waiting": observers.list_waiting}
        found = Batch(items=tuple(standing[query.state](thread, seq=seq)), next=None)
    items = [ObservationOut.of(each) for each in found.items]
    return rendered(ObservationsOut(items=items, next=found.next))


def _list_generations(agent: Agent, name: str, query: GenerationsQuery) -> HttpResponse:
    thread = find_thread(agent, name)
    found = observers.list_generations(
        thread, seq=seq_of(thread, query), limit=query.limit
    )
    return rendered(GenerationsOut(items=[GenerationOut.of(each) for each in found]))
