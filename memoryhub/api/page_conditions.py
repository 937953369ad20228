"""What writes to pages have in common: their conditions, and what may refuse them."""

from __future__ import annotations

from django.http import HttpRequest
from pydantic import BaseModel

from memoryhub.api.preconditions import idempotency, if_match
from memoryhub.api.reading import GONE
from memoryhub.errors import (
    BadPreconditionError,
    IdempotencyMismatchError,
    PageErasedError,
    PageUnknownError,
    StaleError,
    ThreadClosedError,
)
from memoryhub.services.pages import Terms

#: What any command about one page may answer.
OF_A_PAGE = (PageUnknownError, PageErasedError)
#: What any write to a thread that is there may answer.
CONDITIONAL = (
    *GONE,
    ThreadClosedError,
    StaleError,
    BadPreconditionError,
    IdempotencyMismatchError,
)


def conditions(request: HttpRequest, body: BaseModel) -> Terms:
    """Of a POST: If-Match and Idempotency-Key."""
    return Terms(if_match=if_match(request), request=idempotency(request, body))
