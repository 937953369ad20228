"""Schemas that several nouns of the API share."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from memoryhub.api.document.config_schemas import ConfigIn
from memoryhub.api.document.fields import (
    AtTurn,
    FieldRefusedError,
    In,
    Labels,
    Limit,
    Name,
    Out,
    Seq,
    build_example,
)
from memoryhub.errors import NotFoundError
from memoryhub.kernel.state.state import ScopeLabels

Status = Literal["open", "closed", "retired", "erased"]


class ErrorPlace(Out):
    loc: list[str | int] = Field(description="Where: our own names and ordinals.")
    code: str


class ErrorOut(Out):
    """A problem document (RFC 9457). `code` is stable."""

    model_config = build_example(
        {
            "type": "urn:memoryhub:error:not_found",
            "title": "Not Found",
            "status": 404,
            "code": "not_found",
            "detail": NotFoundError().message,
            "errors": [],
            "request_id": "4f1c2a9be07d6538",
        }
    )

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[ErrorPlace]
    request_id: str


class AsOf(In):
    """Event or turn to answer as of; default: now."""

    at_seq: Seq | None = Field(None, description="As of this event of the thread.")
    at_turn: AtTurn | None = Field(
        None, description="As of the last event of this turn; 0 is before the first."
    )

    @model_validator(mode="after")
    def one_of_them(self) -> Self:
        if self.at_seq is not None and self.at_turn is not None:
            says = "nothing beside `at_seq`: one of the two"
            raise FieldRefusedError("at", allowed=says, loc=("at_turn",))
        return self


class Pagination(In):
    """A part of a list."""

    after: str | None = Field(None, description="The `next` of the part before.")
    limit: Limit = 50


class ScopeIn(In):
    agent_type: Name | None = None
    agent_instance: Name | None = None
    session: Name | None = None

    def to_scope(self) -> ScopeLabels:
        return ScopeLabels(**self.model_dump())


class ScopeOut(Out):
    agent_type: str | None
    agent_instance: str | None
    session: str | None


class Described(In):
    """Description of a thread that is made, forked or amended."""

    scope: ScopeIn = ScopeIn()
    labels: Labels | None = None
    config: ConfigIn = ConfigIn()
