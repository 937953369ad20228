"""ASGI endpoint of `/compat`: what other products' clients send, answered by the API.

Each client sends its key, and reads the words of a refusal, in a way of its own.
"""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from typing import Protocol
from urllib.parse import parse_qsl, unquote
from uuid import uuid4

from memoryhub.api.errors import InternalError, MethodError
from memoryhub.api.http import auth, gate
from memoryhub.api.http.gate import Application, Receive, Scope, Send
from memoryhub.compat.requests import ClientDialect, CompatAnswer, CompatRequest
from memoryhub.errors import NotFoundError, Refusal
from memoryhub.kernel.text import strict_json

#: Methods with a body, where one is sent.
_WITH_BODY = gate.WITH_BODY | {"DELETE"}


class CompatServer(Protocol):
    """Server of a client's routes."""

    async def answer(self, request: CompatRequest) -> CompatAnswer: ...


class CompatEndpoint:
    """Endpoint of a client, whose server is made when the first request comes."""

    def __init__(self, api: Application, dialect: ClientDialect) -> None:
        self._api, self._dialect = api, dialect
        self._server: CompatServer | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        unread = receive if scope["method"] in gate.WITH_BODY else None
        try:
            request = await _admit(scope, receive, self._dialect)
            unread = None
            server = self._server or await self._start()
            answer = await server.answer(request)
        except Refusal as refusal:
            answer = self._dialect.refuse(refusal)
        except Exception as failure:  # noqa: BLE001  # the outermost frame of a request
            gate.log_failure(failure, request_id=uuid4().hex)
            answer = self._dialect.refuse(InternalError())
        await _send(send, answer, unread)

    async def _start(self) -> CompatServer:
        # What calls the API takes a moment to load, which most servers never need.
        name, server = self._dialect.server
        module = await asyncio.to_thread(import_module, name)
        started: CompatServer = getattr(module, server)(self._api)
        self._server = started
        return started


async def _admit(
    scope: Scope, receive: Receive, dialect: ClientDialect
) -> CompatRequest:
    """Check a request, its key, and its body. Raises a Refusal."""
    headers = {name: value.strip(b" \t") for name, value in scope["headers"]}
    gate.check_size(scope)
    gate.require_own_place(headers)
    sent = dialect.get_authorization(headers)
    address = (scope.get("client") or ("",))[0]
    agent = await auth.greet(auth.parse_bearer(sent), address=address)
    person = auth.decode_person(headers.get(auth.PERSON_HEADER_LOWER))
    agent = await auth.confine(agent, person)
    method = scope["method"]
    if method not in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        raise MethodError
    body = None
    is_empty = headers.get(b"content-length", b"0") == b"0"
    if method in _WITH_BODY and not (is_empty and b"transfer-encoding" not in headers):
        gate.check_content(scope)
        raw = await gate.read_body(scope, receive)
        # Checked strictly, but passed on as plain JSON: the API keeps the digits.
        strict_json.parse(raw)
        body = json.loads(raw)
    path = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
    below = path.decode("latin-1").removeprefix(dialect.prefix)
    if below == path.decode("latin-1"):
        raise NotFoundError
    query = scope.get("query_string", b"").decode("latin-1")
    pairs = parse_qsl(query, keep_blank_values=True)
    return CompatRequest(
        method=method,
        parts=tuple(unquote(part) for part in below.strip("/").split("/")),
        query=dict(pairs),
        pairs=pairs,
        body=body,
        agent=agent,
        authorization=sent,
        person=person,
        prefer=headers.get(b"prefer", b"").decode("latin-1"),
    )


async def _send(send: Send, answer: CompatAnswer, unread: Receive | None) -> None:
    """Send an answer; discard the `unread` rest of the request, and close."""
    body, kind = b"", dict[str, str]()
    if answer.status != 204:
        # A graph's texts may have half surrogate pairs, which no JSON has.
        body = json.dumps(answer.body, ensure_ascii=False).encode(errors="replace")
        kind = {"content-type": "application/json"}
    named = {
        **kind,
        "content-length": str(len(body)),
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        **({"connection": "close"} if unread else {}),
        **answer.headers,
    }
    headers = [(name.lower().encode(), value.encode()) for name, value in named.items()]
    start = {"type": "http.response.start", "status": answer.status}
    await send({**start, "headers": headers})
    message = {"type": "http.response.body", "body": body}
    if unread is None:
        await send(message)
        return
    await send({**message, "more_body": True})
    await gate.discard_rest(unread)
    await send({"type": "http.response.body"})
