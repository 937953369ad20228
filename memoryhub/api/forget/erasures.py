from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query

from memoryhub.api.document.fields import Id, In, example
from memoryhub.api.forget.erasure_schemas import (
    AddendaOut,
    ConfirmIn,
    ErasureIn,
    ErasureOut,
    ErasuresOut,
    ErasuresQuery,
    PlanOut,
    ReceiptOut,
)
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.preconditions import REPEATABLE, person_request
from memoryhub.errors import (
    AlreadyFencedError,
    BadCursorError,
    CountMismatchError,
    ErasureInProgressError,
    ForgetBudgetError,
    LedgerUnwritableError,
    NotCompleteError,
    NotFoundError,
    NothingToEraseError,
    PlanExpiredError,
    PlanStaleError,
    SeqUnknownError,
    SubjectErasedError,
    ThreadErasedError,
)
from memoryhub.journal.log import requests
from memoryhub.journal.log.requests import PersonRequest
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.events import RequestKey
from memoryhub.models.subjects import Subject
from memoryhub.queries.forget import erasures as listed
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read
from memoryhub.queries.tombstones import require_subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasure_plans, erasures

router = StrictRouter(tags=["erasures"])


class CancelIn(In):
    """No fields."""

    model_config = example({})


@router.route(
    "POST",
    "/subjects/{subject}/erasures",
    needs=auth.FORGET,
    out=PlanOut,
    status=(201,),
    refusals=[
        ErasureInProgressError,
        SubjectErasedError,
        ThreadErasedError,
        SeqUnknownError,
        *REPEATABLE,
    ],
)
async def plan(
    request: HttpRequest, subject: Path[Id], body: ErasureIn
) -> HttpResponse:
    """Count what forgetting would take. Nothing is erased by this.

    The plan holds for 15 minutes. Look at it, then confirm it.
    """
    agent = auth.caller(request)
    again = person_request(request, body, agent=agent)
    return await read(_plan, agent, subject, body, again)


@router.route(
    "POST",
    "/erasures/{erasure}:confirm",
    needs=auth.FORGET,
    out=ErasureOut,
    status=(202,),
    refusals=[
        *(CountMismatchError, NothingToEraseError, PlanExpiredError, PlanStaleError),
        *(ForgetBudgetError, SubjectErasedError, LedgerUnwritableError, *REPEATABLE),
    ],
)
async def confirm(
    request: HttpRequest, erasure: Path[Id], body: ConfirmIn
) -> HttpResponse:
    """Erase what the plan says, for good. Said twice it is the same erasure.

    A plan that is stale is made anew; the refusal carries the new one as `plan`. Under
    a hold the subject is restricted instead, and the state is `held`.
    """
    agent = auth.caller(request)
    again = person_request(request, body, agent=agent)
    try:
        return await read(_confirm, agent, erasure, body, again)
    except PlanStaleError as refusal:
        refusal.plan = await read(_fresh, agent, erasure)
        raise


@router.route(
    "POST",
    "/erasures/{erasure}:cancel",
    needs=auth.FORGET,
    out=ErasureOut,
    refusals=[AlreadyFencedError, PlanExpiredError, *REPEATABLE],
)
async def cancel(
    request: HttpRequest, erasure: Path[Id], body: CancelIn
) -> HttpResponse:
    """Drop a plan. What was confirmed goes on."""
    agent = auth.caller(request)
    return await read(
        _cancel, agent, erasure, person_request(request, body, agent=agent)
    )


@router.route(
    "GET",
    "/erasures",
    needs=auth.FORGET,
    out=ErasuresOut,
    refusals=[BadCursorError],
)
async def list_all(request: HttpRequest, query: Query[ErasuresQuery]) -> HttpResponse:
    """Erasures and plans, newest first."""
    return await read(_list, auth.caller(request), query)


@router.route("GET", "/erasures/{erasure}", needs=auth.FORGET, out=ErasureOut)
async def get(request: HttpRequest, erasure: Path[Id]) -> HttpResponse:
    """How far an erasure is, and what the next step waits for."""
    return await read(_get, auth.caller(request), erasure)


@router.route(
    "GET",
    "/erasures/{erasure}/receipt",
    needs=auth.FORGET,
    out=ReceiptOut,
    refusals=[NotCompleteError],
)
async def receipt(request: HttpRequest, erasure: Path[Id]) -> HttpResponse:
    """The signed receipt, byte for byte as it is verified."""
    return await read(_receipt, auth.caller(request), erasure)


@router.route(
    "GET",
    "/erasures/{erasure}/addenda",
    needs=auth.FORGET,
    out=AddendaOut,
    refusals=[NotCompleteError],
)
async def addenda(request: HttpRequest, erasure: Path[Id]) -> HttpResponse:
    """What was signed about it after its receipt, oldest first.

    A receipt never changes. Each of these verifies by itself, as the receipt does.
    """
    return await read(_addenda, auth.caller(request), erasure)


def _plan(
    agent: Agent, subject: UUID, body: ErasureIn, again: PersonRequest | None
) -> HttpResponse:
    row = _subject(agent, subject)
    if served := requests.find(again):
        require_subject(row)
        return rendered(_planned(_done(served)), status=201, replayed=True)
    thread = (
        threads.get_thread(
            agent.project, body.thread, bound=agent.bound, subject=row.id
        )
        if body.thread is not None
        else None
    )
    made = erasure_plans.plan(
        row,
        scope=body.scope,
        reason=body.reason,
        thread=thread,
        before=body.before,
        seq=body.record,
        ticket=body.ticket,
        restrict=body.restrict,
        actor=agent.actor,
        request=again,
    )
    return rendered(_planned(made), status=201)


def _confirm(
    agent: Agent, erasure: UUID, body: ConfirmIn, again: PersonRequest | None
) -> HttpResponse:
    row = _row(agent, erasure)
    if served := requests.find(again):
        return _erasure_response(_done(served), status=202, replayed=True)
    done = erasures.confirm(
        row, token=body.plan_token, count=body.count, actor=agent.actor, request=again
    )
    return _erasure_response(done, status=202)


def _fresh(agent: Agent, erasure: UUID) -> dict[str, object]:
    return _planned(_row(agent, erasure)).model_dump(mode="json")


def _cancel(agent: Agent, erasure: UUID, again: PersonRequest | None) -> HttpResponse:
    row = _row(agent, erasure)
    if served := requests.find(again):
        return _erasure_response(_done(served), replayed=True)
    return _erasure_response(erasures.cancel(row, actor=agent.actor, request=again))


def _done(served: RequestKey) -> Erasure:
    """What the request before was about."""
    assert served.erasure is not None
    return served.erasure


def _erasure_response(
    row: Erasure, *, status: int = 200, replayed: bool = False
) -> HttpResponse:
    body = ErasureOut.of(ErasureLine.of(row))
    return rendered(body, status=status, replayed=replayed)


def _list(agent: Agent, query: ErasuresQuery) -> HttpResponse:
    found = listed.list_erasures(
        agent.project,
        state=query.state,
        after=query.after,
        limit=query.limit,
        bound=agent.bound,
    )
    items = [ErasureOut.of(line) for line in found.items]
    return rendered(ErasuresOut(items=items, next=found.next))


def _get(agent: Agent, erasure: UUID) -> HttpResponse:
    return _erasure_response(_row(agent, erasure))


def _receipt(agent: Agent, erasure: UUID) -> HttpResponse:
    row = _row(agent, erasure)
    found = Receipt.objects.filter(erasure=row, n=0).first()
    if found is None or row.state != Erasure.State.COMPLETE:
        raise NotCompleteError
    return HttpResponse(found.text.encode(), content_type="application/json")


def _addenda(agent: Agent, erasure: UUID) -> HttpResponse:
    row = _row(agent, erasure)
    if row.state != Erasure.State.COMPLETE:
        raise NotCompleteError
    rows = Receipt.objects.filter(erasure=row, n__gt=0).order_by("n")
    # As they were signed, each to the byte.
    items = ",".join(rows.values_list("text", flat=True))
    body = f'{{"items":[{items}]}}'
    return HttpResponse(body.encode(), content_type="application/json")


def _planned(row: Erasure) -> PlanOut:
    return PlanOut.of(ErasureLine.of(row), plan_token=erasure_plans.token(row))


def _subject(agent: Agent, subject: UUID) -> Subject:
    rows = Subject.objects.filter(project_id=agent.project, id=subject)
    row = rows.first() if agent.bound in (None, subject) else None
    if row is None:
        raise NotFoundError
    return row


def _row(agent: Agent, erasure: UUID) -> Erasure:
    return listed.get_row(agent.project, erasure, bound=agent.bound)
