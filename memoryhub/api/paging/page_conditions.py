"""Shared parts of writes to pages: preconditions and refusals."""

from __future__ import annotations

from django.http import HttpRequest
from pydantic import BaseModel

from memoryhub.api.http.preconditions import parse_idempotency, parse_if_match
from memoryhub.errors import PageErasedError, PageUnknownError
from memoryhub.services.paging.pages import Preconditions

#: Refusals of any command about one page.
PAGE_REFUSALS = (PageUnknownError, PageErasedError)


def parse_conditions(request: HttpRequest, body: BaseModel) -> Preconditions:
    """Parse a POST's If-Match and Idempotency-Key."""
    return Preconditions(
        if_match=parse_if_match(request), request=parse_idempotency(request, body)
    )
