"""Long-term memory: what an agent loads of a subject when it starts. Never writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from memoryhub.journal.rows import totals
from memoryhub.journal.rows.totals import Totals
from memoryhub.kernel.knowledge.facts import FactAsserted
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.episodes import episodes, pending
from memoryhub.queries.knowledge import blocks, facts
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.replay.instants import one_instant

#: Episodes that are loaded, newest first.
EPISODES: Final = 20
#: Facts that hold, those that began last.
FACTS: Final = 200


class Held(NamedTuple):
    """A subject as it is at an instant: what every part is read from."""

    subject: Subject
    #: None: it has neither blocks nor facts.
    home: Thread | None
    totals: Totals
    at: datetime


class Part(NamedTuple):
    """What is loaded of one kind, and how many of it there are."""

    items: Sequence[Any] = ()
    number: int = 0


def _blocks(held: Held) -> Part:
    if held.home is None:
        return Part()
    found = blocks.list_blocks(held.home)
    return Part(found, len(found))


def _facts(held: Held) -> Part:
    if held.home is None:
        return Part()
    return Part(*facts.list_newest(held.home, at=held.at, limit=FACTS))


def _episodes(held: Held) -> Part:
    found = episodes.list_episodes(held.subject, now=held.at, limit=EPISODES).items
    outcomes = pending.list_outcomes(held.subject, found)
    items = [*zip(found, outcomes, strict=True)]
    return Part(items, totals.number(held.totals, totals.EPISODES))


#: By name, how each is read. The subject comes with its project.
PARTS: Final[Mapping[str, Callable[[Held], Part]]] = MappingProxyType(
    {"blocks": _blocks, "facts": _facts, "episodes": _episodes}
)
#: What is counted, by name.
COUNTED: Final = (*PARTS, "assertions")


@dataclass(frozen=True, slots=True, kw_only=True)
class LongTermMemory:
    """What is known of a subject, all at one instant."""

    at: datetime
    #: By name, as in `PARTS`.
    parts: Mapping[str, Sequence[Any]]
    #: Of all there is, by the names of `COUNTED`.
    counts: Mapping[str, int]


def get_memory(subject: Subject, *, now: datetime) -> LongTermMemory:
    """Return what is known of a subject. Two queries, and those of its parts.

    None of these is made for each row.
    """
    with one_instant():
        held = Held(subject, find_home(subject), totals.get(subject.id), now)
        parts = {name: read(held) for name, read in PARTS.items()}
    asserted = held.totals.get(FactAsserted.event_type, totals.NOTHING)
    counts = {name: part.number for name, part in parts.items()}
    return LongTermMemory(
        at=now,
        parts={name: part.items for name, part in parts.items()},
        counts={**counts, "assertions": asserted.records - asserted.erased},
    )
