"""What writes to pages have in common: their conditions, and what may refuse them."""

from __future__ import annotations

from django.http import HttpRequest
from pydantic import BaseModel

from memoryhub.api.http.preconditions import idempotency, if_match
from memoryhub.errors import PageErasedError, PageUnknownError
from memoryhub.services.paging.pages import Preconditions

#: What any command about one page may answer.
OF_A_PAGE = (PageUnknownError, PageErasedError)


def conditions(request: HttpRequest, body: BaseModel) -> Preconditions:
    """Read a POST's If-Match and Idempotency-Key."""
    return Preconditions(if_match=if_match(request), request=idempotency(request, body))
