"""What a noun declares of itself to the kernel: its commands and its events. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from memoryhub.kernel.commands import Command
from memoryhub.kernel.decision import Decision, Evolve, PageTable
from memoryhub.kernel.slices import Slice
from memoryhub.kernel.state.bodies import Event

Decide = Callable[[Decision, Any, PageTable], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Commands with what decides them, events with what folds them.

    From all parts together follow the tables of `registry`.
    """

    #: A closed thread refuses these.
    commands: Mapping[type[Command], Decide] = field(default_factory=dict)
    #: A closed thread takes these as well.
    upkeep: Mapping[type[Command], Decide] = field(default_factory=dict)
    #: In the order in which they are listed.
    events: Mapping[type[Event], Evolve]
    #: What it keeps in working memory, checkpoints included.
    slice: Slice[Any] | None = None
    #: Settings of a thread that bound it, and what holds where they are not set.
    limits: Mapping[str, int] = field(default_factory=dict)
