"""Unhealthy: everything that needs a look now, threads and the server in one list.

Never writes. What pages say of it, and how much they count, comes from here, so that
they agree. Threads are those that the worker has found; see `workers/unhealthy`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final
from uuid import UUID

import orjson

from memoryhub.models.projects import Project, ProjectStats
from memoryhub.models.threads import Thread
from memoryhub.queries.overview import checks
from memoryhub.queries.overview.checks import ServerCheck
from memoryhub.queries.overview.onsets import Onset
from memoryhub.queries.threads import verdicts
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.queries.threads.verdicts import Counters, ThreadVerdict, Tone
from memoryhub.vault.registry.lru import Lru

#: Threads of a project of which it is kept since when; of more the number alone. Of
#: those the worst are looked at once more.
KEPT: Final = 100
LOOKED: Final = 20
#: How long what the checks of the server found is believed where it is only counted.
BELIEVED_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnhealthyThing:
    """A thread over a threshold, or a check of the server that needs a look."""

    tone: Tone
    onset: Onset
    #: Either a thread with what is wrong with it, the worst first…
    thread: ThreadLine | None = None
    verdicts: tuple[ThreadVerdict, ...] = ()
    #: Fetches, lately.
    refused: int = 0
    #: …or a check.
    check: ServerCheck | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unhealthy:
    """What needs a look now, what is bad first."""

    things: tuple[UnhealthyThing, ...]
    #: Threads beyond those that are kept.
    more: int
    #: By flag, of how many threads it is said; of one thread more than one may be.
    counts: Mapping[str, int]
    checks: tuple[ServerCheck, ...]

    @property
    def count(self) -> int:
        return len(self.things) + self.more

    @property
    def looked_at(self) -> int:
        """Count the checks, whatever they found."""
        return len(verdicts.VERDICTS) + len(self.checks)

    @property
    def wrong_checks(self) -> int:
        return self.count - self.threads

    @property
    def guards(self) -> tuple[ServerCheck, ...]:
        """Return the checks of what guards the memory of people."""
        return tuple(each for each in self.checks if each.guards)

    @property
    def threads(self) -> int:
        return sum(each.thread is not None for each in self.things) + self.more


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectGlance:
    """What every page says of a project beside what it is about."""

    unhealthy: int
    open_threads: int


def get_unhealthy(
    project: Project, *, now: datetime, counted: bool = False
) -> Unhealthy:
    """Return all that needs a look.

    About two dozen small queries, whatever there is of threads; `counted`, all keys are
    counted by what they lie under.
    """
    threads, more, counts = _threads(project, now=now)
    looked = checks.list_checks(project, now=now, counted=counted)
    wrong = [
        UnhealthyThing(tone=tone, onset=Onset(each.since), check=each)
        for each in looked
        if (tone := each.tone)
    ]
    things = tuple(sorted([*threads, *wrong], key=_rank))
    _wrong_checks.put(project.id, (time.monotonic() + BELIEVED_SECONDS, len(wrong)))
    return Unhealthy(things=things, more=more, counts=counts, checks=looked)


def get_counts(project: Project, *, now: datetime) -> ProjectGlance:
    """Count what needs a look and the open threads, as they were last stored.

    One query by primary key; the checks of the server are looked at again once those
    of this process are older than `BELIEVED_SECONDS`.
    """
    until, wrong = _wrong_checks.get(project.id) or (0.0, 0)
    if until <= time.monotonic():
        wrong = sum(
            each.tone is not None for each in checks.list_checks(project, now=now)
        )
        _wrong_checks.put(project.id, (time.monotonic() + BELIEVED_SECONDS, wrong))
    rows = ProjectStats.objects.filter(project=project)
    counts = rows.values_list("unhealthy_threads", "open_threads").first() or (0, 0)
    return ProjectGlance(unhealthy=counts[0] + wrong, open_threads=counts[1])


def _rank(thing: UnhealthyThing) -> tuple[bool, bool, bool, datetime]:
    at = thing.onset.at
    long_ago = datetime.min.replace(tzinfo=UTC)
    return (thing.tone != "bad", thing.thread is None, at is None, at or long_ago)


def _threads(
    project: Project, *, now: datetime
) -> tuple[list[UnhealthyThing], int, Counter[str]]:
    """Threads as the worker found them, by their counters as they are. Four queries.

    One that has recovered meanwhile is left out, and is not counted either. What has
    moved since the worker looked is looked at here: no row that pages show says worse.
    """
    row = ProjectStats.objects.filter(project=project).first()
    onsets = kept_onsets(row) if row else {}
    kept = dict(islice(onsets.items(), LOOKED))
    if len(onsets) < KEPT:
        moved = Thread.objects.filter(project=project).order_by("-listed_at", "id")
        newest = moved.values_list("id", flat=True)[:LOOKED]
        kept |= {each: onsets.get(each, {}) for each in newest}
    counts = Counter[str](_kept(row)["counts"] if row else {})
    counts.subtract(flag for flags in kept.values() for flag in flags)
    counted = verdicts.refused_lately(now).filter(thread__in=[*kept])
    refused = {each["thread"]: each["refused"] for each in counted}
    things = []
    for thread in verdicts.unhealthy(now).filter(id__in=[*kept]):
        line, count = ThreadLine.of(thread), refused.get(thread.id, 0)
        found = verdicts.find(Counters.from_line(line, refused=count))
        if found:
            counts.update(each.flag for each in found)
            onset = kept[thread.id].get(found[0].flag, Onset())
            things.append(
                UnhealthyThing(
                    tone=found[0].tone,
                    onset=onset,
                    thread=line,
                    verdicts=found,
                    refused=count,
                )
            )
    stored = sum(each in onsets for each in kept)
    return things, max(0, (row.unhealthy_threads if row else 0) - stored), counts


def kept_onsets(row: ProjectStats) -> dict[UUID, dict[str, Onset]]:
    """Read the project's unhealthy threads, and since when each verdict holds."""
    return {
        UUID(each["thread"]): {
            flag: Onset(at and datetime.fromisoformat(at), turn)
            for flag, (at, turn) in each["flags"].items()
        }
        for each in _kept(row)["threads"]
    }


def get_onsets(project: UUID) -> dict[UUID, dict[str, Onset]]:
    """Read since when verdicts hold, of threads of which it is kept. One query."""
    row = ProjectStats.objects.filter(project=project).first()
    return kept_onsets(row) if row else {}


def _kept(row: ProjectStats) -> dict[str, Any]:
    """Read what the row keeps; of one that the worker has not seen yet, nothing."""
    kept = orjson.loads(row.unhealthy)
    return kept if isinstance(kept, dict) else {"threads": [], "counts": {}}


def as_text(
    threads: Mapping[UUID, Mapping[str, Onset]], counts: Mapping[str, int]
) -> str:
    """Word them, and of how many each flag is said, as the row keeps them."""
    plain = [
        {
            "thread": str(thread),
            "flags": {
                flag: [onset.at and onset.at.isoformat(), onset.turn]
                for flag, onset in flags.items()
            },
        }
        for thread, flags in threads.items()
    ]
    return orjson.dumps({"threads": plain, "counts": counts}).decode()


#: By project until when it is believed, and how many checks need a look.
_wrong_checks: Lru[UUID, tuple[float, int]] = Lru(1_000, name="health of projects")
