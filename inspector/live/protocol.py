from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Literal
from uuid import UUID

import orjson
from django.utils.html import format_html
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

import inspector
from inspector.replay import moments
from memoryhub.models.server.clock import clock

HELLO_BYTES, OTHER_BYTES = 16 * 1024, 1024
MESSAGES_PER_SECOND = 20
HELLO_SECONDS, LIFE_SECONDS = 5.0, 3600.0
MAX_SOCKETS, MAX_SOCKETS_PER_SESSION = 1000, 50


class LiveCloseCode(IntEnum):
    """Close codes of the server. A browser reconnects after 1012 and 1013."""

    TOO_BIG = 1009
    RESTART = 1012
    TRY_LATER = 1013
    BAD_MESSAGE = 4400
    SIGNED_OUT = 4401
    FORBIDDEN = 4403
    NOT_FOUND = 4404
    SILENT = 4408
    ERASED = 4410
    TOO_MANY = 4429


class SocketRefusedError(Exception):
    """Refusal to go on with a socket; `code` is the close code."""

    def __init__(self, code: LiveCloseCode) -> None:
        self.code = code
        super().__init__(code.name)


# Messages of a page


def _require_pushed(name: str) -> str:
    if name not in moments.PUSHED:
        raise ValueError("no such panel")
    return name


class _LiveMessage(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PanelWant(_LiveMessage):
    """Panels of a thread that a page wants; `seq` is the event the page shows."""

    thread: UUID
    panels: Annotated[
        list[Annotated[str, AfterValidator(_require_pushed)]],
        Field(min_length=1, max_length=12),
    ]
    seq: Annotated[int, Field(ge=0, lt=2**63)]


class LiveHello(_LiveMessage):
    """A page's wanted panels: its first message, sent again after each change."""

    t: Literal["hello"]
    v: Literal[1]
    build: Annotated[str, Field(max_length=64)]
    #: The page lists threads and wants to hear of new threads.
    fresh: bool = False
    #: The page's view for the audit log, as the page was given it.
    view: Annotated[str, Field(max_length=100)] = ""
    want: Annotated[list[PanelWant], Field(max_length=50)]


class PushAck(_LiveMessage):
    """Acknowledgement that the page has painted push `n`."""

    t: Literal["ack"]
    n: Annotated[int, Field(ge=0, lt=2**63)]


_PAGE_MESSAGES: TypeAdapter[LiveHello | PushAck] = TypeAdapter(
    Annotated[LiveHello | PushAck, Field(discriminator="t")]
)


def parse(text: str | None) -> LiveHello | PushAck:
    """Parse a page's message. Raises SocketRefusedError if too big or bad."""
    if text is None:
        raise SocketRefusedError(LiveCloseCode.BAD_MESSAGE)
    size = len(text.encode())
    if size > HELLO_BYTES:
        raise SocketRefusedError(LiveCloseCode.TOO_BIG)
    try:
        spoken = _PAGE_MESSAGES.validate_json(text)
    except ValidationError:
        # A text with "hello" may be long, and is refused for its content.
        too_big = size > OTHER_BYTES and '"hello"' not in text
        raise SocketRefusedError(
            LiveCloseCode.TOO_BIG if too_big else LiveCloseCode.BAD_MESSAGE
        ) from None
    if size > OTHER_BYTES and not isinstance(spoken, LiveHello):
        raise SocketRefusedError(LiveCloseCode.TOO_BIG)
    return spoken


# Messages of the server


def build_hello(*, mode: str, heads: Mapping[UUID, int]) -> str:
    return _to_json(
        {"t": "hello", "v": 1, "build": inspector.BUILD, "mode": mode}
        | {"heads": _to_plain(heads)}
    )


def build_beat(*, mode: str, heads: Mapping[UUID, int], fresh: int) -> str:
    """Build a beat: the server is there, with the heads of the page's threads."""
    at = clock.now().isoformat(timespec="seconds")
    message = {"t": "beat", "at": at, "mode": mode, "fresh": fresh}
    return _to_json(message | {"heads": _to_plain(heads)})


def build_resync(why: Literal["behind", "format", "build"]) -> str:
    """Build a request to fetch the page again, since pushes cannot correct it."""
    return _to_json({"t": "resync", "why": why})


def build_gone(thread: UUID, code: str, proof: Mapping[str, object]) -> str:
    """Build an order to remove a thread's content; `proof` has erasure and receipt."""
    return _to_json({"t": "gone", "thread": str(thread), "code": code, **proof})


def render_mark(n: int, *, fresh: int) -> str:
    """Render the mark that starts a push; the page acks with its number."""
    return format_html(
        '<output id="live-mark" data-n="{}" data-fresh="{}" hidden></output>', n, fresh
    )


def _to_plain(heads: Mapping[UUID, int]) -> dict[str, int]:
    return {str(thread): seq for thread, seq in heads.items()}


def _to_json(message: Mapping[str, object]) -> str:
    return orjson.dumps(message).decode()
