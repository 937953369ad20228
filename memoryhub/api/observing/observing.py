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
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import (
    CONDITIONAL,
    KEEPING,
    parse_idempotency,
    parse_if_match,
)
from memoryhub.api.http.reading import GONE, get_agent_state, get_agent_thread, get_seq
from memoryhub.api.observing.observing_schemas import (
    GenerationOut,
    GenerationsOut,
    GenerationsQuery,
    InstructionsIn,
    InstructionsOut,
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
from memoryhub.journal import OrderReceipt
from memoryhub.kernel.observing.observing import PauseObserver, ResumeObserver
from memoryhub.kernel.state.page_events import PageCreated
from memoryhub.kernel.state.state import ThreadState
from memoryhub.queries.lists.cursors import ListBatch
from memoryhub.queries.observing import instructions, observers
from memoryhub.queries.observing.calls import find_call
from memoryhub.queries.observing.instructions import ROLES
from memoryhub.queries.observing.observers import ObservationView, Observer
from memoryhub.queries.replay import states
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.observing import observers as steering
from memoryhub.services.observing.observers import ObservationDraft

router = StrictRouter(tags=["observing"])

_READS: Final = (*GONE, SeqUnknownError)
#: Refusals of storing an observation.
_KEEPS: Final = (
    *KEEPING,
    *(ObserverOffError, StaleEpochError, RangeTakenError, RangeOpenError),
    LogFullError,
)
_REFLECTS: Final = (
    *KEEPING,
    *(ObserverOffError, StaleEpochError, LogChangedError, NothingToDoError),
)

_Act = Callable[..., Awaitable[OrderReceipt]]


@router.route(
    "GET",
    "/threads/{thread}/observer",
    needs=auth.READ,
    out=ObserverOut,
    refusals=_READS,
)
def get(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """Report how far a thread is observed, what is due, and newest runs."""
    thread_row, state = get_agent_state(auth.get_caller(request), thread, query)
    own = instructions.list_own_instructions(thread_row, state)
    out = ObserverOut(
        thread=thread,
        seq=state.seq,
        observer=_build_observer(state, get_seq(thread_row, query)),
        instructions=InstructionsOut(
            **{role: own[role].text if role in own else None for role in ROLES}
        ),
        runs=[
            RunOut.from_run(each)
            for each in observers.list_runs(thread_row, seq=state.seq)
        ],
    )
    return render_answer(out)


@router.route(
    "PATCH",
    "/threads/{thread}/observer",
    needs=auth.WRITE,
    out=ObservedOut,
    refusals=[*KEEPING],
)
async def patch(
    request: HttpRequest, thread: Path[ThreadName], body: InstructionsIn
) -> HttpResponse:
    """Set the thread's own instructions, in place of the project's.

    Null restores the project's; an empty text is no instructions.
    """
    command = steering.build_instructing(body.to_texts())
    size = sum(len((text or "").encode()) for text in command.texts.values())
    act = partial(steering.submit_command, command=command, size=size)
    return await _steer_observer(request, thread, body, act)


@router.route(
    "GET", "/threads/{thread}/log", needs=auth.READ, out=LogOut, refusals=_READS
)
def get_log(
    request: HttpRequest, thread: Path[ThreadName], query: Query[AsOf]
) -> HttpResponse:
    """Read the log, which replaces messages in requests."""
    thread_row, state = get_agent_state(auth.get_caller(request), thread, query)
    found = observers.list_log(thread_row, seq=state.seq)
    out = LogOut(
        thread=thread,
        seq=state.seq,
        log_tokens=state.observing.log_tokens,
        items=[ObservationOut.from_view(each) for each in found],
    )
    return render_answer(out)


@router.route(
    "GET",
    "/threads/{thread}/observations",
    needs=auth.READ,
    out=ObservationsOut,
    refusals=[*_READS, BadCursorError],
)
def list_all(
    request: HttpRequest, thread: Path[ThreadName], query: Query[ObservationsQuery]
) -> HttpResponse:
    """List the thread's own observations, newest first, or those in one state."""
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    seq = get_seq(thread_row, query)
    found: ListBatch[ObservationView]
    if query.state is None:
        found = observers.list_observations(
            thread_row, seq=seq, after=query.after, limit=query.limit
        )
    elif query.after is not None:
        raise BadCursorError
    else:
        standing = {"log": observers.list_log, "waiting": observers.list_waiting}
        found = ListBatch(
            items=tuple(standing[query.state](thread_row, seq=seq)), next=None
        )
    items = [ObservationOut.from_view(each) for each in found.items]
    return render_answer(ObservationsOut(items=items, next=found.next))


@router.route(
    "GET",
    "/threads/{thread}/generations",
    needs=auth.READ,
    out=GenerationsOut,
    refusals=_READS,
)
def list_generations(
    request: HttpRequest, thread: Path[ThreadName], query: Query[GenerationsQuery]
) -> HttpResponse:
    """List the newest reflections of the log and what each replaced."""
    thread_row = get_agent_thread(auth.get_caller(request), thread)
    found = observers.list_generations(
        thread_row, seq=get_seq(thread_row, query), limit=query.limit
    )
    return render_answer(
        GenerationsOut(items=[GenerationOut.from_generation(each) for each in found])
    )


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
    """Store an agent's observation; the built-in observer then pauses.

    An observation waits until a turn needs the room, or `:activate`; in a gap of the
    log it enters at once.
    """
    draft = ObservationDraft(
        begin=body.begin,
        end=body.end,
        epoch=body.epoch,
        lines=body.to_lines(),
        current_task=body.current_task,
        suggested_response=body.suggested_response,
    )
    act = partial(steering.create_observation, draft=draft)
    return await _steer_observer(request, thread, body, act, status=201)


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
    return await _steer_observer(request, thread, body, steering.observe_now)


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
    """Move waiting observations into the log now, as a turn would."""
    return await _steer_observer(request, thread, body, steering.activate_observations)


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
    """Start no run until `:resume`, and refuse started ones."""
    act = partial(steering.submit_command, command=PauseObserver())
    return await _steer_observer(request, thread, body, act)


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
    """Resume observing after `:abort`, failures or an agent's observations."""
    act = partial(steering.submit_command, command=ResumeObserver())
    return await _steer_observer(request, thread, body, act)


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
    return await _steer_observer(request, thread, body, steering.reflect_log)


async def _steer_observer(
    request: HttpRequest, thread: str, body: BaseModel, act: _Act, *, status: int = 200
) -> HttpResponse:
    agent = auth.get_caller(request)
    receipt = await act(
        agent=agent,
        thread=thread,
        if_match=parse_if_match(request),
        request=parse_idempotency(request, body),
    )
    state = receipt.state
    if state is None:
        state = await read(_get_state_after, agent, thread, receipt)
    made = [each.page_id for each in receipt.list_events(PageCreated)]
    out = ObservedOut(
        thread=receipt.name,
        thread_id=receipt.thread,
        seq=receipt.seq,
        page_id=made[-1] if made else None,
        observer=_build_observer(state, receipt.seq),
    )
    return render_answer(out, status=status, replayed=receipt.replayed)


def _get_state_after(agent: Agent, name: str, receipt: OrderReceipt) -> ThreadState:
    """Get the state of the thread after a receipt that is answered again."""
    thread = threads.get_unrestricted(agent.project, name, bound=agent.bound)
    return states.load_state(thread, receipt.seq)


def _build_observer(state: ThreadState, seq: int | None) -> ObserverStateOut:
    found = Observer.from_state(state, now=states.compute_instant(state, seq))
    called = find_call(state.id) if seq is None else None
    return ObserverStateOut.from_observer(found, state.paging.settings, called)
