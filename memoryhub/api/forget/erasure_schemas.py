"""Erasures on the wire. Nothing in them tells what was erased."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from memoryhub.api.document.fields import (
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
from memoryhub.kernel.state.erase_events import Reason
from memoryhub.kernel.text.strict_json import MAX_INTEGER
from memoryhub.models.erasures import Erasure
from memoryhub.queries.forget.erasures import ErasureLine
from memoryhub.services.forget.erasure_plans import TICKET

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
