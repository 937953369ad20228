"""What goes wrong, as exceptions: a class a family, `code` says which of it."""

from __future__ import annotations

import json
from typing import Any

import httpx2


class Unreachable(Exception):
    """No answer came. Of a request that is not repeatable, nobody knows what it did."""


class Problem(Exception):
    """The server refused: RFC 9457, with its stable `code`."""

    def __init__(self, status: int, body: dict[str, Any], retry: float | None) -> None:
        self.status = status
        #: All that was answered, members of the problem's own among it.
        self.body = body
        self.code = str(body.get("code", ""))
        self.detail = str(body.get("detail", ""))
        self.errors: list[dict[str, Any]] = body.get("errors", [])
        self.request_id = body.get("request_id")
        #: Seconds after which the server asks to be tried again.
        self.retry = retry
        super().__init__(f"{status} {self.code}: {self.detail}")


class BadRequest(Problem):
    """It is malformed (400)."""


class Unauthorized(Problem):
    """There is no such key (401)."""


class Forbidden(Problem):
    """The key may not do that (403)."""


class NotFound(Problem):
    """It is not there, or it is another project's (404)."""


class Conflict(Problem):
    """It does not fit what is there (409)."""


class Gone(Problem):
    """It was erased (410)."""


class TooLarge(Problem):
    """It is more than the server takes (413)."""


class Invalid(Problem):
    """A value is not what is taken there; `errors` says where (415, 422)."""


class TooMany(Problem):
    """It was too often or too much (429); without `retry` no clock renews it."""


class ServerProblem(Problem):
    """The server failed (5xx)."""


class Unavailable(ServerProblem):
    """The server can't now; nothing was written (503)."""


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


def problem(response: httpx2.Response) -> Problem:
    """The exception of a refusal, whoever wrote it: proxies write none of ours."""
    status = response.status_code
    kind = _FAMILIES.get(status, ServerProblem if status >= 500 else Problem)
    return kind(status, _members(response), retry_after(response))


def _members(response: httpx2.Response) -> dict[str, Any]:
    if "json" in response.headers.get("Content-Type", ""):
        try:
            body = json.loads(response.content)
        except ValueError:
            body = None
        if isinstance(body, dict):
            return body
    return {"detail": response.reason_phrase}


def retry_after(response: httpx2.Response) -> float | None:
    """Seconds, if it says some; a date is no answer of ours."""
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None
