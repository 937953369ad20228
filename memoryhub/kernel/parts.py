"""What a noun declares of itself to the kernel: its commands and its events. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from memoryhub.kernel.commands import Command
from memoryhub.kernel.decision import Decision, Evolve, PageTable
from memoryhub.kernel.slices import Slice
from memoryhub.kernel.state.bodies import Event

Decide = Callable[[Decision, Any, PageTable], None]


class Capacity(NamedTuple):
    """How much of a noun a thread may hold, by a setting of it."""

    #: What holds where it is not set.
    default: int
    #: What it may be set to.
    most: int
    least: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Commands with what decides them, events with what folds them.

    From all parts together follow the tables of `registry`.
    """

    #: A closed thread refuses these.
    commands: Mapping[type[Command], Decide] = field(default_factory=dict)
    #: A closed thread takes these as well.
    upkeep: Mapping[type[Command], Decide] = field(default_factory=dict)
    #: Those of them that a subject's home thread takes; it refuses all others.
    home: frozenset[type[Command]] = frozenset()
    #: In the order in which they are listed.
    events: Mapping[type[Event], Evolve]
    #: What it keeps in working memory, checkpoints included.
    slice: Slice[Any] | None = None
    #: By the names of their settings.
    limits: Mapping[str, Capacity] = field(default_factory=dict)
