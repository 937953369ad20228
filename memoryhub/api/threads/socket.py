"""Sockets of agents: each follows many threads, as a stream follows one.

A plain ASGI application. A refused client gets a close code after the accept. Origin
and cookies are ignored, since only the key authenticates.
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
from memoryhub.api.http.reading import get_agent_thread
from memoryhub.api.http.streams import Follower, Subscription
from memoryhub.api.threads import protocol
from memoryhub.api.threads.protocol import CloseCode, EndError, Follow, Hello, Unfollow
from memoryhub.errors import (
    NotFoundError,
    Refusal,
    SubjectErasedError,
    SubjectRestrictedError,
    ThreadErasedError,
)
from memoryhub.queries.threads.readers import read
from memoryhub.services.access.api_keys import Agent

#: Prefix of all agent sockets, and the only path that is served.
PREFIX, PATH = "/ws/v1/", "/ws/v1/agent"

#: Refusals that concern one thread and leave the socket open.
_THREAD_REFUSALS = (
    NotFoundError,
    SubjectErasedError,
    SubjectRestrictedError,
    ThreadErasedError,
)

log = structlog.get_logger()


class AgentSockets:
    """The open agent sockets of this process."""

    def __init__(self) -> None:
        self._ends: set[asyncio.Future[CloseCode]] = set()

    @property
    def count(self) -> int:
        """Number of open sockets."""
        return len(self._ends)

    @contextmanager
    def admit(self) -> Iterator[asyncio.Future[CloseCode]]:
        """Count a socket while it is open; yield the future that can end it."""
        if len(self._ends) >= protocol.MAX_SOCKETS:
            raise EndError(CloseCode.TRY_LATER)
        end: asyncio.Future[CloseCode] = asyncio.get_running_loop().create_future()
        self._ends.add(end)
        try:
            yield end
        finally:
            self._ends.discard(end)

    def stop(self) -> None:
        """End all sockets with a code that asks clients to reconnect."""
        for end in self._ends:
            if not end.done():
                end.set_result(CloseCode.RESTART)


#: The only registry of agent sockets in this process.
sockets = AgentSockets()


async def serve_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve every socket that agents open, unknown paths included."""
    await receive()
    await send({"type": "websocket.accept"})
    try:
        await _serve_connection(scope, SocketLine(receive, send))
    except Exception as failure:  # the outermost frame of a socket
        code = protocol.get_close_code(failure)
        if code is None:
            return
        if code is CloseCode.FAILED:
            log.error("socket.failed", exc_info=failure)
        else:
            log.info("socket.ended", code=int(code))
        # The peer may have left without a message to us.
        with suppress(OSError, RuntimeError):
            await send({"type": "websocket.close", "code": int(code)})


async def _serve_connection(scope: Scope, line: SocketLine) -> NoReturn:
    """Serve a socket from the handshake to its end, an EndError or a Refusal."""
    if scope["path"] != PATH:
        raise EndError(CloseCode.NOT_FOUND)
    gate.check(scope)
    if scope["query_string"]:
        raise EndError(CloseCode.BAD_MESSAGE)
    address: str = (scope.get("client") or ("",))[0]
    with sockets.admit() as end:
        shown = [value for name, value in scope["headers"] if name == b"authorization"]
        if shown:
            key = auth.parse_bearer(b",".join(shown).decode("latin-1"))
        else:
            with limits.hold_waiting_socket(address):
                key = await _receive_key(line)
        agent = await auth.greet(key, address=address)
        assert key is not None
        named = dict(scope["headers"]).get(auth.PERSON_HEADER_LOWER)
        person = auth.decode_person(named)
        agent = await auth.confine(agent, person)
        with limits.hold_stream(agent):
            await line.send(protocol.HELLO)
            await Socket(line, agent, key=key, person=person).serve(end)


async def _receive_key(line: SocketLine) -> str | None:
    """Receive the key in the first message; None if the message is not a hello."""
    try:
        async with asyncio.timeout(protocol.HELLO_SECONDS):
            text = await line.receive()
        message = protocol.parse(text)
    except TimeoutError:
        raise EndError(CloseCode.SILENT) from None
    except EndError as ended:
        if ended.code is CloseCode.BAD_MESSAGE:
            return None
        raise
    return message.key if isinstance(message, Hello) else None


class SocketLine:
    """The messages of a connection, one at a time in either direction."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._heard: deque[float] = deque(maxlen=protocol.MESSAGES_PER_SECOND)
        self._spoken_at = 0.0

    async def receive(self) -> str:
        """Receive the next message.

        Raises EndError for too many messages, a message without text, or a peer that
        left.
        """
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            raise EndError(None)
        now = time.monotonic()
        if len(self._heard) == self._heard.maxlen and now - self._heard[0] < 1.0:
            raise EndError(CloseCode.TOO_MANY)
        self._heard.append(now)
        text = message.get("text")
        if text is None:
            raise EndError(CloseCode.BAD_MESSAGE)
        return str(text)

    async def send(self, message: bytes) -> None:
        """Send a message and return once the server takes it, so a slow peer is waited
        for.

        Only one task may send: the server would release all waiting sends at once.
        Raises EndError.
        """
        try:
            await self._send({"type": "websocket.send", "text": message.decode()})
        except OSError:
            # Servers raise OSError when the peer has left.
            raise EndError(None) from None
        self._spoken_at = time.monotonic()

    @property
    def silent_seconds(self) -> float:
        return time.monotonic() - self._spoken_at


@dataclass(slots=True, kw_only=True, eq=False)
class FollowedThread:
    """A followed thread, and the seq up to which events were sent."""

    name: str
    content: bool
    after: int
    follower: Follower


class Socket:
    """A connection with a known key, and the threads that it follows."""

    def __init__(
        self, line: SocketLine, agent: Agent, *, key: str, person: str | None
    ) -> None:
        self._line, self._agent, self._key = line, agent, key
        self._person = person
        self._followed: dict[str, FollowedThread] = {}
        #: Names of threads that cannot be followed, with the code of the refusal.
        self._gone: list[tuple[str, str]] = []
        self._bell = asyncio.Event()

    async def serve(self, end: asyncio.Future[CloseCode]) -> NoReturn:
        """Serve until the socket ends; raise the reason."""
        works = (self._listen(), self._send_events(), self._wait_for_end())
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
                raise EndError(CloseCode.BAD_MESSAGE)

    async def _follow(self, wanted: Follow) -> None:
        """Look a thread up like a request and count the look-up as a request.

        A thread that cannot be followed does not end the socket: the peer gets a `gone`
        message, as it does when a followed thread goes later.
        """
        limits.take_request(self._agent)
        auth.require(self._agent, auth.READ)
        name = wanted.thread
        self._unfollow(name)
        if len(self._followed) >= protocol.MAX_FOLLOWED:
            raise EndError(CloseCode.BAD_MESSAGE)
        try:
            thread = await read(get_agent_thread, self._agent, name)
        except _THREAD_REFUSALS as refusal:
            if len(self._gone) >= protocol.MAX_FOLLOWED:
                # The peer keeps asking and does not read the answers.
                raise EndError(CloseCode.TOO_MANY) from None
            self._gone.append((name, refusal.code))
            self._bell.set()
            return
        follower = Follower(thread.id, self._bell)
        self._followed[name] = FollowedThread(
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
        """Send new events, a part of each thread in turn, and a beat after silence.

        This task is the only sender, so the server does not read ahead of a slow peer.
        """
        while True:
            while self._gone:
                await self._line.send(protocol.render_gone(*self._gone.pop(0)))
            waiting = [each for each in self._followed.values() if each.follower.moved]
            for followed in waiting:
                await self._send_part(followed)
            left = protocol.BEAT_SECONDS - self._line.silent_seconds
            if left <= 0:
                await self._line.send(protocol.BEAT)
            elif not self._gone and not any(
                each.follower.moved for each in self._followed.values()
            ):
                await streams.wait_for_bell(self._bell, seconds=left)

    async def _send_part(self, followed: FollowedThread) -> None:
        # Cleared before the read, so that a change during the read counts.
        followed.follower.moved = False
        subscription = Subscription(
            agent=self._agent, name=followed.name, content=followed.content
        )
        render = partial(protocol.render_event, followed.name)
        try:
            part = await read(
                streams.read_next_part, subscription, followed.after, render=render
            )
        except Refusal as refusal:
            if self._is_following(followed):
                self._unfollow(followed.name)
                await self._line.send(protocol.render_gone(followed.name, refusal.code))
            return
        for seq, message in part.chunks:
            if not self._is_following(followed):
                return
            limits.charge(self._agent, len(message))
            await self._line.send(message)
            followed.after = seq
            if followed.follower.moved:
                # The thread may have been erased while the peer was slow: read again.
                return
        followed.follower.moved |= part.more

    def _is_following(self, followed: FollowedThread) -> bool:
        """Return whether this is still the current follow of the thread."""
        return self._followed.get(followed.name) is followed

    async def _wait_for_end(self) -> NoReturn:
        """Wait until the key is void or the hour is over, and raise EndError."""
        until = time.monotonic() + protocol.LIFE_SECONDS
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, protocol.CHECK_SECONDS))
            agent = await auth.find_holder(self._key)
            if agent is None:
                raise EndError(CloseCode.UNAUTHORIZED)
            if agent.gone:
                raise EndError(CloseCode.ERASED)
            self._agent = await auth.confine(agent, self._person)
        # After an hour every client has to show its key again.
        raise EndError(CloseCode.RESTART)
