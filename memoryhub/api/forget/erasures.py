"""Routes and schemas of erasures. No answer contains erased content."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path, Query
from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from memoryhub.api.document.fields import (
    FieldRefusedError,
    Id,
    In,
    Out,
    ThreadName,
    Time,
    build_example,
    build_range_check,
    build_range_schema,
)
from memoryhub.api.document.samples import AT, SUBJECT_ID
from memoryhub.api.document.schemas import Pagination
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import REPEATABLE, parse_person_request
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
from memoryhub.kernel.state.erase_events import Reason
from memoryhub.kernel.text.strict_json import MAX_INTEGER
from memoryhub.models.erasures import Erasure, Receipt
from memoryhub.models.events import RequestKey
from memoryhub.models.subjects import Subject
from memoryhub.queries.forget import erasures as listed
from memoryhub.queries.forget.erasure_targets import Clock
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.queries.threads import threads
from memoryhub.queries.tombstones import require_subject
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.forget import erasures
from memoryhub.services.forget.erasures import TICKET_PATTERN

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
    "clock": None,
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


def _check_ticket(text: str) -> str:
    if not TICKET_PATTERN.fullmatch(text):
        raise FieldRefusedError("value")
    return text


Ticket = Annotated[
    str,
    AfterValidator(_check_ticket),
    WithJsonSchema({"type": "string", "pattern": f"^{TICKET_PATTERN.pattern}$"}),
]
Record = Annotated[
    int, build_range_check(1, MAX_INTEGER), build_range_schema(1, MAX_INTEGER)
]
Count = Annotated[
    int, build_range_check(0, MAX_INTEGER), build_range_schema(0, MAX_INTEGER)
]


class ErasureIn(In):
    model_config = build_example(
        {
            "scope": "subject",
            "reason": "consent_withdrawn",
            "ticket": "LEGAL-42",
            "restrict": True,
        }
    )

    scope: Scope
    #: Reason of the plan, from a fixed list.
    reason: Reason
    ticket: Ticket | None = None
    thread: ThreadName | None = Field(
        None, description="Of the scopes `thread` and `record`; narrows `before`."
    )
    before: Time | None = Field(
        None, description="Of the scope `before`: what happened or came before then."
    )
    recorded_before: Time | None = Field(
        None, description="Instead: only what was recorded before then."
    )
    record: Record | None = Field(
        None, description="Of the scope `record`: the seq of its event."
    )
    restrict: bool = Field(
        default=False,
        description="Keep agents out until the plan is confirmed or expires, so that "
        "it can't grow stale.",
    )

    @model_validator(mode="after")
    def check_scope_fields(self) -> Self:
        clocked = "before" if self.recorded_before is None else "recorded_before"
        for name, needed, scopes in (
            ("thread", ("thread", "record"), ("thread", "record", "before")),
            ("before", ("before",), ("before",)),
            ("recorded_before", ("before",), ("before",)),
            ("record", ("record",), ("record",)),
        ):
            given = getattr(self, name) is not None
            other = name in ("before", "recorded_before") and name != clocked
            if not given and not other and self.scope in needed:
                says = f"the scope `{self.scope}` needs it"
                raise FieldRefusedError("missing", allowed=says, loc=(name,))
            if given and other:
                says = f"either this or `{clocked}`"
                raise FieldRefusedError("value", allowed=says, loc=(name,))
            if given and self.scope not in scopes:
                says = f"nothing with the scope `{self.scope}`"
                raise FieldRefusedError("value", allowed=says, loc=(name,))
        return self


class ConfirmIn(In):
    model_config = build_example({"plan_token": "5f" * 32, "count": 2})

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

    model_config = build_example(_FENCED)

    id: UUID
    subject_id: UUID
    scope: Scope
    reason: Reason
    ticket: str | None
    before: str | None
    clock: Clock | None = Field(description="The time that `before` compares.")
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
    def from_line(cls, line: ErasureLine, **others: Any) -> Self:
        return cls.from_record(
            line,
            subject_id=line.subject,
            before=line.before.isoformat() if line.before else None,
            record=line.seq,
            expires_at=line.expires_at.isoformat(),
            **others,
        )


class PlanOut(ErasureOut):
    """A plan, with the token that confirms it."""

    model_config = build_example({**_ERASURE, "plan_token": "5f" * 32})

    plan_token: str


class ErasuresOut(Out):
    model_config = build_example({"items": [_FENCED], "next": None})

    items: list[ErasureOut]
    next: str | None


class ReceiptOut(Out):
    """A receipt: signed canonical JSON, with more members, none of them content."""

    model_config = build_example(
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
    """A later fact about an erasure: canonical JSON, signed separately."""

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
    model_config = build_example(
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

    model_config = build_example({})


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
def plan(request: HttpRequest, subject: Path[Id], body: ErasureIn) -> HttpResponse:
    """Count the rows that forgetting would erase. Nothing is erased.

    The plan holds for 15 minutes. Look at it, then confirm it.
    """
    agent = auth.get_caller(request)
    again = parse_person_request(request, body, agent=agent)
    row = _get_subject(agent, subject)
    if served := requests.find(again):
        require_subject(row)
        return render_answer(
            _build_plan(_get_served_erasure(served)), status=201, replayed=True
        )
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
        before=body.recorded_before or body.before,
        clocked="occurred" if body.recorded_before is None else "recorded",
        seq=body.record,
        ticket=body.ticket,
        restrict=body.restrict,
        actor=agent.actor,
        request=again,
    )
    return render_answer(_build_plan(made), status=201)


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
def confirm(request: HttpRequest, erasure: Path[Id], body: ConfirmIn) -> HttpResponse:
    """Erase for good what the plan lists. Confirming twice is one erasure.

    A stale plan is made anew; the refusal carries the new one as `plan`. Under a hold
    the subject is restricted instead, and the state is `held`.
    """
    agent = auth.get_caller(request)
    again = parse_person_request(request, body, agent=agent)
    row = _get_row(agent, erasure)
    if served := requests.find(again):
        return _render_erasure(_get_served_erasure(served), status=202, replayed=True)
    try:
        done = erasures.confirm(
            row,
            token=body.plan_token,
            count=body.count,
            actor=agent.actor,
            request=again,
        )
    except PlanStaleError as refusal:
        new = _build_plan(_get_row(agent, erasure))
        refusal.plan = new.model_dump(mode="json")
        raise
    return _render_erasure(done, status=202)


@router.route(
    "POST",
    "/erasures/{erasure}:cancel",
    needs=auth.FORGET,
    out=ErasureOut,
    refusals=[AlreadyFencedError, PlanExpiredError, *REPEATABLE],
)
def cancel(request: HttpRequest, erasure: Path[Id], body: CancelIn) -> HttpResponse:
    """Drop a plan. A confirmed erasure goes on."""
    agent = auth.get_caller(request)
    again = parse_person_request(request, body, agent=agent)
    row = _get_row(agent, erasure)
    if served := requests.find(again):
        return _render_erasure(_get_served_erasure(served), replayed=True)
    return _render_erasure(erasures.cancel(row, actor=agent.actor, request=again))


@router.route(
    "GET",
    "/erasures",
    needs=auth.FORGET,
    out=ErasuresOut,
    refusals=[BadCursorError],
)
def list_all(request: HttpRequest, query: Query[ErasuresQuery]) -> HttpResponse:
    """List erasures and plans, newest first."""
    agent = auth.get_caller(request)
    found = listed.list_erasures(
        agent.project,
        state=query.state,
        after=query.after,
        limit=query.limit,
        bound=agent.bound,
    )
    items = [ErasureOut.from_line(line) for line in found.items]
    return render_answer(ErasuresOut(items=items, next=found.next))


@router.route("GET", "/erasures/{erasure}", needs=auth.FORGET, out=ErasureOut)
def get(request: HttpRequest, erasure: Path[Id]) -> HttpResponse:
    """Report an erasure's state and what it waits for."""
    return _render_erasure(_get_row(auth.get_caller(request), erasure))


@router.route(
    "GET",
    "/erasures/{erasure}/receipt",
    needs=auth.FORGET,
    out=ReceiptOut,
    refusals=[NotCompleteError],
)
def receipt(request: HttpRequest, erasure: Path[Id]) -> HttpResponse:
    """Return the signed receipt, byte for byte as signed."""
    row = _get_row(auth.get_caller(request), erasure)
    found = Receipt.objects.filter(erasure=row, n=0).first()
    if found is None or row.state != Erasure.State.COMPLETE:
        raise NotCompleteError
    return HttpResponse(found.text.encode(), content_type="application/json")


@router.route(
    "GET",
    "/erasures/{erasure}/addenda",
    needs=auth.FORGET,
    out=AddendaOut,
    refusals=[NotCompleteError],
)
def addenda(request: HttpRequest, erasure: Path[Id]) -> HttpResponse:
    """List facts signed after the receipt, oldest first.

    A receipt never changes. Each addendum is verified by itself, like a receipt.
    """
    row = _get_row(auth.get_caller(request), erasure)
    if row.state != Erasure.State.COMPLETE:
        raise NotCompleteError
    rows = Receipt.objects.filter(erasure=row, n__gt=0).order_by("n")
    # Send the stored bytes: a signature holds for exactly these.
    items = ",".join(rows.values_list("text", flat=True))
    body = f'{{"items":[{items}]}}'
    return HttpResponse(body.encode(), content_type="application/json")


def _get_served_erasure(served: RequestKey) -> Erasure:
    """Return the erasure that the earlier request with this key was about."""
    assert served.erasure is not None
    return served.erasure


def _render_erasure(
    row: Erasure, *, status: int = 200, replayed: bool = False
) -> HttpResponse:
    body = ErasureOut.from_line(ErasureLine.from_row(row))
    return render_answer(body, status=status, replayed=replayed)


def _build_plan(row: Erasure) -> PlanOut:
    return PlanOut.from_line(
        ErasureLine.from_row(row), plan_token=erasures.build_token(row)
    )


def _get_subject(agent: Agent, subject: UUID) -> Subject:
    rows = Subject.objects.filter(project_id=agent.project, id=subject)
    row = rows.first() if agent.bound in (None, subject) else None
    if row is None:
        raise NotFoundError
    return row


def _get_row(agent: Agent, erasure: UUID) -> Erasure:
    return listed.get_row(agent.project, erasure, bound=agent.bound)
