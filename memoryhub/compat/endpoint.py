"""ASGI endpoint of `/compat/mem0`: what mem0's client sends, answered by the API.

The client sends its key as `Token`. Refusals are JSON with `detail` in words.
"""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote
from uuid import uuid4

from memoryhub.api.errors import InternalError, MethodError
from memoryhub.api.http import auth, gate
from memoryhub.api.http.gate import Application, Receive, Scope, Send
from memoryhub.compat.requests import PREFIX, CompatAnswer, CompatRequest, refuse
from memoryhub.errors import NotFoundError, Refusal
from memoryhub.kernel.text import strict_json

if TYPE_CHECKING:
    from memoryhub.compat.mem0 import Mem0Server

_SCHEME = "token "


class CompatEndpoint:
    """Server of the client's routes, made when the first request comes."""

    def __init__(self, api: Application) -> None:
        self._api = api
        self._server: Mem0Server | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        unread = receive if scope["method"] in gate.WITH_BODY else None
        try:
            request = await _admit(scope, receive)
            unread = None
            server = self._server or await self._start()
            answer = await server.answer(request)
        except Refusal as refusal:
            answer = refuse(refusal)
        except Exception as failure:  # noqa: BLE001  # the outermost frame of a request
            gate.log_failure(failure, request_id=uuid4().hex)
            answer = refuse(InternalError())
        await _send(send, answer, unread)

    async def _start(self) -> Mem0Server:
        # What calls the API takes a moment to load, which most servers never need.
        module = await asyncio.to_thread(import_module, "memoryhub.compat.mem0")
        self._server = module.Mem0Server(self._api)
        return self._server


async def _admit(scope: Scope, receive: Receive) -> CompatRequest:
    """Check a request, its key, and its body. Raises a Refusal."""
    headers = {name: value.strip(b" \t") for name, value in scope["headers"]}
    gate.check_size(scope)
    gate.require_own_place(headers)
    sent = headers.get(b"authorization", b"").decode("latin-1")
    if sent.lower().startswith(_SCHEME):
        sent = f"Bearer {sent[len(_SCHEME) :].strip()}"
    address = (scope.get("client") or ("",))[0]
    agent = await auth.greet(auth.parse_bearer(sent), address=address)
    method = scope["method"]
    if method not in ("GET", "POST", "PUT", "DELETE"):
        raise MethodError
    body = None
    if method in gate.WITH_BODY:
        gate.check_content(scope)
        raw = await gate.read_body(scope, receive)
        # Checked strictly, but passed on as plain JSON: the API keeps the digits.
        strict_json.parse(raw)
        body = json.loads(raw)
    path = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
    below = path.decode("latin-1").removeprefix(PREFIX)
    if below == path.decode("latin-1"):
        raise NotFoundError
    query = scope.get("query_string", b"").decode("latin-1")
    return CompatRequest(
        method=method,
        parts=tuple(unquote(part) for part in below.strip("/").split("/")),
        query=dict(parse_qsl(query, keep_blank_values=True)),
        body=body,
        agent=agent,
        authorization=sent,
    )


async def _send(send: Send, answer: CompatAnswer, unread: Receive | None) -> None:
    """Send an answer; discard the `unread` rest of the request, and close."""
    body = json.dumps(answer.body, ensure_ascii=False).encode()
    named = {
        "content-type": "application/json",
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
