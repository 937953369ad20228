"""The gate: what is looked at before Django sees a request, by either handler.

Refuses bytes that are no request of ours, reads the body up to its cap, and makes every
error under its path a problem document.
"""

from __future__ import annotations

import asyncio
import os
import re
import traceback
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import count
from typing import Any
from urllib.parse import unquote_to_bytes

import structlog
from django.conf import settings

from memoryhub.api.errors import (
    BY_STATUS,
    MEDIA_TYPE,
    BodyTooLargeError,
    ContentEncodingError,
    ContentTypeError,
    EncodingError,
    HeadersTooLargeError,
    HostError,
    IncompleteBodyError,
    InternalError,
    Problem,
    UriTooLongError,
)
from memoryhub.errors import KeyInUrlError, NotFoundError, Refusal
from memoryhub.services.access import api_keys
from memoryhub.services.forget.maintenance import maintenance

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Where in the ASGI scope what the gate found out is kept.
BODY, REQUEST_ID = "memoryhub.body", "memoryhub.request_id"

HEADER_BYTES = 16 * 1024
HEADER_COUNT = 100
URL_BYTES = 8 * 1024
#: Of the 15 that a body may take; the rest is for saying so.
BODY_SECONDS = 14
#: What follows an answer is thrown away, so long, and so much of it: a connection that
#: is closed under a client that still sends may take the answer with it.
LINGER_SECONDS, LINGER_BYTES = 2.0, 8 * 1_048_576
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})

_CONTENT_TYPE = re.compile(
    rb'application/json[ \t]*(;[ \t]*charset[ \t]*=[ \t]*"?utf-8"?[ \t]*)?',
    re.IGNORECASE,
)
_HOST = re.compile(rb"(\[[0-9a-fA-F:.]+\]|[0-9A-Za-z._-]+)(:\d{1,5})?")
_CLOSE = (b"connection", b"close")
_ALWAYS = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
]

_OURS = frozenset(name for name, _ in _ALWAYS)
#: Request ids are unique, not secret. Chance for each would give up the interpreter's
#: lock in the middle of a request, which costs more than all the rest of this module.
_PROCESS = os.urandom(4).hex()
_COUNT = count()

log = structlog.get_logger()


class Gate:
    """ASGI middleware in front of the handler of `/api`."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = f"{_PROCESS}{next(_COUNT):08x}"
        answer = Answer(send, request_id=request_id, head=scope["method"] == "HEAD")
        try:
            maintenance.require_none()
            check(scope)
            body = b""
            if scope["method"] in WITH_BODY:
                check_content(scope)
                body = await read_body(scope, receive)
            inner = {**scope, BODY: body, REQUEST_ID: request_id}
            await self.application(inner, replay(body, receive), answer)
        except IncompleteBodyError as refusal:
            await answer.refuse(refusal, close=True)
        except Refusal as refusal:
            unread = receive if scope["method"] in WITH_BODY else None
            await answer.refuse(refusal, unread, close=unread is not None)
        except Exception as failure:  # the outermost frame of a request
            log_failure(failure, request_id=request_id)
            if answer.started:
                raise
            await answer.refuse(InternalError())


class Answer:
    """What is sent: errors that are not ours already are made so."""

    def __init__(self, send: Send, *, request_id: str, head: bool) -> None:
        self.send = send
        self.request_id = request_id
        self.head = head
        self.started = False
        self._replaced = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            if message["status"] >= 400 and not _is_problem(message["headers"]):
                self._replaced = True
                await self._replace(message)
                return
            await self.send({**message, "headers": self._headers(message["headers"])})
        elif not self._replaced:
            await self.send({**message, "body": b""} if self.head else message)

    async def refuse(
        self, refusal: Refusal, unread: Receive | None = None, *, close: bool = False
    ) -> None:
        """Answer with a refusal, and take what is still `unread` of the body."""
        log.info("request.refused", request_id=self.request_id, code=refusal.code)
        extra = [_CLOSE] if close else []
        await self._problem(Problem.of(refusal), extra, more=unread is not None)
        if unread is not None:
            await _discard(unread)
            await self.send({"type": "http.response.body"})

    async def _replace(self, message: Message) -> None:
        kind = BY_STATUS.get(message["status"], InternalError)
        kept = [each for each in message["headers"] if each[0].lower() == b"allow"]
        await self._problem(Problem.of(kind()), kept)

    async def _problem(
        self,
        problem: Problem,
        extra: Iterable[tuple[bytes, bytes]],
        *,
        more: bool = False,
    ) -> None:
        self.started = True
        body = problem.body(self.request_id)
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            *((n.encode(), v.encode()) for n, v in problem.headers.items()),
            *extra,
        ]
        start = {"type": "http.response.start", "status": problem.status}
        await self.send({**start, "headers": self._headers(headers)})
        sent = b"" if self.head else body
        answer = {"type": "http.response.body", "body": sent}
        await self.send({**answer, "more_body": True} if more else answer)

    def _headers(self, headers: Iterable[tuple[bytes, bytes]]) -> list[Any]:
        kept = [each for each in headers if each[0].lower() not in _OURS]
        return [*kept, *_ALWAYS, (b"x-request-id", self.request_id.encode())]


def check(scope: Scope) -> None:
    """Raise what is wrong with a request line and its headers."""
    check_size(scope)
    path, query = _address(scope)
    _check_host([value for name, value in scope["headers"] if name == b"host"])
    if b"mh_" in path or b"mh_" in query or b"%" in path or b"%" in query:
        _check_address(path, query)
    if not (path.isascii() and query.isascii()):
        raise EncodingError


def check_size(scope: Scope) -> None:
    """Raise HeadersTooLargeError or UriTooLongError for more than any path takes."""
    headers = scope["headers"]
    size = sum(len(name) + len(value) + 4 for name, value in headers)
    if size > HEADER_BYTES:
        raise HeadersTooLargeError(max_bytes=HEADER_BYTES)
    if len(headers) > HEADER_COUNT:
        raise HeadersTooLargeError(max_headers=HEADER_COUNT)
    if sum(map(len, _address(scope))) > URL_BYTES:
        raise UriTooLongError(max_bytes=URL_BYTES)


def _address(scope: Scope) -> tuple[bytes, bytes]:
    """Path and query, escaped as they were sent."""
    # Not every server keeps the path as it was sent, nor without the query.
    path = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
    return path, scope.get("query_string", b"")


def _check_host(hosts: list[bytes]) -> None:
    if len(hosts) != 1 or not own_host(hosts[0]):
        raise HostError


def own_host(host: bytes) -> bool:
    """Return whether the host, with its port or without, is one of this server's.

    Names may have a `_`, as those of containers do, and Django's own reading refuses.
    """
    shape = _HOST.fullmatch(host)
    return shape is not None and shape[1].decode().lower() in settings.ALLOWED_HOSTS


def _check_address(path: bytes, query: bytes) -> None:
    for part in (path, query):
        try:
            text = unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            raise EncodingError from None
        if "\0" in text:
            raise EncodingError
        if api_keys.SHAPE.search(text):
            raise KeyInUrlError
    # A slash that was escaped is no separator, and no name has one.
    if b"%2f" in path.lower():
        raise NotFoundError


def check_content(scope: Scope) -> None:
    """Raise unless the body says it is plain JSON in UTF-8."""
    types, encoding = [], b""
    for name, value in scope["headers"]:
        if name == b"content-type":
            types.append(value)
        elif name == b"content-encoding":
            encoding = value
    if encoding.strip().lower() not in (b"", b"identity"):
        raise ContentEncodingError
    if len(types) != 1 or not _CONTENT_TYPE.fullmatch(types[0].strip()):
        raise ContentTypeError


def _declared_bytes(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """Read the body, no further than a chunk beyond its cap.

    Raises BodyTooLargeError. A client that leaves or dawdles is an IncompleteBodyError.
    """
    cap = settings.BODY_BYTES
    if _declared_bytes(scope) > cap:
        raise BodyTooLargeError(max_bytes=cap)
    chunks: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise IncompleteBodyError
                chunks.append(message.get("body", b""))
                more = message.get("more_body", False)
                size += len(chunks[-1])
                if size > cap:
                    raise BodyTooLargeError(max_bytes=cap)
    except TimeoutError:
        raise IncompleteBodyError(max_seconds=BODY_SECONDS) from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def _discard(receive: Receive) -> None:
    """Take what a client still sends, for a while."""
    size, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while more and size <= LINGER_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                more = message.get("more_body", False)


def log_failure(failure: BaseException, *, request_id: str) -> None:
    """Log an error of ours: its type and frames, never its text or variables."""
    frames = traceback.extract_tb(failure.__traceback__)
    log.error(
        "request.failed",
        request_id=request_id,
        code=type(failure).__name__,
        frames=[f"{each.filename}:{each.lineno} {each.name}" for each in frames[-8:]],
    )


def replay(body: bytes, receive: Receive) -> Receive:
    """Give the body that was read once more, then what the client does next."""
    first = True

    async def replayed() -> Message:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        while (message := await receive())["type"] == "http.request":
            pass  # the body of a request that has none
        return message

    return replayed


def _is_problem(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(MEDIA_TYPE.encode())
        for name, value in headers
    )
