"""Shared responses of the OpenAPI document: refusals, and frequent answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from memoryhub.api import errors as ours
from memoryhub.api.document.compact import Shared
from memoryhub.api.errors import MEDIA_TYPE, PARSER_STATUS, STATUS
from memoryhub.errors import (
    BadCursorError,
    BadPreconditionError,
    ClockSkewError,
    ColdStorageError,
    CorruptError,
    ErasuresToReplayError,
    HomeThreadError,
    IdempotencyMismatchError,
    InvalidError,
    KeyInUrlError,
    KeyMissingError,
    NewerFormatError,
    NotFoundError,
    ProjectDeletedError,
    QueueFullError,
    RateError,
    Refusal,
    ScopeError,
    StaleError,
    SubjectErasedError,
    SubjectRestrictedError,
    ThreadClosedError,
    ThreadErasedError,
    UnauthorizedError,
    UnavailableError,
)

#: Codes that each status can have.
Codes = dict[int, set[str]]

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
    # Of most operations, which concern a thread or a person.
    SubjectRestrictedError,
    SubjectErasedError,
    ThreadErasedError,
    CorruptError,
    NewerFormatError,
    UnavailableError,
    ClockSkewError,
    ErasuresToReplayError,
    KeyMissingError,
    ColdStorageError,
    QueueFullError,
)
_BODIES: tuple[type[Refusal], ...] = (
    ours.BodyTooLargeError,
    ours.ContentTypeError,
    ours.ContentEncodingError,
)
_READS = (BadCursorError,)
_WRITES = (
    *_BODIES,
    BadPreconditionError,
    ProjectDeletedError,
    HomeThreadError,
    ThreadClosedError,
    StaleError,
)
_HEADERS: Final = {
    401: ("WWW-Authenticate", "That a Bearer key is asked for."),
    405: ("Allow", "The methods that the address has."),
    429: ("Retry-After", "Seconds to wait, where that helps."),
    503: ("Retry-After", "Seconds to wait, where that helps."),
}


#: Description of refusals whose reference has none.
_REFUSAL: Final = "A refusal, named by its `code`."
#: Uses of an answer up to which it is written out in each operation.
_FEW: Final = 2


class SharedResponses:
    """Shared responses of the document, each stored once.

    The response `default` lists what any operation may answer. An operation lists a
    status of its own only where it has more codes.
    """

    def __init__(self) -> None:
        self._shared = Shared("responses")

    @property
    def named(self) -> dict[str, Any]:
        return self._shared.named

    def share_answers(self, operations: Sequence[dict[str, Any]]) -> None:
        """Store answers of more than two operations; refer to them in each."""
        answers = [
            (responses, status)
            for responses in (each["responses"] for each in operations)
            for status in responses
            if str(status).startswith("2")
        ]
        uses = Counter(str(responses[status]) for responses, status in answers)
        for responses, status in answers:
            if uses[str(responses[status])] > _FEW:
                answer = self._shared.refer(f"{status}", responses[status])
                responses[status] = answer

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
            if codes != common.get(status, set()):
                responses[status] = self._build_status(
                    status, codes, common.get(status, set())
                )
        return {**responses, "default": self._build_default(common, writes=writes)}

    def _build_status(
        self, status: int, codes: set[str], common: set[str]
    ) -> dict[str, str]:
        """Build the response of one status, without the codes that `default` lists."""
        description = f"{_render_codes(codes - common)}."
        response = _build_response(description, [status])
        if "headers" not in response:
            # A reference may have a description of its own, which takes precedence.
            shared = self._shared.refer("Refusal", _build_response(_REFUSAL, []))
            response = {**shared, "description": description}
        return self._shared.refer(str(status), response)

    def _build_default(self, common: Codes, *, writes: bool) -> dict[str, str]:
        """Build the response of any operation with, or without, a body."""
        listed = "; ".join(
            f"{status}: {_render_codes(common[status])}" for status in sorted(common)
        )
        description = (
            f"Any operation {'with' if writes else 'without'} a body: {listed}."
        )
        name = "write" if writes else "read"
        return self._shared.refer(name, _build_response(description, sorted(common)))


def _build_response(description: str, statuses: list[int]) -> dict[str, Any]:
    """Build a response of problem documents, whose schema has the example."""
    response: dict[str, Any] = {
        "description": description,
        "content": {
            MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ErrorOut"}},
        },
    }
    headers = dict(_HEADERS[each] for each in statuses if each in _HEADERS)
    if headers:
        response["headers"] = {
            name: {"description": meaning, "schema": {"type": "string"}}
            for name, meaning in headers.items()
        }
    return response


def _render_codes(codes: set[str]) -> str:
    return ", ".join(f"`{code}`" for code in sorted(codes))


def _group_codes(refusals: Iterable[type[Refusal]], *, writes: bool) -> Codes:
    """Group codes by status."""
    refusals = list(refusals)
    found: Codes = {}
    for refusal in refusals:
        found.setdefault(STATUS[refusal], set()).add(refusal.code)
    listed = [*_QUERY_CODES]
    if writes:
        listed += [*_PARSER_CODES, *PARSER_STATUS, *_VALUE_CODES]
    if IdempotencyMismatchError in refusals:
        listed.append("idempotency_key")
    for code in listed:
        status = 400 if code in _PARSER_CODES else PARSER_STATUS.get(code, 422)
        found.setdefault(status, set()).add(code)
    return found
