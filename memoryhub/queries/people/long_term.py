"""Long-term memory: what an agent loads of a subject when it starts. Never writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from memoryhub.journal.rows import totals
from memoryhub.kernel.knowledge.facts import FactAsserted
from memoryhub.models.subjects import Subject
from memoryhub.queries.episodes import episodes
from memoryhub.queries.episodes.episodes import Episode
from memoryhub.queries.knowledge import facts
from memoryhub.queries.knowledge.facts import FactFilter, FactLine
from memoryhub.queries.replay.instants import one_instant

#: Episodes that are loaded, newest first.
EPISODES: Final = 20
#: Facts that hold, by timeline.
FACTS: Final = 200


def _episodes(subject: Subject, now: datetime) -> tuple[Episode, ...]:
    return episodes.list_episodes(subject, now=now, limit=EPISODES).items


def _facts(subject: Subject, now: datetime) -> tuple[FactLine, ...]:
    return facts.list_facts(subject, FactFilter(valid_at=now), limit=FACTS).items


#: By name: what it is at an instant. `subject` comes with its project.
PARTS: Final[Mapping[str, Callable[[Subject, datetime], Any]]] = MappingProxyType(
    {"facts": _facts, "episodes": _episodes}
)
#: By name: the total that says how many there are.
COUNTED: Final[Mapping[str, str]] = MappingProxyType(
    {"assertions": FactAsserted.event_type, "episodes": totals.EPISODES}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LongTermMemory:
    """What is known of a subject, all at one instant."""

    at: datetime
    #: By name, as in `PARTS`.
    parts: Mapping[str, Any]
    #: Of all there is, by name.
    counts: Mapping[str, int]


def get_memory(subject: Subject, *, now: datetime) -> LongTermMemory:
    """Return what is known of a subject. A query, and those of its parts."""
    with one_instant():
        kept = totals.get(subject.id)
        return LongTermMemory(
            at=now,
            parts={name: read(subject, now) for name, read in PARTS.items()},
            counts={name: totals.number(kept, kind) for name, kind in COUNTED.items()},
        )
