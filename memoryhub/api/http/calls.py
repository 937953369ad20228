"""Calls of the agents' API on behalf of a request of another protocol, with its key.

The API checks key, scopes, subject, limits and sizes, as for any client (decision 73).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2

from memoryhub.api.http.auth import PERSON_HEADER
from memoryhub.api.http.gate import Application


class HubRefusedError(Exception):
    """An error answer of the API: its status, and its words for whoever called."""

    def __init__(
        self, status: int, words: str, *, retry_after: str | None = None
    ) -> None:
        super().__init__(words)
        self.status = status
        #: Stable word of the refusal, with which its words begin.
        self.code = words.partition(":")[0]
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCaller:
    """The API, called with the key of one request."""

    http: httpx2.AsyncClient
    authorization: str
    #: User id of the person that the calls are confined to; None: what the key reaches.
    person: str | None = None

    async def call(
        self, method: str, path: str, body: Any = None, *, if_match: int | None = None
    ) -> Any:
        """Return the answer's JSON. Raises HubRefusedError. Costs one request.

        With `if_match` a write is refused unless it is the thread's newest seq.
        """
        try:
            answer = await self.http.request(
                method,
                f"/api/v1{path}",
                json=body,
                headers=self._build_headers(if_match),
            )
        except httpx2.HTTPError:
            raise HubRefusedError(503, "the hub does not answer") from None
        try:
            found = answer.json() if answer.content else {}
        except ValueError:
            raise HubRefusedError(502, "what answers is no hub") from None
        if answer.is_success:
            return found
        raise HubRefusedError(
            answer.status_code,
            _describe_problem(answer.status_code, found),
            retry_after=answer.headers.get("retry-after"),
        )

    def _build_headers(self, if_match: int | None) -> dict[bytes, bytes]:
        named = {b"authorization": self.authorization.encode("latin-1")}
        if if_match is not None:
            named[b"if-match"] = b"%d" % if_match
        if self.person is not None:
            named[PERSON_HEADER.encode()] = self.person.encode()
        return named


def build_http(api: Application) -> httpx2.AsyncClient:
    """Return a client whose requests the API answers in this process."""

    async def _call(scope: Any, receive: Any, send: Any) -> None:
        await api({**scope}, receive, send)

    transport = httpx2.ASGITransport(_call)
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1")


def build_path(*parts: str) -> str:
    """Join the parts of an API path, each escaped."""
    return "".join(f"/{quote(part, safe=':')}" for part in parts)


def _describe_problem(status: int, problem: Any) -> str:
    """Say in one line what the API refused; its details name fields and limits."""
    members = problem if isinstance(problem, dict) else {}
    words = (members.get("code"), members.get("detail"))
    return ": ".join(filter(None, words)) or f"HTTP {status}"
