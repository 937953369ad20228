"""What operations refuse, as the OpenAPI document tells it."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

from memoryhub.api import errors as ours
from memoryhub.api.document.compact import Shared
from memoryhub.api.errors import MEDIA_TYPE, PARSER_STATUS, STATUS, Problem
from memoryhub.errors import (
    BadCursorError,
    BadPreconditionError,
    ClockSkewError,
    ErasuresToReplayError,
    IdempotencyMismatchError,
    InvalidError,
    KeyInUrlError,
    NotFoundError,
    ProjectDeletedError,
    QueueFullError,
    RateError,
    Refusal,
    ScopeError,
    UnauthorizedError,
    UnavailableError,
)

#: The codes of a status, each with the message that goes with it.
Codes = dict[str, str]

_PARSER_CODES = (
    *("empty_body", "invalid_json", "encoding", "non_finite"),
    *("number_too_long", "duplicate_key"),
)
_VALUE_CODES = (
    *("object_expected", "type", "missing", "extra_field", "value", "name"),
    *("reserved_name", "type_not_qualified"),
    *("batch_size", "reserved_id", "reserved_key", "expiry_in_past"),
)
_QUERY_CODES = (
    *("extra_parameter", "duplicate_parameter", "limit", "at", "value"),
    *("name", "reserved_name", "type_not_qualified", "reserved_key"),
    "glob_too_complex",
    *("time", "time_range", "missing"),
)

_ANY: tuple[type[Refusal], ...] = (
    ours.EncodingError,
    ours.HostError,
    KeyInUrlError,
    UnauthorizedError,
    ScopeError,
    NotFoundError,
    ours.MethodError,
    ours.UriTooLongError,
    InvalidError,
    RateError,
    ours.HeadersTooLargeError,
    UnavailableError,
    ClockSkewError,
    ErasuresToReplayError,
)
_BODIES: tuple[type[Refusal], ...] = (
    ours.BodyTooLargeError,
    ours.ContentTypeError,
    ours.ContentEncodingError,
)
_READS = (BadCursorError,)
_WRITES = (*_BODIES, BadPreconditionError, ProjectDeletedError, QueueFullError)
_HEADERS: Final = {
    401: ("WWW-Authenticate", "That a Bearer key is asked for."),
    405: ("Allow", "The methods that the address has."),
    429: ("Retry-After", "Seconds to wait, where that helps."),
    503: ("Retry-After", "Seconds to wait."),
}


class Refusals:
    """Each response once, and each code's example.

    What any operation may answer is told by the range 4XX; a status of its own stands
    where an operation has more codes than that.
    """

    def __init__(self) -> None:
        self._shared = Shared("responses")
        self.examples: dict[str, Any] = {}

    @property
    def named(self) -> dict[str, Any]:
        return self._shared.named

    def responses(
        self, own: Iterable[type[Refusal]], *, writes: bool
    ) -> dict[int | str, Any]:
        """Return references, by status, to all that such an operation can answer."""
        always = (*_ANY, *(_WRITES if writes else _READS))
        common = _codes(always, writes=writes)
        responses: dict[int | str, Any] = {}
        for status, codes in sorted(_codes((*own, *always), writes=writes).items()):
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                responses[status] = self._one(status, codes, {})
            elif codes.keys() != common.get(status, {}).keys():
                responses[status] = self._one(status, codes, common.get(status, {}))
        return {**responses, "4XX": self._range(common, writes=writes)}

    def _one(self, status: int, codes: Codes, common: Codes) -> dict[str, str]:
        """A status of an operation; what any answers with it is not told again."""
        own = {code: text for code, text in codes.items() if code not in common}
        more = f"; those of `4XX` with {status}" if common else ""
        response = self._response(
            f"Codes: {_listed(own)}{more}.", status, own, [status]
        )
        return self._shared.refer(str(status), response)

    def _range(self, common: dict[int, Codes], *, writes: bool) -> dict[str, str]:
        """What any operation may answer that has a body, or has none."""
        refused = sorted(
            each for each in common if each < HTTPStatus.INTERNAL_SERVER_ERROR
        )
        listed = "; ".join(f"{each}: {_listed(common[each])}" for each in refused)
        status = int(HTTPStatus.UNAUTHORIZED)
        description = (
            f"Any operation {'with' if writes else 'without'} a body: {listed}."
        )
        response = self._response(description, status, common[status], refused)
        return self._shared.refer("4XX", response)

    def _response(
        self, description: str, status: int, codes: Codes, statuses: list[int]
    ) -> dict[str, Any]:
        code, message = next(iter(codes.items()))
        problem = Problem(status=status, code=code, detail=message)
        self.examples[code] = {"value": problem.plain("4f1c2a9be07d6538")}
        response: dict[str, Any] = {
            "description": description,
            "content": {
                MEDIA_TYPE: {
                    "schema": {"$ref": "#/components/schemas/ErrorOut"},
                    "examples": {code: {"$ref": f"#/components/examples/{code}"}},
                }
            },
        }
        headers = dict(_HEADERS[each] for each in statuses if each in _HEADERS)
        if headers:
            response["headers"] = {
                name: {"description": meaning, "schema": {"type": "string"}}
                for name, meaning in headers.items()
            }
        return response


def _listed(codes: Codes) -> str:
    return ", ".join(f"`{code}`" for code in sorted(codes))


def _codes(refusals: Iterable[type[Refusal]], *, writes: bool) -> dict[int, Codes]:
    """Codes by status."""
    refusals = list(refusals)
    found: dict[int, Codes] = {}
    for refusal in refusals:
        status = STATUS[refusal]
        found.setdefault(status, {})[refusal.code] = refusal().message
    listed = [*_QUERY_CODES]
    if writes:
        listed += [*_PARSER_CODES, *PARSER_STATUS, *_VALUE_CODES]
    if IdempotencyMismatchError in refusals:
        listed.append("idempotency_key")
    for code in listed:
        status = 400 if code in _PARSER_CODES else PARSER_STATUS.get(code, 422)
        found.setdefault(status, {}).setdefault(code, "")
    return found
