"""The gate: checks of a request before Django sees it, in front of either handler.

The gate refuses bytes that are no request of ours, reads the body up to its cap, and
makes every error under its path a problem document.
"""

from __future__ import annotations

import asyncio
import os
import re
import traceback
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import count
from time import perf_counter
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
    ProblemDocument,
    UriTooLongError,
)
from memoryhub.api.http.request_counts import OTHER, requests
from memoryhub.errors import KeyInUrlError, NotFoundError, Refusal
from memoryhub.services.access import api_keys
from memoryhub.services.forget.maintenance import maintenance

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Keys of the ASGI scope under which the gate keeps body, request id and GateAnswer.
BODY, REQUEST_ID, ANSWER = "memoryhub.body", "memoryhub.request_id", "memoryhub.answer"

HEADER_BYTES = 16 * 1024
HEADER_COUNT = 100
URL_BYTES = 8 * 1024
#: Seconds of the 15 that a body may take; the last one is for the answer.
BODY_SECONDS = 14
#: Seconds and bytes for which the gate discards input after an answer: closing the
#: connection while the client still sends may lose the answer.
LINGER_SECONDS, LINGER_BYTES = 2.0, 16 * 1_048_576
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})

_CONTENT_TYPE = re.compile(
    rb'application/json[ \t]*(;[ \t]*charset[ \t]*=[ \t]*"?utf-8"?[ \t]*)?',
    re.IGNORECASE,
)
_BLOCKS = re.compile(rb"^/api/v1/(?:subjects|threads)/[^/%]+/blocks/.*$")
_HOST = re.compile(rb"(\[[0-9a-fA-F:.]+\]|[0-9A-Za-z._-]+)(:\d{1,5})?")
_CLOSE = (b"connection", b"close")
_ALWAYS = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
]

_OURS = frozenset(name for name, _ in _ALWAYS)
#: Request ids are unique, not secret. A random number for each would release the GIL
#: in the middle of a request, which costs more than all the rest of this module.
_PROCESS = os.urandom(4).hex()
_COUNT = count()

log = structlog.get_logger()


class Gate:
    """ASGI middleware in front of the handler of `/api`."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = f"{_PROCESS}{next(_COUNT):08x}"
        answer = GateAnswer(send, request_id=request_id, head=scope["method"] == "HEAD")
        await self.serve(scope, receive, answer)

    async def serve(self, scope: Scope, receive: Receive, answer: GateAnswer) -> None:
        """Check and answer a request."""
        try:
            maintenance.require_none()
            check(scope)
            body = b""
            if scope["method"] in WITH_BODY:
                check_content(scope)
                body = await read_body(scope, receive)
            named = {REQUEST_ID: answer.request_id, ANSWER: answer}
            inner = {**scope, BODY: body, **named}
            await self.application(inner, replay(body, receive), answer)
        except IncompleteBodyError as refusal:
            await answer.refuse(refusal, close=True)
        except Refusal as refusal:
            unread = receive if scope["method"] in WITH_BODY else None
            await answer.refuse(refusal, unread, close=unread is not None)
        except Exception as failure:  # the outermost frame of a request
            log_failure(failure, request_id=answer.request_id)
            if answer.started:
                raise
            await answer.refuse(InternalError())


class GateAnswer:
    """Sender of the answer; errors of other layers become problem documents."""

    def __init__(self, send: Send, *, request_id: str, head: bool) -> None:
        self.send = send
        self.request_id = request_id
        self.head = head
        self.started = False
        self._replaced = False
        #: Set by the operation: its name in counts, and headers of any answer.
        self.route = OTHER
        self.headers: list[tuple[bytes, bytes]] = []
        #: Code of the refusal, and status of the answer once it began, for spans.
        self.code, self.status = "", 0
        self._began = perf_counter()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            if message["status"] >= 400 and not _is_problem(message["headers"]):
                self._replaced = True
                await self._replace(message)
                return
            self._count(message["status"])
            await self.send(
                {**message, "headers": self._build_headers(message["headers"])}
            )
        elif not self._replaced:
            await self.send({**message, "body": b""} if self.head else message)

    async def refuse(
        self, refusal: Refusal, unread: Receive | None = None, *, close: bool = False
    ) -> None:
        """Answer with a refusal, and discard the `unread` rest of the body."""
        log.info("request.refused", request_id=self.request_id, code=refusal.code)
        extra = [_CLOSE] if close else []
        await self._send_problem(
            ProblemDocument.from_refusal(refusal), extra, more=unread is not None
        )
        if unread is not None:
            await discard_rest(unread)
            await self.send({"type": "http.response.body"})

    async def _replace(self, message: Message) -> None:
        kind = BY_STATUS.get(message["status"], InternalError)
        kept = [each for each in message["headers"] if each[0].lower() == b"allow"]
        await self._send_problem(ProblemDocument.from_refusal(kind()), kept)

    async def _send_problem(
        self,
        problem: ProblemDocument,
        extra: Iterable[tuple[bytes, bytes]],
        *,
        more: bool = False,
    ) -> None:
        self.started, self.code = True, problem.code
        body = problem.to_bytes(self.request_id)
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            *((n.encode(), v.encode()) for n, v in problem.headers.items()),
            *extra,
        ]
        self._count(problem.status)
        start = {"type": "http.response.start", "status": problem.status}
        await self.send({**start, "headers": self._build_headers(headers)})
        sent = b"" if self.head else body
        answer = {"type": "http.response.body", "body": sent}
        await self.send({**answer, "more_body": True} if more else answer)

    def _build_headers(self, headers: Iterable[tuple[bytes, bytes]]) -> list[Any]:
        kept = [each for each in headers if each[0].lower() not in _OURS]
        request_id = (b"x-request-id", self.request_id.encode())
        return [*kept, *self.headers, *_ALWAYS, request_id]

    def _count(self, status: int) -> None:
        # Counted as the answer begins: an event stream ends when its reader leaves.
        self.status = status
        requests.count(self.route, status, perf_counter() - self._began)


def check(scope: Scope) -> None:
    """Check the request line and the headers. Raises the first refusal."""
    check_size(scope)
    path, query = _get_address(scope)
    _check_host([value for name, value in scope["headers"] if name == b"host"])
    if b"mh_" in path or b"mh_" in query or b"%" in path or b"%" in query:
        _check_address(path, query)
    if not (path.isascii() and query.isascii()):
        raise EncodingError


def check_size(scope: Scope) -> None:
    """Raise HeadersTooLargeError or UriTooLongError beyond the limits of any path."""
    headers = scope["headers"]
    size = sum(len(name) + len(value) + 4 for name, value in headers)
    if size > HEADER_BYTES:
        raise HeadersTooLargeError(max_bytes=HEADER_BYTES)
    if len(headers) > HEADER_COUNT:
        raise HeadersTooLargeError(max_headers=HEADER_COUNT)
    if sum(map(len, _get_address(scope))) > URL_BYTES:
        raise UriTooLongError(max_bytes=URL_BYTES)


def _get_address(scope: Scope) -> tuple[bytes, bytes]:
    """Return path and query, escaped as sent."""
    # Some servers decode the path, or leave the query in it.
    path = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
    return path, scope.get("query_string", b"")


def _check_host(hosts: list[bytes]) -> None:
    if len(hosts) != 1 or not is_own_host(hosts[0]):
        raise HostError


def require_own_place(headers: dict[bytes, bytes]) -> None:
    """Raise HostError for a foreign host or origin: a page that rebinds DNS."""
    if not is_own_host(headers.get(b"host", b"")):
        raise HostError
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin and origin not in settings.ORIGINS:
        host = origin.partition("://")[2].encode("latin-1")
        if not is_own_host(host):
            raise HostError


def is_own_host(host: bytes) -> bool:
    """Return whether the host, with or without its port, is one of this server's.

    Names may have a `_`, like those of containers; Django's own parser refuses these.
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
        if api_keys.KEY_PATTERN.search(text):
            raise KeyInUrlError
    # An escaped slash is no separator, and only names of blocks contain slashes.
    if b"%2f" in _BLOCKS.sub(b"", path.lower()):
        raise NotFoundError


def check_content(scope: Scope) -> None:
    """Raise unless the headers declare plain JSON in UTF-8."""
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


def _get_declared_bytes(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """Read the body, at most one chunk beyond its cap.

    Raises BodyTooLargeError. A client that leaves or dawdles is an IncompleteBodyError.
    """
    cap = settings.BODY_BYTES
    if _get_declared_bytes(scope) > cap:
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


async def discard_rest(receive: Receive) -> None:
    """Discard what a client still sends, for a limited time."""
    size, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while more and size <= LINGER_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                more = message.get("more_body", False)


def log_failure(failure: BaseException, *, request_id: str) -> None:
    """Log a server error: its type and frames, never its text or variables."""
    frames = traceback.extract_tb(failure.__traceback__)
    log.error(
        "request.failed",
        request_id=request_id,
        code=type(failure).__name__,
        frames=[f"{each.filename}:{each.lineno} {each.name}" for each in frames[-8:]],
    )


def replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the read body once more, then the client's next
    message."""
    first = True

    async def receive_again() -> Message:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        while (message := await receive())["type"] == "http.request":
            pass  # a body on a method that has none
        return message

    return receive_again


def _is_problem(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(MEDIA_TYPE.encode())
        for name, value in headers
    )
