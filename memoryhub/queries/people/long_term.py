"""Long-term memory of a subject, which an agent loads at its start. Never writes."""

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
from memoryhub.queries.replay.instants import read_at_one_instant

#: Most episodes loaded, newest first.
EPISODES: Final = 20
#: Most facts loaded, newest first.
FACTS: Final = 200


class SubjectMoment(NamedTuple):
    """A subject at one instant, from which every part is read."""

    subject: Subject
    #: None: the subject has neither blocks nor facts.
    home: Thread | None
    totals: Totals
    at: datetime


class MemoryPart(NamedTuple):
    """Loaded items of one kind, and the number of all items of the kind."""

    items: Sequence[Any] = ()
    number: int = 0


def _list_blocks(held: SubjectMoment) -> MemoryPart:
    if held.home is None:
        return MemoryPart()
    found = blocks.list_blocks(held.home)
    return MemoryPart(found, len(found))


def _list_facts(held: SubjectMoment) -> MemoryPart:
    if held.home is None:
        return MemoryPart()
    return MemoryPart(*facts.list_newest(held.home, at=held.at, limit=FACTS))


def _list_episodes(held: SubjectMoment) -> MemoryPart:
    found = episodes.list_episodes(held.subject, now=held.at, limit=EPISODES).items
    outcomes = pending.list_outcomes(held.subject, found)
    items = [*zip(found, outcomes, strict=True)]
    return MemoryPart(items, totals.count_records(held.totals, totals.EPISODES))


#: Readers of parts, by name. The subject comes with its project.
PARTS: Final[Mapping[str, Callable[[SubjectMoment], MemoryPart]]] = MappingProxyType(
    {"blocks": _list_blocks, "facts": _list_facts, "episodes": _list_episodes}
)
#: Names of the counts.
COUNTED: Final = (*PARTS, "assertions")


@dataclass(frozen=True, slots=True, kw_only=True)
class LongTermMemory:
    """Long-term memory of a subject, all at one instant."""

    at: datetime
    #: By name, as in `PARTS`.
    parts: Mapping[str, Sequence[Any]]
    #: Counts of all items, by the names of `COUNTED`.
    counts: Mapping[str, int]


def get_memory(subject: Subject, *, now: datetime) -> LongTermMemory:
    """Return a subject's long-term memory. Two queries, and those of its parts.

    No query is made for each row.
    """
    with read_at_one_instant():
        held = SubjectMoment(subject, find_home(subject), totals.get(subject.id), now)
        parts = {name: read(held) for name, read in PARTS.items()}
    asserted = held.totals.get(FactAsserted.event_type, totals.NOTHING)
    counts = {name: part.number for name, part in parts.items()}
    return LongTermMemory(
        at=now,
        parts={name: part.items for name, part in parts.items()},
        counts={**counts, "assertions": asserted.records - asserted.erased},
    )
