"""Erasures on the wire. Nothing in them tells what was erased."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from memoryhub.api.document.fields import (
    Id,
    In,
    Out,
    RefusedError,
    ThreadName,
    Time,
    counted,
    example,
    within,
)
from memoryhub.api.document.samples import AT, SUBJECT_ID
from memoryhub.api.document.schemas import Pagination
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
from memoryhub.kernel.state.erase_events import Reason
from memoryhub.kernel.text.strict_json import MAX_INTEGER
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.events import RequestKey
from memoryhub.models.subjects import Subject
from memoryhub.queries.forget import erasures as listed
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.queries.threads import threads
from memoryhub.queries.threads.readers import read
from memoryhub.queries.tombstones import require_subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasures
from memoryhub.services.forget.erasures import TICKET

Scope = Literal["subject", "thread", "before", "record"]
State = Literal[
    "planned",
    "held",
    "fenced",
    "tombstoned",
    "key_destroyed",
    "rows_erased",
    "caches_purged",
    "scrubbed",
    "verified",
    "complete",
    "expired",
    "cancelled",
]


_ERASURE_ID = "01939d60-11c4-7d2b-8f53-9a7c0b1e2d34"
_LATER = "2026-03-01T09:45:00.250000+00:00"
_EVENTS = {
    "place": "events",
    "erase": 2,
    "derive": 0,
    "keep": 0,
    "why": None,
    "method": "nulled",
    "fenced": None,
    "erased": None,
}
_ERASURE = {
    "id": _ERASURE_ID,
    "subject_id": SUBJECT_ID,
    "scope": "subject",
    "reason": "consent_withdrawn",
    "ticket": "LEGAL-42",
    "before": None,
    "record": None,
    "restrict": False,
    "state": "planned",
    "waiting_on": None,
    "defect": None,
    "count": 2,
    "threads": 1,
    "forks": 0,
    "unlinked": 0,
    "holds": 0,
    "residue": ["backups", "key_backups", "process_memory"],
    "places": [_EVENTS],
    "times": {"planned": AT},
    "expires_at": _LATER,
}
_FENCED = {
    **_ERASURE,
    "state": "fenced",
    "places": [{**_EVENTS, "fenced": 2, "erased": 0}],
    "times": {"planned": AT, "fenced": _LATER},
}


def _ticket(text: str) -> str:
    if not TICKET.fullmatch(text):
        raise RefusedError("value")
    return text


Ticket = Annotated[
    str,
    AfterValidator(_ticket),
    WithJsonSchema({"type": "string", "pattern": f"^{TICKET.pattern}$"}),
]
Record = Annotated[int, within(1, MAX_INTEGER), counted(1, MAX_INTEGER)]
Count = Annotated[int, within(0, MAX_INTEGER), counted(0, MAX_INTEGER)]


class ErasureIn(In):
    model_config = example(
        {
            "scope": "subject",
            "reason": "consent_withdrawn",
            "ticket": "LEGAL-42",
            "restrict": True,
        }
    )

    scope: Scope
    #: The words of the plan: why, never in whose words.
    reason: Reason
    ticket: Ticket | None = None
    thread: ThreadName | None = Field(
        None, description="Of the scopes `thread` and `record`."
    )
    before: Time | None = Field(None, description="Of the scope `before`; in the past.")
    record: Record | None = Field(
        None, description="Of the scope `record`: the seq of its event."
    )
    restrict: bool = Field(
        default=False,
        description="Keep agents out until the plan is confirmed or expires, so that "
        "it can't grow stale.",
    )

    @model_validator(mode="after")
    def fitting(self) -> Self:
        for name, scopes in (
            ("thread", ("thread", "record")),
            ("before", ("before",)),
            ("record", ("record",)),
        ):
            given = getattr(self, name) is not None
            if not given and self.scope in scopes:
                says = f"the scope `{self.scope}` needs it"
                raise RefusedError("missing", allowed=says, loc=(name,))
            if given and self.scope not in scopes:
                says = f"nothing with the scope `{self.scope}`"
                raise RefusedError("value", allowed=says, loc=(name,))
        return self


class ConfirmIn(In):
    model_config = example({"plan_token": "5f" * 32, "count": 2})

    plan_token: Annotated[str, Field(max_length=128)]
    count: Count = Field(description="The plan's own `count`, read and repeated.")


class ErasuresQuery(Pagination):
    state: State | None = None


class PlaceOut(Out):
    place: str
    erase: int
    derive: int
    keep: int
    why: str | None
    method: str
    fenced: int | None
    erased: int | None


class ErasureOut(Out):
    """An erasure, from its plan to its receipt."""

    model_config = example(_FENCED)

    id: UUID
    subject_id: UUID
    scope: Scope
    reason: Reason
    ticket: str | None
    before: str | None
    record: int | None
    restrict: bool
    state: State
    waiting_on: str | None = Field(
        description="What the next step waits for: reader, vacuum, rights, disk, "
        "store, night, hold; broken: the server failed."
    )
    defect: str | None = Field(description="Class of the error, if broken.")
    count: int = Field(description="Rows that go, of all places.")
    threads: int
    forks: int = Field(description="Forks that live and inherit some of it.")
    unlinked: int = Field(
        description="Records of the same turns that named no source, and stay."
    )
    holds: int
    residue: list[str] = Field(description="What will be left out of our reach.")
    places: list[PlaceOut]
    times: dict[str, str] = Field(description="When each state was entered.")
    expires_at: str = Field(description="Until when the plan may be confirmed.")

    @classmethod
    def of(cls, line: ErasureLine, **others: Any) -> Self:
        return cls.from_record(
            line,
            subject_id=line.subject,
            before=line.before.isoformat() if line.before else None,
            record=line.seq,
            expires_at=line.expires_at.isoformat(),
            **others,
        )


class PlanOut(ErasureOut):
    """A plan, with what confirms just this one."""

    model_config = example({**_ERASURE, "plan_token": "5f" * 32})

    plan_token: str


class ErasuresOut(Out):
    model_config = example({"items": [_FENCED], "next": None})

    items: list[ErasureOut]
    next: str | None


class ReceiptOut(Out):
    """A receipt: canonical JSON, signed. More is in it; none of it is content."""

    model_config = example(
        {
            "v": "memoryhub.receipt/2",
            "receipt": "01939d60-77aa-7c1e-a111-0f1e2d3c4b5a",
            "erasure": _ERASURE_ID,
            "scope": "subject",
            "status": "verified_with_residue",
            "planned": {"events": 2},
            "fenced": {"events": 2},
            "residue": [
                {
                    "what": "backups",
                    "until": "2026-03-31",
                    "control": "contents_sealed",
                    "names": ["threads", "keys", "pages"],
                }
            ],
            "root": "3f" * 32,
            "key_id": "01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a49",
            "sig": "ab" * 64,
        }
    )

    v: Literal["memoryhub.receipt/2"]
    receipt: UUID
    erasure: UUID
    scope: Scope
    status: Literal["verified", "verified_with_residue"]
    planned: dict[str, int]
    fenced: dict[str, int]
    residue: list[dict[str, str | list[str]]] = Field(
        description="What is left out of our reach: until when, what guards it, and "
        "of what the `names` stand there in the clear until then."
    )
    root: str = Field(description="The key that `key_id` leads back to: its SHA-256.")
    key_id: UUID = Field(description="Of `GET /receipt-keys`.")
    sig: str


class AddendumOut(Out):
    """A later fact about an erasure: canonical JSON, signed by itself."""

    v: Literal["memoryhub.receipt-addendum/1"]
    receipt: UUID = Field(description="Its own id.")
    erasure: UUID
    to: UUID = Field(description="The receipt that it adds to.")
    to_sha256: str
    what: Literal["rewritten", "scanned", "recipients"]
    numbers: dict[str, int]
    issued_at: str
    root: str = Field(description="The key that `key_id` leads back to: its SHA-256.")
    key_id: UUID = Field(description="Of `GET /receipt-keys`.")
    sig: str


class AddendaOut(Out):
    model_config = example(
        {
            "items": [
                {
                    "v": "memoryhub.receipt-addendum/1",
                    "receipt": "01939d61-90b2-7f4c-8c05-6e7d8c9b0a12",
                    "erasure": _ERASURE_ID,
                    "to": "01939d60-77aa-7c1e-a111-0f1e2d3c4b5a",
                    "to_sha256": "cd" * 32,
                    "what": "rewritten",
                    "numbers": {},
                    "issued_at": _LATER,
                    "root": "3f" * 32,
                    "key_id": "01939d5e-6c0f-7a51-9d0e-2b1f6d3c8a49",
                    "sig": "ab" * 64,
                }
            ]
        }
    )

    items: list[AddendumOut]


assert set(State.__args__) == set(Erasure.State.values)  # type: ignore[attr-defined]  # a Literal


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
    made = erasures.plan(
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
    return PlanOut.of(ErasureLine.of(row), plan_token=erasures.token(row))


def _subject(agent: Agent, subject: UUID) -> Subject:
    rows = Subject.objects.filter(project_id=agent.project, id=subject)
    row = rows.first() if agent.bound in (None, subject) else None
    if row is None:
        raise NotFoundError
    return row


def _row(agent: Agent, erasure: UUID) -> Erasure:
    return listed.get_row(agent.project, erasure, bound=agent.bound)
