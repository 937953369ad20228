"""Base of the commands on working memory. Frozen, validated values."""

from __future__ import annotations

from dataclasses import dataclass

from memoryhub.kernel.commands import Command


class MemoryCommand(Command):
    """Base of the commands on working memory."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Precondition of a command: the version that the sender saw, or absence."""

    version: int | None = None
    absent: bool = False


ANY_VERSION = Expected()
