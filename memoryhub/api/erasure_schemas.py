"""Erasures on the wire. Nothing in them tells what was erased."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from memoryhub.api.fields import (
    In,
    Out,
    RefusedError,
    ThreadName,
    Time,
    counted,
    within,
)
from memoryhub.api.schemas import Part
from memoryhub.kernel.erase_events import Reason
from memoryhub.kernel.strict_json import MAX_INTEGER
from memoryhub.models.erasures import Erasure
from memoryhub.queries.erasures import ErasureLine
from memoryhub.services.erasure_plans import TICKET

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
    plan_token: Annotated[str, Field(max_length=128)]
    count: Count = Field(description="The plan's own `count`, read and repeated.")


class ErasuresQuery(Part):
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
        "store, night, hold."
    )
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
    def of(cls, line: ErasureLine) -> Self:
        return cls.like(
            line,
            subject_id=line.subject,
            before=line.before.isoformat() if line.before else None,
            record=line.seq,
            residue=list(line.residue),
            places=[PlaceOut.like(place) for place in line.places],
            times=dict(line.times),
            expires_at=line.expires_at.isoformat(),
        )


class PlanOut(ErasureOut):
    """A plan, with what confirms just this one."""

    plan_token: str


class ErasuresOut(Out):
    items: list[ErasureOut]
    next: str | None


class ReceiptOut(Out):
    """A receipt: canonical JSON, signed. More is in it; none of it is content."""

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
    items: list[AddendumOut]


assert set(State.__args__) == set(Erasure.State.values)  # type: ignore[attr-defined]  # a Literal
