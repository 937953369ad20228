from __future__ import annotations

from datetime import date, datetime
from typing import Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Path
from pydantic import Field

from memoryhub.api.document.fields import Id, In, Out, UserId, example
from memoryhub.api.document.samples import AT, SUBJECT_ID
from memoryhub.api.http import auth
from memoryhub.api.http.operations import StrictRouter, rendered
from memoryhub.api.http.preconditions import REPEATABLE, person_request
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
    "days": [_USE],
    "holds": [],
    "erasures": [],
    "retention_due_at": None,
}


class UserIdIn(In):
    """In a body, never in an address: those end up in logs."""

    model_config = example({"user_id": "customer-7"})

    user_id: UserId


class BasisIn(In):
    model_config = example({"basis": "accuracy_contested"})

    basis: Literal[
        "accuracy_contested", "unlawful_objected", "claims", "objection_pending"
    ]


class UnrestrictIn(In):
    model_config = example({})


class SubjectOut(Out):
    """A subject, by the id that every other route knows it by."""

    model_config = example(_SUBJECT)

    id: UUID
    state: State
    #: More than 1 once erased and readmitted.
    generation: int


class KindOut(Out):
    """Records of one type of event; `bytes` are those of their sealed contents."""

    events: int
    sealed: int
    erased: int
    bytes: int


class UseOut(Out):
    """What a key did, by its prefix."""

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


class ProfileOut(SubjectOut):
    """What is held of a subject, counted exactly; no content and no name."""

    model_config = example(_PROFILE)

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

    @classmethod
    def of(cls, found: Profile) -> ProfileOut:
        levels = {str(level): count for level, count in found.levels.items()}
        return cls.from_record(
            found, levels=levels, pending=found.pending._asdict(), **found.counts
        )


# The actions come first: the plain address below would match theirs as well.


@router.route(
    "POST",
    "/subjects:resolve",
    needs=auth.LOOK,
    out=SubjectOut,
    refusals=[NotFoundError, *GONE],
)
async def resolve(request: HttpRequest, body: UserIdIn) -> SubjectOut:
    """The subject of a `user_id`, for the routes that know it by `id`.

    A POST, so that the `user_id` stays out of URLs and logs; it makes nobody.
    """
    return _subject_out(await read(_resolve, auth.caller(request), body.user_id))


@router.route(
    "POST",
    "/subjects:readmit",
    needs=auth.FORGET,
    out=SubjectOut,
    status=(201,),
    refusals=[NotFoundError, NotErasedError, SubjectErasedError, *REPEATABLE],
)
async def readmit(request: HttpRequest, body: UserIdIn) -> HttpResponse:
    """Let an erased `user_id` in again: a new subject to which nothing old attaches."""
    agent = auth.caller(request)
    again = person_request(request, body, agent=agent)
    if served := await read(requests.find, again):
        made = await read(profiles.get_subject, agent.project, served.subject_id)
        return rendered(_subject_out(made), status=201, replayed=True)
    prepared = await read(
        readmissions.prepare, agent.project, body.user_id, bound=agent.bound
    )
    made = await readmissions.create(prepared, actor=agent.actor, request=again)
    return rendered(_subject_out(made), status=201)


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
    """Keep agents out of a subject's memory, reading and writing, until it is lifted.

    Export goes on, and so does viewing by officers. A repeat may change the basis.
    """
    agent = auth.caller(request)
    again = person_request(request, body, agent=agent)
    found = await read(_find, agent, subject)
    if await read(requests.find, again):
        return rendered(_subject_out(found), replayed=True)
    made = await restrictions.restrict_async(
        found.id, basis=body.basis, actor=agent.actor, request=again
    )
    return rendered(_subject_out(made))


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
    agent = auth.caller(request)
    again = person_request(request, body, agent=agent)
    found = await read(_find, agent, subject)
    if await read(requests.find, again):
        return rendered(_subject_out(found), replayed=True)
    made = await restrictions.unrestrict_async(
        found.id, actor=agent.actor, request=again
    )
    return rendered(_subject_out(made))


@router.route(
    "GET",
    "/subjects/{subject}",
    needs=auth.LOOK,
    out=ProfileOut,
    refusals=[NotFoundError, SubjectRestrictedError, *GONE],
)
async def get(request: HttpRequest, subject: Path[Id]) -> ProfileOut:
    """What is held of a subject, in numbers.

    While it is restricted, to keys with a subject scope only.
    """
    return ProfileOut.of(await read(_profile, auth.caller(request), subject))


def _resolve(agent: Agent, user_id: str) -> Subject:
    found = subjects.find(agent.project, user_id, bound=agent.bound)
    if found is None:
        raise NotFoundError
    return found


def _find(agent: Agent, subject: UUID) -> Subject:
    return profiles.get_subject(agent.project, subject, bound=agent.bound)


def _profile(agent: Agent, subject: UUID) -> Profile:
    found = _find(agent, subject)
    restricted = found.state == Subject.State.RESTRICTED
    if restricted and auth.READ in agent.scopes:
        raise SubjectRestrictedError
    return profiles.get_profile(found, now=clock.now())


def _subject_out(subject: Subject) -> SubjectOut:
    return SubjectOut.model_validate(subject)
