"""Exceptions for refusals and failures: a class for each family, with a `code`."""

from __future__ import annotations

import json
from typing import Any

import httpx2


class Unreachable(Exception):
    """No answer came; the effect of a request that is not repeatable is unknown."""


class Problem(Exception):
    """A refusal of the server: RFC 9457, with its stable `code`."""

    def __init__(self, status: int, body: dict[str, Any], retry: float | None) -> None:
        self.status = status
        #: All members of the answer, also those of this kind of problem.
        self.body = body
        self.code = str(body.get("code", ""))
        self.detail = str(body.get("detail", ""))
        self.errors: list[dict[str, Any]] = body.get("errors", [])
        self.request_id = body.get("request_id")
        #: Seconds after which the server asks for a repeat, or None.
        self.retry = retry
        super().__init__(f"{status} {self.code}: {self.detail}")


class BadRequest(Problem):
    """The request is malformed (400)."""


class Unauthorized(Problem):
    """The key is not valid (401)."""


class Forbidden(Problem):
    """The key may not do that (403)."""


class NotFound(Problem):
    """The thing does not exist, or belongs to another project (404)."""


class Conflict(Problem):
    """The request conflicts with the present state (409)."""


class Gone(Problem):
    """The thing was erased (410)."""


class TooLarge(Problem):
    """The request is larger than the server takes (413)."""


class Invalid(Problem):
    """A value is not allowed; `errors` says where (415, 422)."""


class TooMany(Problem):
    """A limit was reached (429); without `retry` it does not renew with time."""


class ServerProblem(Problem):
    """The server failed (5xx)."""


class Unavailable(ServerProblem):
    """The server is not available now; nothing was written (503)."""


_FAMILIES: dict[int, type[Problem]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    415: Invalid,
    422: Invalid,
    429: TooMany,
    503: Unavailable,
}


def build_problem(response: httpx2.Response) -> Problem:
    """Build the exception of a refusal, also of a proxy's, which has no `code`."""
    status = response.status_code
    kind = _FAMILIES.get(status, ServerProblem if status >= 500 else Problem)
    return kind(status, _parse_members(response), parse_retry_after(response))


def _parse_members(response: httpx2.Response) -> dict[str, Any]:
    if "json" in response.headers.get("Content-Type", ""):
        try:
            body = json.loads(response.content)
        except ValueError:
            body = None
        if isinstance(body, dict):
            return body
    return {"detail": response.reason_phrase}


def parse_retry_after(response: httpx2.Response) -> float | None:
    """Parse the seconds of Retry-After; None for a date, which the hub never sends."""
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None
