from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path
from pydantic import Field

from memoryhub.api.document.fields import Id, In, Out, UserId, build_example
from memoryhub.api.document.samples import AT, SUBJECT_ID
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, render_answer
from memoryhub.api.http.preconditions import REPEATABLE, parse_person_request
from memoryhub.api.knowledge.facts import FactOut
from memoryhub.errors import (
    ErasureInProgressError,
    NotErasedError,
    NotFoundError,
    SubjectErasedError,
    SubjectRestrictedError,
)
from memoryhub.journal.log import requests
from memoryhub.models.server.clock import clock
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.knowledge.facts import FactLine
from memoryhub.queries.nouns import COUNTED
from memoryhub.queries.people import profiles
from memoryhub.queries.people.profiles import Profile
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent
from memoryhub.services.imports import readmissions
from memoryhub.services.people import restrictions, subjects

router = StrictRouter(tags=["subjects"])
State = Literal["active", "restricted"]
GONE = (SubjectErasedError,)


_SUBJECT = {"id": SUBJECT_ID, "state": "active", "generation": 1}
_USE = {
    "prefix": "Zk3fW0aB",
    "first_day": "2026-03-01",
    "last_day": "2026-03-01",
    "reads": 12,
    "writes": 3,
}
_PROFILE = {
    **_SUBJECT,
    "anonymous": False,
    "basis": None,
    "epoch": 1,
    "created_at": AT,
    "first_seen": AT,
    "last_seen": AT,
    "threads": {"open": 1},
    "events": 3,
    "kinds": {
        "thread.created": {"events": 1, "sealed": 0, "erased": 0, "bytes": 0},
        "slot.appended": {"events": 2, "sealed": 2, "erased": 0, "bytes": 182},
    },
    "bytes": 182,
    "turns": 0,
    "slots": 2,
    "pages": 2,
    "deleted_pages": 0,
    "levels": {"1": 1},
    "keys": 0,
    "episodes": 1,
    "blocks": 1,
    "facts": 0,
    "pending": {"waiting": 0, "failed": 0, "given_up": 0},
    **dict.fromkeys(COUNTED, 0),
    "tombstones": {},
    "uses": [_USE],
    "days": [],
    "holds": [],
    "erasures": [],
    "retention_due_at": None,
    "sessions": [{"thread": "booking:204", "messages": 2, "last_event_at": AT}],
    "sample": [],
}


class UserIdIn(In):
    """A user id in the body; addresses end up in logs."""

    model_config = build_example({"user_id": "customer-7"})

    user_id: UserId


class BasisIn(In):
    model_config = build_example({"basis": "accuracy_contested"})

    basis: Literal[
        "accuracy_contested", "unlawful_objected", "claims", "objection_pending"
    ]


class UnrestrictIn(In):
    model_config = build_example({})


class SubjectOut(Out):
    """A subject, by the id that all other routes use."""

    model_config = build_example(_SUBJECT)

    id: UUID
    state: State
    #: Generation; above 1 after an erasure and a readmission.
    generation: int


class KindOut(Out):
    """Records of one event type; `bytes` counts their sealed contents."""

    events: int
    sealed: int
    erased: int
    bytes: int


class UseOut(Out):
    """Use by a key, by its prefix."""

    prefix: str
    first_day: date
    last_day: date
    reads: int
    writes: int


class HoldOut(Out):
    id: UUID
    basis: str
    opened_at: datetime
    expires_at: datetime
    lifted_at: datetime | None
    in_force: bool


class ErasureLineOut(Out):
    id: UUID
    scope: str
    reason: str
    state: str
    created_at: datetime
    confirmed_at: datetime | None


class SessionOut(Out):
    thread: str
    messages: int = Field(description="Messages of the thread.")
    last_event_at: datetime


class ProfileOut(SubjectOut):
    """Exact counts of a subject's records, and samples for keys that may read."""

    model_config = build_example(_PROFILE)

    anonymous: bool
    basis: str | None
    epoch: int
    created_at: datetime
    first_seen: datetime | None
    last_seen: datetime | None
    threads: dict[str, int]
    events: int
    kinds: dict[str, KindOut]
    bytes: int
    turns: int
    slots: int
    pages: int
    deleted_pages: int
    levels: dict[str, int]
    keys: int
    episodes: int
    blocks: int = Field(description="Blocks that are there.")
    facts: int = Field(description="Facts that hold now.")
    pending: dict[str, int] = Field(
        description="Exchanges that nothing was learnt of: `waiting`, `failed`, "
        "`given_up`."
    )
    __annotations__ |= dict.fromkeys(COUNTED, int)
    tombstones: dict[str, int]
    uses: list[UseOut]
    days: list[UseOut]
    holds: list[HoldOut]
    erasures: list[ErasureLineOut]
    retention_due_at: datetime | None
    sessions: list[SessionOut] = Field(description="Threads that moved last.")
    sample: list[FactOut] = Field(description="The newest facts that hold now.")

    @classmethod
    def from_profile(cls, found: Profile, **samples: Any) -> ProfileOut:
        levels = {str(level): count for level, count in found.levels.items()}
        pending = found.pending._asdict()
        return cls.from_record(
            found, levels=levels, pending=pending, **found.counts, **samples
        )


# Actions are registered first: the plain address below would match them as well.


@router.route(
    "POST",
    "/subjects:resolve",
    needs=auth.LOOK,
    out=SubjectOut,
    refusals=[NotFoundError, *GONE],
)
def resolve(request: HttpRequest, body: UserIdIn) -> SubjectOut:
    """Find the subject of a `user_id`, for routes that take its `id`.

    A POST, so that the `user_id` stays out of URLs and logs; creates no subject.
    """
    agent = auth.get_caller(request)
    found = subjects.find(agent.project, body.user_id, bound=agent.bound)
    if found is None:
        raise NotFoundError
    return _build_subject(found)


@router.route(
    "POST",
    "/subjects:readmit",
    needs=auth.FORGET,
    out=SubjectOut,
    status=(201,),
    refusals=[NotFoundError, NotErasedError, SubjectErasedError, *REPEATABLE],
)
async def readmit(request: HttpRequest, body: UserIdIn) -> HttpResponse:
    """Readmit an erased `user_id` as a new subject without anything old."""
    agent = auth.get_caller(request)
    again = parse_person_request(request, body, agent=agent)
    if served := await read(requests.find, again):
        made = await read(profiles.get_subject, agent.project, served.subject_id)
        return render_answer(_build_subject(made), status=201, replayed=True)
    prepared = await read(
        readmissions.prepare_readmission, agent.project, body.user_id, bound=agent.bound
    )
    made = await readmissions.insert_readmission_async(
        prepared, actor=agent.actor, request=again
    )
    return render_answer(_build_subject(made), status=201)


@router.route(
    "POST",
    "/subjects/{subject}:restrict",
    needs=auth.FORGET,
    out=SubjectOut,
    refusals=[NotFoundError, *GONE, *REPEATABLE],
)
async def restrict(
    request: HttpRequest, subject: Path[Id], body: BasisIn
) -> HttpResponse:
    """Keep agents from reading and writing a subject's memory, until lifted.

    Exports go on, and officers can still view it. A repeat may change the basis.
    """
    agent = auth.get_caller(request)
    again = parse_person_request(request, body, agent=agent)
    found = await read(_get_subject, agent, subject)
    if await read(requests.find, again):
        return render_answer(_build_subject(found), replayed=True)
    made = await restrictions.restrict_subject_async(
        found.id, basis=body.basis, actor=agent.actor, request=again
    )
    return render_answer(_build_subject(made))


@router.route(
    "POST",
    "/subjects/{subject}:unrestrict",
    needs=auth.FORGET,
    out=SubjectOut,
    refusals=[NotFoundError, ErasureInProgressError, *GONE, *REPEATABLE],
)
async def unrestrict(
    request: HttpRequest, subject: Path[Id], body: UnrestrictIn
) -> HttpResponse:
    """Let agents in again. A repeat changes nothing.

    A plan made with `restrict` keeps them out for as long as it can be confirmed.
    """
    agent = auth.get_caller(request)
    again = parse_person_request(request, body, agent=agent)
    found = await read(_get_subject, agent, subject)
    if await read(requests.find, again):
        return render_answer(_build_subject(found), replayed=True)
    made = await restrictions.unrestrict_subject_async(
        found.id, actor=agent.actor, request=again
    )
    return render_answer(_build_subject(made))


@router.route(
    "GET",
    "/subjects/{subject}",
    needs=auth.LOOK,
    out=ProfileOut,
    refusals=[NotFoundError, SubjectRestrictedError, *GONE],
)
def get(request: HttpRequest, subject: Path[Id]) -> ProfileOut:
    """Count a subject's records.

    Sessions and facts only for keys with `memory:read`. While the subject is
    restricted, only for keys with a subject scope.
    """
    agent = auth.get_caller(request)
    found = _get_subject(agent, subject)
    restricted = found.state == Subject.State.RESTRICTED
    if restricted and auth.READ in agent.scopes:
        raise SubjectRestrictedError
    now = clock.now()
    sessions, sample = list[Thread](), tuple[FactLine, ...]()
    if auth.READ in agent.scopes:
        sessions = profiles.list_sessions(found)
        sample = profiles.list_sample(found, now=now)
    return ProfileOut.from_profile(
        profiles.get_profile(found, now=now),
        sessions=[
            SessionOut(
                thread=agent.get_thread_name(each.name),
                messages=each.slot_count,
                last_event_at=each.last_event_at,
            )
            for each in sessions
        ],
        sample=[FactOut.from_line(agent, each) for each in sample],
    )


def _get_subject(agent: Agent, subject: UUID) -> Subject:
    return profiles.get_subject(agent.project, subject, bound=agent.bound)


def _build_subject(subject: Subject) -> SubjectOut:
    return SubjectOut.model_validate(subject)
