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
from memoryhub.journal import KeyedRequest
from memoryhub.journal.log.requests import PersonRequest
from memoryhub.kernel.text import strict_json
from memoryhub.services.access.api_keys import Agent

#: Refusals of any write to an existing thread.
CONDITIONAL = (
    *GONE,
    HomeThreadError,
    ThreadClosedError,
    StaleError,
    BadPreconditionError,
    IdempotencyMismatchError,
)
#: Refusals of a write that stores a value outside a message.
KEEPING = (*CONDITIONAL, ValueErasedError)

#: Refusals that an Idempotency-Key adds to a request about a person.
REPEATABLE = (IdempotencyMismatchError, InProgressError)

_SEQ = re.compile(r"(?:0|[1-9][0-9]{0,18})")
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


def parse_if_match(request: HttpRequest) -> int | None:
    """Return the head seq or version in If-Match, with or without quotes, or None.

    Raises BadPreconditionError.
    """
    text = request.META.get("HTTP_IF_MATCH")
    if text is None:
        return None
    text = memory_fields.strip_quotes(text)
    if not _SEQ.fullmatch(text) or int(text) > strict_json.MAX_INTEGER:
        raise BadPreconditionError
    return int(text)


def parse_idempotency(
    request: HttpRequest, body: BaseModel, *, but: Any = None
) -> KeyedRequest | None:
    """Return the Idempotency-Key and the fingerprint that a repeat must match, or None.

    The fingerprint leaves out `but`, which a repeat need not send (pydantic's exclude).
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
    return KeyedRequest(key=key, fingerprint=strict_json.dump_canonical([place, plain]))


def parse_person_request(
    request: HttpRequest, body: BaseModel, *, agent: Agent
) -> PersonRequest | None:
    """Return the Idempotency-Key of a request about a person, or None."""
    named = parse_idempotency(request, body)
    if named is None:
        return None
    return PersonRequest(project=agent.project, bound=agent.bound, request=named)
