"""Faults of the server: damaged data, newer formats, unavailable parts."""

from __future__ import annotations

from typing import Literal

from memoryhub.errors.refusals import Refusal


class CorruptError(Refusal):
    """Stored bytes do not open or do not verify. Run the command `verify`."""

    code = "corrupt"


class SealBrokenError(CorruptError):
    """Sealed bytes do not open where they stand: damaged or moved."""


class NewerFormatError(Refusal):
    """A newer version of MemoryHub wrote this. Upgrade, then read it."""

    code = "newer_format"


class UnavailableError(Refusal):
    """A part the request needs is away; nothing was written. Try again."""

    code = "unavailable"

    #: Class of the cause, if a part answered and refused: a defect of the server.
    defect: str = ""


class QueueFullError(UnavailableError):
    """The writer's queue is full; nothing was written. Try again."""

    code = "queue_full"


class ClockSkewError(UnavailableError):
    """This process's clock is more than two seconds off; nothing was done.

    Ask another process. An operator: put the machine's clock right, then restart.
    """

    code = "clock_skew"


class KeyMissingError(UnavailableError):
    """A data key is absent though nobody destroyed it. Restore the keys database."""

    code = "key_missing"


class ColdStorageError(UnavailableError):
    """Cold storage, which holds this content, does not answer. Try again."""

    code = "cold_storage"


class StartRefusedError(Exception):
    """The server must not start like this; the message is one line without secrets."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


#: Reasons why a language model gave no answer, in words of the server.
NoAnswer = Literal[
    "unreachable", "timeout", "too_large", "refused", "busy", "no_answer"
]


class ModelError(Exception):
    """The model gave no answer; `reason` says why, and nothing else does."""

    def __init__(self, reason: NoAnswer, *, status: int | None = None) -> None:
        self.reason = reason
        self.status = status
        super().__init__(reason)
