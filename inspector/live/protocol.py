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


class Close(IntEnum):
    """Why the server ends a socket. A browser comes back after the 1012 and 1013."""

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


class RefusedError(Exception):
    """The socket can't go on; `code` says why."""

    def __init__(self, code: Close) -> None:
        self.code = code
        super().__init__(code.name)


# What a page says


def _pushed(name: str) -> str:
    if name not in moments.PUSHED:
        raise ValueError("no such panel")
    return name


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Want(_Message):
    """Want panels of a thread; `seq` is what the page shows of them."""

    thread: UUID
    panels: Annotated[
        list[Annotated[str, AfterValidator(_pushed)]],
        Field(min_length=1, max_length=12),
    ]
    seq: Annotated[int, Field(ge=0, lt=2**63)]


class Hello(_Message):
    """Say what the page wants: first of all, and whenever that has changed."""

    t: Literal["hello"]
    v: Literal[1]
    build: Annotated[str, Field(max_length=64)]
    #: The page lists threads and would hear of new ones.
    fresh: bool = False
    want: Annotated[list[Want], Field(max_length=50)]


class Ack(_Message):
    """Say that the page has painted push `n`."""

    t: Literal["ack"]
    n: Annotated[int, Field(ge=0, lt=2**63)]


_SPOKEN: TypeAdapter[Hello | Ack] = TypeAdapter(
    Annotated[Hello | Ack, Field(discriminator="t")]
)


def parse(text: str | None) -> Hello | Ack:
    """Parse a page's message. Raises RefusedError: too big, or not one of ours."""
    if text is None:
        raise RefusedError(Close.BAD_MESSAGE)
    size = len(text.encode())
    if size > HELLO_BYTES:
        raise RefusedError(Close.TOO_BIG)
    try:
        spoken = _SPOKEN.validate_json(text)
    except ValidationError:
        # What claims to be a hello may be long, and is then judged by what it says.
        too_big = size > OTHER_BYTES and '"hello"' not in text
        raise RefusedError(Close.TOO_BIG if too_big else Close.BAD_MESSAGE) from None
    if size > OTHER_BYTES and not isinstance(spoken, Hello):
        raise RefusedError(Close.TOO_BIG)
    return spoken


# What the server says


def hello(*, mode: str, heads: Mapping[UUID, int]) -> str:
    return _json(
        {"t": "hello", "v": 1, "build": inspector.BUILD, "mode": mode}
        | {"heads": _plain(heads)}
    )


def beat(*, mode: str, heads: Mapping[UUID, int], fresh: int) -> str:
    """Word that the server is there, and how far the page's threads are."""
    at = clock.now().isoformat(timespec="seconds")
    message = {"t": "beat", "at": at, "mode": mode, "fresh": fresh}
    return _json(message | {"heads": _plain(heads)})


def resync(why: Literal["behind", "format", "build"]) -> str:
    """Word that pushes don't lead to the truth from here: fetch it."""
    return _json({"t": "resync", "why": why})


def gone(thread: UUID, code: str, proof: Mapping[str, object]) -> str:
    """Word that a thread's content must go; `proof` names erasure and receipt."""
    return _json({"t": "gone", "thread": str(thread), "code": code, **proof})


def mark(n: int, *, fresh: int) -> str:
    """Word what a push begins with; its number goes back in the ack."""
    return format_html(
        '<output id="live-mark" data-n="{}" data-fresh="{}" hidden></output>', n, fresh
    )


def _plain(heads: Mapping[UUID, int]) -> dict[str, int]:
    return {str(thread): seq for thread, seq in heads.items()}


def _json(message: Mapping[str, object]) -> str:
    return orjson.dumps(message).decode()
