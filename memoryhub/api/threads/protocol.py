"""What is said on an agent's socket, and why one ends. Every message is one object."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Literal

import orjson
from django.db import DatabaseError, InterfaceError
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from memoryhub import errors
from memoryhub.api.document.fields import In, ThreadName
from memoryhub.api.threads.events import EventOut
from memoryhub.errors import Refusal
from memoryhub.kernel.text import strict_json
from memoryhub.kernel.text.strict_json import JsonRefusedError
from memoryhub.queries.replay import exact_json
from memoryhub.queries.threads.events import EventLine

MESSAGE_BYTES, MESSAGES_PER_SECOND = 64 * 1024, 20
HELLO_SECONDS, BEAT_SECONDS, LIFE_SECONDS = 5.0, 15.0, 3600.0
#: How long a revoked key goes on at most, beside what it is believed.
CHECK_SECONDS = 1.0
MAX_SOCKETS, MAX_FOLLOWED = 1000, 50


class Close(IntEnum):
    """Why the server ends a socket. A client comes back after 1012 and 1013."""

    TOO_BIG = 1009
    FAILED = 1011
    RESTART = 1012
    TRY_LATER = 1013
    BAD_MESSAGE = 4400
    UNAUTHORIZED = 4401
    FORBIDDEN = 4403
    NOT_FOUND = 4404
    SILENT = 4408
    ERASED = 4410
    TOO_MANY = 4429


#: What ends a socket, by what a request would be refused with.
CLOSES: dict[type[Exception], Close] = {
    errors.UnauthorizedError: Close.UNAUTHORIZED,
    errors.KeyInUrlError: Close.UNAUTHORIZED,
    errors.ScopeError: Close.FORBIDDEN,
    errors.SubjectRestrictedError: Close.FORBIDDEN,
    errors.NotFoundError: Close.NOT_FOUND,
    errors.ThreadErasedError: Close.ERASED,
    errors.SubjectErasedError: Close.ERASED,
    errors.ProjectDeletedError: Close.ERASED,
    errors.RateError: Close.TOO_MANY,
    errors.UnavailableError: Close.TRY_LATER,
    DatabaseError: Close.TRY_LATER,
    InterfaceError: Close.TRY_LATER,
    # A host, an address or headers that are none of ours.
    Refusal: Close.BAD_MESSAGE,
}


class EndError(Exception):
    """The socket can't go on; `code` says why. None: the peer has left."""

    def __init__(self, code: Close | None) -> None:
        self.code = code
        super().__init__(code.name if code else "left")


def close_of(failure: Exception) -> Close | None:
    """Return how the socket ends; None when there is nobody to tell."""
    if isinstance(failure, EndError):
        return failure.code
    kinds = [kind for kind in type(failure).__mro__ if kind in CLOSES]
    return CLOSES[kinds[0]] if kinds else Close.FAILED


# What an agent says


class _Message(In):
    model_config = ConfigDict(frozen=True)


class Hello(_Message):
    """The first message of who could not send its key with the handshake."""

    t: Literal["hello"]
    key: Annotated[str, Field(max_length=256)]


class Follow(_Message):
    """Send the thread's events after a seq. Said again, it starts anew."""

    t: Literal["follow"]
    thread: ThreadName
    after: Annotated[int, Field(ge=0)] = 0
    content: Literal["full", "none"] = "full"


class Unfollow(_Message):
    t: Literal["unfollow"]
    thread: ThreadName


ClientMessage = Hello | Follow | Unfollow
_MESSAGE: TypeAdapter[ClientMessage] = TypeAdapter(
    Annotated[ClientMessage, Field(discriminator="t")]
)


def parse(text: str) -> ClientMessage:
    """Parse an agent's message. Raises EndError: too big, or not a message of ours."""
    try:
        raw = text.encode()
        if len(raw) > MESSAGE_BYTES:
            raise EndError(Close.TOO_BIG)
        return _MESSAGE.validate_python(strict_json.parse(raw))
    except (JsonRefusedError, UnicodeEncodeError, ValidationError):
        raise EndError(Close.BAD_MESSAGE) from None


# What the server says

HELLO = orjson.dumps({"t": "hello", "v": 1})
BEAT = orjson.dumps({"t": "beat"})


def event(thread: str, line: EventLine) -> bytes:
    """Return an event as a stream has it, with the name of its thread."""
    message = {"t": "event", "thread": thread} | EventOut.model_validate(
        line
    ).model_dump()
    return exact_json.dumps(message)


def gone_message(thread: str, code: str) -> bytes:
    """Return the notice that the thread is followed no more; requests get this code."""
    return orjson.dumps({"t": "gone", "thread": thread, "code": code})
