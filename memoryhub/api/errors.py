"""Errors as agents see them: one status per refusal, one shape for all errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple

import orjson
from django.http import HttpResponse

from memoryhub import errors
from memoryhub.api.allowed import BY_CODE
from memoryhub.errors import InvalidError, RateError, Refusal, UnavailableError
from memoryhub.kernel.text.strict_json import JsonRefusedError

Loc = tuple[str | int, ...]

#: Location of a value that is the body itself.
WHOLE_BODY: Loc = ("body",)

MEDIA_TYPE = "application/problem+json"


class BodyTooLargeError(Refusal):
    """The body is larger than the server takes. Send less, or in parts."""

    code = "body_too_large"


class ContentTypeError(Refusal):
    """The body must be `application/json` in UTF-8."""

    code = "content_type"


class ContentEncodingError(Refusal):
    """The body must not be compressed."""

    code = "content_encoding"


class EncodingError(Refusal):
    """The address is not UTF-8 text without NUL."""

    code = "encoding"


class HostError(Refusal):
    """The Host header is not a name of this server."""

    code = "host"


class IncompleteBodyError(Refusal):
    """The body did not arrive whole, or in time. Send it again."""

    code = "invalid_json"


class MethodError(Refusal):
    """The route does not know this method; Allow lists those it knows."""

    code = "method_not_allowed"


class UriTooLongError(Refusal):
    """The address is longer than the server takes."""

    code = "uri_too_long"


class HeadersTooLargeError(Refusal):
    """The request's headers are more than the server takes."""

    code = "headers_too_large"


class InternalError(Refusal):
    """The server failed; the request id finds the line in its log."""

    code = "internal"


#: The one table of HTTP statuses.
STATUS: dict[type[Refusal], int] = {
    Refusal: 422,
    InvalidError: 422,
    JsonRefusedError: 400,
    errors.BadCursorError: 400,
    errors.BadPreconditionError: 400,
    errors.KeyInUrlError: 400,
    EncodingError: 400,
    HostError: 400,
    IncompleteBodyError: 400,
    errors.UnauthorizedError: 401,
    errors.ScopeError: 403,
    errors.NotFoundError: 404,
    errors.SeqUnknownError: 404,
    MethodError: 405,
    errors.StaleError: 409,
    errors.ScopeConflictError: 409,
    errors.SubjectConflictError: 409,
    errors.SubjectRestrictedError: 409,
    errors.SubjectHeldError: 409,
    errors.NameTakenError: 409,
    errors.ThreadClosedError: 409,
    errors.ThreadFullError: 409,
    errors.SlotInheritedError: 409,
    errors.ProjectFullError: 409,
    errors.ForkTooDeepError: 409,
    errors.HomeThreadError: 409,
    errors.HomeTakenError: 409,
    errors.BlocksFullError: 409,
    errors.NoModelError: 409,
    errors.BlockReadOnlyError: 409,
    errors.NotInBlockError: 409,
    errors.NotUniqueError: 409,
    errors.BudgetDiffersError: 409,
    errors.CorruptError: 409,
    errors.SealBrokenError: 409,
    errors.NewerFormatError: 409,
    errors.SubjectErasedError: 410,
    errors.ThreadErasedError: 410,
    errors.ContentErasedError: 410,
    BodyTooLargeError: 413,
    UriTooLongError: 414,
    ContentTypeError: 415,
    ContentEncodingError: 415,
    errors.ValueTooLargeError: 413,
    errors.KeyNotFoundError: 404,
    errors.TaskNotFoundError: 404,
    errors.CheckpointUnknownError: 404,
    errors.FactUnknownError: 404,
    errors.SubjectFullError: 409,
    errors.TimelineFullError: 409,
    errors.KeyExistsError: 409,
    errors.KeysFullError: 409,
    errors.CheckpointsFullError: 409,
    errors.PageUnknownError: 404,
    errors.NotRecordedError: 404,
    errors.DerivedPageError: 409,
    errors.NoRoomError: 409,
    errors.BudgetTooSmallError: 409,
    errors.PartsUnseenError: 409,
    errors.PinnedError: 409,
    errors.PinnedByLogError: 409,
    errors.RangeTakenError: 409,
    errors.ObservationsWantedError: 409,
    errors.ObserverOffError: 409,
    errors.NothingToDoError: 409,
    errors.RangeOpenError: 409,
    errors.StaleEpochError: 409,
    errors.LogChangedError: 409,
    errors.LogFullError: 409,
    errors.PinBudgetError: 409,
    errors.FaultConfidenceError: 409,
    errors.ErasureInProgressError: 409,
    errors.NothingToEraseError: 409,
    errors.PlanExpiredError: 409,
    errors.PlanStaleError: 409,
    errors.CountMismatchError: 409,
    errors.AlreadyFencedError: 409,
    errors.NotCompleteError: 409,
    errors.NotErasedError: 409,
    errors.InProgressError: 409,
    errors.ExportBusyError: 409,
    errors.PageErasedError: 410,
    errors.ValueErasedError: 410,
    errors.BundleErasedError: 410,
    errors.ProjectDeletedError: 410,
    errors.BadBundleError: 422,
    errors.BeyondHeadError: 422,
    errors.UnknownPageError: 422,
    errors.TokensRequiredError: 422,
    errors.IdempotencyMismatchError: 422,
    RateError: 429,
    errors.FaultBudgetError: 429,
    errors.ForgetBudgetError: 429,
    HeadersTooLargeError: 431,
    InternalError: 500,
    UnavailableError: 503,
    errors.QueueFullError: 503,
    errors.KeyMissingError: 503,
    errors.ColdStorageError: 503,
    errors.ClockSkewError: 503,
    errors.ErasuresToReplayError: 503,
    errors.LedgerUnwritableError: 503,
    errors.LedgerBrokenError: 503,
}

#: Parser codes whose status is not 400: the bytes are JSON, the value is refused.
PARSER_STATUS = {
    "body_too_large": 413,
    "too_deep": 422,
    "too_many_nodes": 422,
    "key_too_long": 422,
    "nul": 422,
    "surrogate": 422,
    "integer_range": 422,
}

#: Refusal that stands for an error another layer answered by status alone.
BY_STATUS: dict[int, type[Refusal]] = {
    400: EncodingError,
    404: errors.NotFoundError,
    405: MethodError,
    413: BodyTooLargeError,
}

_ERASED = (
    errors.SubjectErasedError,
    errors.ThreadErasedError,
    errors.ValueErasedError,
)
_RETRY_SECONDS = 1
#: Seconds between two comparisons of the clocks.
_CLOCK_SECONDS = 10
_TITLES = {status.value: status.phrase for status in HTTPStatus}


#: Most refused values that the detail describes; further values are only counted.
_SENTENCES = 5


class Wrong(NamedTuple):
    """A refused value: its location, the code, and the values allowed there."""

    loc: Loc
    code: str
    allowed: str

    @property
    def sentence(self) -> str:
        place = f"`{'.'.join(map(str, self.loc))}`"
        if self.code == "missing":
            return f"{place} is missing: {self.allowed}."
        if self.code in ("extra_field", "extra_parameter"):
            return f"{place} is not known: {self.allowed}."
        return f"{place} takes {self.allowed}."


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemDocument:
    """An error answer (RFC 9457) with our stable `code`."""

    status: int
    code: str
    detail: str
    errors: tuple[tuple[tuple[str | int, ...], str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Additional members of this kind of problem.
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_refusal(cls, refusal: Refusal) -> ProblemDocument:
        """Convert a refusal to its answer; no other code does so."""
        code, allowed = refusal.code, ""
        loc: Loc = ()
        if isinstance(refusal, InvalidError):
            code, loc = refusal.invalid_code, _split_loc(refusal.loc)
            allowed = refusal.allowed
        elif isinstance(refusal, JsonRefusedError) and code in BY_CODE:
            loc, allowed = refusal.loc or WHOLE_BODY, BY_CODE[code]
        if "index" in refusal.detail:
            # Index of the item because of which the whole batch was refused.
            loc = ("items", int(str(refusal.detail["index"])), *loc)
        status = get_status(refusal)
        return cls(
            status=status,
            code=code,
            detail=Wrong(loc, code, allowed).sentence if allowed else refusal.sentence,
            errors=((loc, code),) if loc else (),
            headers=_build_headers(refusal, status),
            extra=_build_extra(refusal),
        )

    def to_dict(self, request_id: str) -> dict[str, Any]:
        return {
            "type": f"urn:memoryhub:error:{self.code}",
            "title": _TITLES[self.status],
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "errors": [{"loc": list(loc), "code": code} for loc, code in self.errors],
            "request_id": request_id,
            **self.extra,
        }

    def to_bytes(self, request_id: str) -> bytes:
        return orjson.dumps(self.to_dict(request_id))

    def to_response(self, request_id: str) -> HttpResponse:
        response = HttpResponse(
            self.to_bytes(request_id), status=self.status, content_type=MEDIA_TYPE
        )
        for name, value in self.headers.items():
            response[name] = value
        return response


def build_invalid(found: Sequence[Wrong]) -> ProblemDocument:
    """Build the answer to invalid values: their locations and the allowed values."""
    sentences = [each.sentence for each in found[:_SENTENCES]]
    if more := len(found) - len(sentences):
        sentences.append(f"And {more} more.")
    return ProblemDocument(
        status=STATUS[InvalidError],
        code=found[0].code,
        detail=" ".join(sentences),
        errors=tuple((each.loc, each.code) for each in found),
    )


def get_status(refusal: Refusal) -> int:
    if isinstance(refusal, JsonRefusedError):
        return PARSER_STATUS.get(refusal.code, STATUS[JsonRefusedError])
    return STATUS[type(refusal)]


def _split_loc(loc: str) -> tuple[str | int, ...]:
    steps = loc.split(".") if loc else ()
    return tuple(int(step) if step.isdecimal() else step for step in steps)


def _build_extra(refusal: Refusal) -> dict[str, Any]:
    """Build the members that a program acts on, by kind of refusal.

    A refused fault reports the fault budget left and what would renew it; no clock
    renews the budget, so there is no Retry-After. An erased thing reports the ids of
    its proof, a stale plan the new plan.
    """
    if isinstance(refusal, errors.PlanStaleError) and refusal.plan:
        return {"plan": refusal.plan}
    if isinstance(refusal, errors.NoRoomError):
        return dict(refusal.detail)
    if isinstance(refusal, _ERASED):
        # Ids of the proof; set only if the thing was found in the agent's project.
        return dict(refusal.detail)
    if not isinstance(refusal, errors.FaultBudgetError):
        return {}
    return {"renews": errors.FaultBudgetError.renews, **refusal.detail}


def _build_headers(refusal: Refusal, status: int) -> dict[str, str]:
    if status == 401:
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(refusal, RateError):
        return {"Retry-After": str(refusal.detail["retry_after_seconds"])}
    if isinstance(refusal, errors.ClockSkewError):
        return {"Retry-After": str(_CLOCK_SECONDS)}
    if status == 503:
        return {"Retry-After": str(_RETRY_SECONDS)}
    return {}


class InvalidInputError(Exception):
    """Input values that do not validate, with location and code of each."""

    def __init__(self, found: Sequence[Wrong]) -> None:
        self.found = found
        super().__init__()
