"""Declaration of a noun to the kernel: its commands and its events. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from memoryhub.kernel.commands import Command
from memoryhub.kernel.decision import Decision, Evolve, PageTable
from memoryhub.kernel.slices import Slice
from memoryhub.kernel.state.bodies import EventBody

Decide = Callable[[Decision, Any, PageTable], None]


class Capacity(NamedTuple):
    """Bounds of the thread setting that limits a noun."""

    #: Limit of a thread that does not set it.
    default: int
    #: Largest and smallest value of the setting.
    most: int
    least: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPart:
    """Commands of a noun with their deciders, and events with their folds.

    The tables of `registry` are built from all parts.
    """

    #: Deciders of the commands that a closed thread refuses.
    commands: Mapping[type[Command], Decide] = field(default_factory=dict)
    #: Deciders of the commands that a closed thread takes as well.
    upkeep: Mapping[type[Command], Decide] = field(default_factory=dict)
    #: Commands that a subject's home thread takes; a home thread refuses all others.
    home: frozenset[type[Command]] = frozenset()
    #: Folds of the events, in the order of documents.
    events: Mapping[type[EventBody], Evolve]
    #: Slice that the noun keeps in working memory, checkpoints included.
    slice: Slice[Any] | None = None
    #: Capacities by the names of their settings.
    limits: Mapping[str, Capacity] = field(default_factory=dict)
