"""Refusals of each operation, as responses of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final

from memoryhub.api import errors as ours
from memoryhub.api.document.compact import Shared
from memoryhub.api.errors import MEDIA_TYPE, PARSER_STATUS, STATUS, ProblemDocument
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

#: Codes of a status, each with its message.
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


class RefusalResponses:
    """Shared responses of the document, each stored once, and an example of each code.

    The range 4XX lists what any operation may answer. An operation lists a status of
    its own only where it has more codes.
    """

    def __init__(self) -> None:
        self._shared = Shared("responses")
        self.examples: dict[str, Any] = {}

    @property
    def named(self) -> dict[str, Any]:
        return self._shared.named

    def build_responses(
        self, own: Iterable[type[Refusal]], *, writes: bool
    ) -> dict[int | str, Any]:
        """Build references, by status, to all error responses of such an operation."""
        always = (*_ANY, *(_WRITES if writes else _READS))
        common = _group_codes(always, writes=writes)
        responses: dict[int | str, Any] = {}
        for status, codes in sorted(
            _group_codes((*own, *always), writes=writes).items()
        ):
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                responses[status] = self._build_status(status, codes, {})
            elif codes.keys() != common.get(status, {}).keys():
                responses[status] = self._build_status(
                    status, codes, common.get(status, {})
                )
        return {**responses, "4XX": self._build_range(common, writes=writes)}

    def _build_status(self, status: int, codes: Codes, common: Codes) -> dict[str, str]:
        """Build the response of one status, without the codes that `4XX` lists."""
        own = {code: text for code, text in codes.items() if code not in common}
        more = f"; those of `4XX` with {status}" if common else ""
        response = self._build_response(
            f"Codes: {_render_codes(own)}{more}.", status, own, [status]
        )
        return self._shared.refer(str(status), response)

    def _build_range(self, common: dict[int, Codes], *, writes: bool) -> dict[str, str]:
        """Build the response of 4XX: the codes of any operation with, or without, a
        body."""
        refused = sorted(
            each for each in common if each < HTTPStatus.INTERNAL_SERVER_ERROR
        )
        listed = "; ".join(f"{each}: {_render_codes(common[each])}" for each in refused)
        status = int(HTTPStatus.UNAUTHORIZED)
        description = (
            f"Any operation {'with' if writes else 'without'} a body: {listed}."
        )
        response = self._build_response(description, status, common[status], refused)
        return self._shared.refer("4XX", response)

    def _build_response(
        self, description: str, status: int, codes: Codes, statuses: list[int]
    ) -> dict[str, Any]:
        code, message = next(iter(codes.items()))
        problem = ProblemDocument(status=status, code=code, detail=message)
        self.examples[code] = {"value": problem.to_dict("4f1c2a9be07d6538")}
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


def _render_codes(codes: Codes) -> str:
    return ", ".join(f"`{code}`" for code in sorted(codes))


def _group_codes(
    refusals: Iterable[type[Refusal]], *, writes: bool
) -> dict[int, Codes]:
    """Group codes by status, each code with its message."""
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
