"""What commands on working memory have in common. Frozen values, checked already."""

from __future__ import annotations

from dataclasses import dataclass

from memoryhub.kernel.commands import Command


class MemoryCommand(Command):
    """Base of these commands."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The version that the sender saw, or that there must be none."""

    version: int | None = None
    absent: bool = False


ANY_VERSION = Expected()
