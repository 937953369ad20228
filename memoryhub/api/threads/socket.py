"""Sockets of agents: many threads followed at once, as a stream follows one.

A plain ASGI application. Whoever is refused hears why by a close code, after accepting;
Origin and cookies are not looked at, for what counts is the key.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import structlog

from memoryhub.api.http import auth, gate, limits, streams
from memoryhub.api.http.gate import Receive, Scope, Send
from memoryhub.api.http.reading import find_thread
from memoryhub.api.http.streams import Follower, Subscription
from memoryhub.api.threads import protocol
from memoryhub.api.threads.protocol import Close, EndError, Follow, Hello, Unfollow
from memoryhub.errors import (
    NotFoundError,
    Refusal,
    SubjectErasedError,
    SubjectRestrictedError,
    ThreadErasedError,
)
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent

#: Every address below is for agents; this is the one where there is something.
PREFIX, PATH = "/ws/v1/", "/ws/v1/agent"

#: What is refused of one thread says nothing of what else a socket follows.
_OF_A_THREAD = (
    NotFoundError,
    SubjectErasedError,
    SubjectRestrictedError,
    ThreadErasedError,
)

log = structlog.get_logger()


class Sockets:
    """Those of this process."""

    def __init__(self) -> None:
        self._ends: set[asyncio.Future[Close]] = set()

    @contextmanager
    def admitted(self) -> Iterator[asyncio.Future[Close]]:
        """Count a socket while it is open, and give what may end it from outside."""
        if len(self._ends) >= protocol.MAX_SOCKETS:
            raise EndError(Close.TRY_LATER)
        end: asyncio.Future[Close] = asyncio.get_running_loop().create_future()
        self._ends.add(end)
        try:
            yield end
        finally:
            self._ends.discard(end)

    def stop(self) -> None:
        """Send all away, to come back."""
        for end in self._ends:
            if not end.done():
                end.set_result(Close.RESTART)


#: The process's sockets of agents.
sockets = Sockets()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve every socket that agents open, also where there is none."""
    await receive()
    await send({"type": "websocket.accept"})
    try:
        await _serve(scope, Line(receive, send))
    except Exception as failure:  # the outermost frame of a socket
        code = protocol.close_of(failure)
        if code is None:
            return
        if code is Close.FAILED:
            log.error("socket.failed", exc_info=failure)
        else:
            log.info("socket.ended", code=int(code))
        # The peer may be gone before we have heard of it.
        with suppress(OSError, RuntimeError):
            await send({"type": "websocket.close", "code": int(code)})


async def _serve(scope: Scope, line: Line) -> NoReturn:
    """From the handshake to the end, whatever it is: an EndError or a Refusal."""
    if scope["path"] != PATH:
        raise EndError(Close.NOT_FOUND)
    gate.check(scope)
    if scope["query_string"]:
        raise EndError(Close.BAD_MESSAGE)
    address: str = (scope.get("client") or ("",))[0]
    with sockets.admitted() as end:
        shown = [value for name, value in scope["headers"] if name == b"authorization"]
        if shown:
            key = auth.bearer(b",".join(shown).decode("latin-1"))
        else:
            with limits.waiting(address):
                key = await _first_key(line)
        agent = await auth.greet(key, address=address)
        assert key is not None
        with limits.stream(agent):
            await line.send(protocol.HELLO)
            await Socket(line, agent, key=key).serve(end)


async def _first_key(line: Line) -> str | None:
    """The key of the first message; None if it is anything but a hello."""
    try:
        async with asyncio.timeout(protocol.HELLO_SECONDS):
            text = await line.receive()
        message = protocol.parse(text)
    except TimeoutError:
        raise EndError(Close.SILENT) from None
    except EndError as ended:
        if ended.code is Close.BAD_MESSAGE:
            return None
        raise
    return message.key if isinstance(message, Hello) else None


class Line:
    """What goes over a connection, one message at a time in either direction."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._heard: deque[float] = deque(maxlen=protocol.MESSAGES_PER_SECOND)
        self._spoken_at = 0.0

    async def receive(self) -> str:
        """Receive the next message.

        Raises EndError: too many, no text, or the peer left.
        """
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            raise EndError(None)
        now = time.monotonic()
        if len(self._heard) == self._heard.maxlen and now - self._heard[0] < 1.0:
            raise EndError(Close.TOO_MANY)
        self._heard.append(now)
        text = message.get("text")
        if text is None:
            raise EndError(Close.BAD_MESSAGE)
        return str(text)

    async def send(self, message: bytes) -> None:
        """Send, and return once the server takes it: a slow peer is waited for.

        One at a time, for all that wait would be let go at once. Raises EndError.
        """
        try:
            await self._send({"type": "websocket.send", "text": message.decode()})
        except OSError:
            # So servers say that the peer is gone.
            raise EndError(None) from None
        self._spoken_at = time.monotonic()

    @property
    def silent_seconds(self) -> float:
        return time.monotonic() - self._spoken_at


@dataclass(slots=True, kw_only=True, eq=False)
class Followed:
    """A thread, and how much of it was sent."""

    name: str
    content: bool
    after: int
    follower: Follower


class Socket:
    """A connection whose key is known: what it follows, and until when."""

    def __init__(self, line: Line, agent: Agent, *, key: str) -> None:
        self._line, self._agent, self._key = line, agent, key
        self._followed: dict[str, Followed] = {}
        #: Threads that can't be followed, and what a request would be refused with.
        self._gone: list[tuple[str, str]] = []
        self._bell = asyncio.Event()

    async def serve(self, end: asyncio.Future[Close]) -> NoReturn:
        """Serve until something ends it, and raise that."""
        works = (self._listen(), self._send_events(), self._stay())
        tasks: list[asyncio.Future[Any]] = [asyncio.create_task(each) for each in works]
        try:
            await asyncio.wait((*tasks, end), return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    await task
            raise EndError(end.result())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for name in list(self._followed):
                self._unfollow(name)

    async def _listen(self) -> NoReturn:
        while True:
            text = await self._line.receive()
            limits.charge(self._agent, len(text))
            message = protocol.parse(text)
            if isinstance(message, Follow):
                await self._follow(message)
            elif isinstance(message, Unfollow):
                self._unfollow(message.thread)
            else:
                raise EndError(Close.BAD_MESSAGE)

    async def _follow(self, wanted: Follow) -> None:
        """Look the thread up as a request would, and count it as one.

        One that can't be followed ends nothing: the peer is told, as of one that goes
        later.
        """
        limits.take_request(self._agent)
        auth.require(self._agent, auth.READ)
        name = wanted.thread
        self._unfollow(name)
        if len(self._followed) >= protocol.MAX_FOLLOWED:
            raise EndError(Close.BAD_MESSAGE)
        try:
            thread = await read(find_thread, self._agent, name)
        except _OF_A_THREAD as refusal:
            if len(self._gone) >= protocol.MAX_FOLLOWED:
                # It asks on, and takes no answer.
                raise EndError(Close.TOO_MANY) from None
            self._gone.append((name, refusal.code))
            self._bell.set()
            return
        follower = Follower(thread.id, self._bell)
        self._followed[name] = Followed(
            name=name,
            content=wanted.content == "full",
            after=wanted.after,
            follower=follower,
        )
        streams.lookout.join(follower)
        self._bell.set()

    def _unfollow(self, name: str) -> None:
        if followed := self._followed.pop(name, None):
            streams.lookout.leave(followed.follower)

    async def _send_events(self) -> NoReturn:
        """Send what there is, a part of each thread in turn, and a beat in silence.

        The only one who sends: what a slow peer has not taken is not read either.
        """
        while True:
            while self._gone:
                await self._line.send(protocol.gone_message(*self._gone.pop(0)))
            waiting = [each for each in self._followed.values() if each.follower.moved]
            for followed in waiting:
                await self._send_part(followed)
            left = protocol.BEAT_SECONDS - self._line.silent_seconds
            if left <= 0:
                await self._line.send(protocol.BEAT)
            elif not self._gone and not any(
                each.follower.moved for each in self._followed.values()
            ):
                await streams.rung(self._bell, seconds=left)

    async def _send_part(self, followed: Followed) -> None:
        # Before the read, so that what happens during it counts.
        followed.follower.moved = False
        subscription = Subscription(
            agent=self._agent, name=followed.name, content=followed.content
        )
        render = partial(protocol.event, followed.name)
        try:
            part = await read(
                streams.next_part, subscription, followed.after, render=render
            )
        except Refusal as refusal:
            if self._follows(followed):
                self._unfollow(followed.name)
                await self._line.send(
                    protocol.gone_message(followed.name, refusal.code)
                )
            return
        for seq, message in part.chunks:
            if not self._follows(followed):
                return
            limits.charge(self._agent, len(message))
            await self._line.send(message)
            followed.after = seq
            if followed.follower.moved:
                # Perhaps it was erased while the peer was slow: read the rest again.
                return
        followed.follower.moved |= part.more

    def _follows(self, followed: Followed) -> bool:
        """Not since left, nor begun anew."""
        return self._followed.get(followed.name) is followed

    async def _stay(self) -> NoReturn:
        """Until the key is gone or the hour is over."""
        until = time.monotonic() + protocol.LIFE_SECONDS
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, protocol.CHECK_SECONDS))
            agent = await auth.believed(self._key)
            if agent is None:
                raise EndError(Close.UNAUTHORIZED)
            if agent.gone:
                raise EndError(Close.ERASED)
            self._agent = agent
        # Even a socket that is never closed shows its key now and then.
        raise EndError(Close.RESTART)
