"""Headers that a write depends on: If-Match and Idempotency-Key."""

from __future__ import annotations

import re
from typing import Any

from django.http import HttpRequest
from pydantic import BaseModel

from memoryhub.api.document import memory_fields
from memoryhub.api.http.reading import GONE
from memoryhub.errors import (
    BadPreconditionError,
    HomeThreadError,
    IdempotencyMismatchError,
    InProgressError,
    InvalidError,
    StaleError,
    ThreadClosedError,
    ValueErasedError,
)
from memoryhub.journal import Request
from memoryhub.journal.log.requests import PersonRequest
from memoryhub.kernel.text import strict_json
from memoryhub.services.access.api_keys import Agent

#: What any write to a thread that is there may answer.
CONDITIONAL = (
    *GONE,
    HomeThreadError,
    ThreadClosedError,
    StaleError,
    BadPreconditionError,
    IdempotencyMismatchError,
)
#: What one answers that keeps a value for later, beside a message.
KEEPING = (*CONDITIONAL, ValueErasedError)

#: What a request about a person may answer for its Idempotency-Key's sake.
REPEATABLE = (IdempotencyMismatchError, InProgressError)

_SEQ = re.compile(r"(?:0|[1-9][0-9]{0,18})")
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


def if_match(request: HttpRequest) -> int | None:
    """Return the head seq, or the version, that the client saw, in quotes or without.

    Raises BadPreconditionError.
    """
    text = request.META.get("HTTP_IF_MATCH")
    if text is None:
        return None
    text = memory_fields.unquoted(text)
    if not _SEQ.fullmatch(text) or int(text) > strict_json.MAX_INTEGER:
        raise BadPreconditionError
    return int(text)


def idempotency(
    request: HttpRequest, body: BaseModel, *, but: Any = None
) -> Request | None:
    """Return the client's name for this request, and what a repeat must have in common.

    `but` is left out: what the sender of a repeat need not know (pydantic's exclude).
    """
    key = request.META.get("HTTP_IDEMPOTENCY_KEY")
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise InvalidError(
            code="idempotency_key",
            loc="Idempotency-Key",
            allowed="1 to 255 visible ASCII characters",
        )
    match = request.resolver_match
    assert match is not None
    place = [match.route, {name: str(value) for name, value in match.kwargs.items()}]
    plain = body.model_dump(mode="json", exclude_unset=True, exclude=but)
    return Request(key=key, fingerprint=strict_json.canonical([place, plain]))


def person_request(
    request: HttpRequest, body: BaseModel, *, agent: Agent
) -> PersonRequest | None:
    """Return the client's name for a request about a person, of no thread."""
    named = idempotency(request, body)
    if named is None:
        return None
    return PersonRequest(project=agent.project, bound=agent.bound, request=named)
