"""Messages and close codes of an agent's socket. Every message is one JSON object."""

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
from memoryhub.queries.threads.events import ThreadEventLine

MESSAGE_BYTES, MESSAGES_PER_SECOND = 64 * 1024, 20
HELLO_SECONDS, BEAT_SECONDS, LIFE_SECONDS = 5.0, 15.0, 3600.0
#: Seconds between key checks of an open socket; the key cache adds its own delay.
CHECK_SECONDS = 1.0
MAX_SOCKETS, MAX_FOLLOWED = 1000, 50


class CloseCode(IntEnum):
    """Close code of a socket. A client reconnects after 1012 and 1013."""

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


#: Close code by the refusal that a request would get.
CLOSES: dict[type[Exception], CloseCode] = {
    errors.UnauthorizedError: CloseCode.UNAUTHORIZED,
    errors.KeyInUrlError: CloseCode.UNAUTHORIZED,
    errors.ScopeError: CloseCode.FORBIDDEN,
    errors.SubjectRestrictedError: CloseCode.FORBIDDEN,
    errors.NotFoundError: CloseCode.NOT_FOUND,
    errors.ThreadErasedError: CloseCode.ERASED,
    errors.SubjectErasedError: CloseCode.ERASED,
    errors.ProjectDeletedError: CloseCode.ERASED,
    errors.RateError: CloseCode.TOO_MANY,
    errors.UnavailableError: CloseCode.TRY_LATER,
    DatabaseError: CloseCode.TRY_LATER,
    InterfaceError: CloseCode.TRY_LATER,
    # A host, an address or headers that are none of ours.
    Refusal: CloseCode.BAD_MESSAGE,
}


class EndError(Exception):
    """The end of a socket; `code` says why, None means that the peer has left."""

    def __init__(self, code: CloseCode | None) -> None:
        self.code = code
        super().__init__(code.name if code else "left")


def get_close_code(failure: Exception) -> CloseCode | None:
    """Return the close code of a failure; None if the peer has left."""
    if isinstance(failure, EndError):
        return failure.code
    kinds = [kind for kind in type(failure).__mro__ if kind in CLOSES]
    return CLOSES[kinds[0]] if kinds else CloseCode.FAILED


# Messages of agents


class _AgentMessage(In):
    model_config = ConfigDict(frozen=True)


class Hello(_AgentMessage):
    """First message of a client that could not send its key in the handshake."""

    t: Literal["hello"]
    key: Annotated[str, Field(max_length=256)]


class Follow(_AgentMessage):
    """Request for a thread's events after a seq. A repeat starts anew."""

    t: Literal["follow"]
    thread: ThreadName
    after: Annotated[int, Field(ge=0)] = 0
    content: Literal["full", "none"] = "full"


class Unfollow(_AgentMessage):
    t: Literal["unfollow"]
    thread: ThreadName


ClientMessage = Hello | Follow | Unfollow
_MESSAGE: TypeAdapter[ClientMessage] = TypeAdapter(
    Annotated[ClientMessage, Field(discriminator="t")]
)


def parse(text: str) -> ClientMessage:
    """Parse an agent's message. Raises EndError if too big or not a message of ours."""
    try:
        raw = text.encode()
        if len(raw) > MESSAGE_BYTES:
            raise EndError(CloseCode.TOO_BIG)
        return _MESSAGE.validate_python(strict_json.parse(raw))
    except (JsonRefusedError, UnicodeEncodeError, ValidationError):
        raise EndError(CloseCode.BAD_MESSAGE) from None


# Messages of the server

HELLO = orjson.dumps({"t": "hello", "v": 1})
BEAT = orjson.dumps({"t": "beat"})


def render_event(thread: str, line: ThreadEventLine) -> bytes:
    """Render an event as in a stream, with the name of its thread."""
    message = {"t": "event", "thread": thread} | EventOut.model_validate(
        line
    ).model_dump()
    return exact_json.dump_json(message)


def render_gone(thread: str, code: str) -> bytes:
    """Render the notice that a thread is no longer followed, with a request's error
    code."""
    return orjson.dumps({"t": "gone", "thread": thread, "code": code})
