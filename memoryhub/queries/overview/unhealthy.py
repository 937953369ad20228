"""Unhealthy threads and checks of the server that need a look now, in one list.

Never writes. All pages take the list and its count from here, so that pages agree. The
worker finds the threads; see `workers/unhealthy`.
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
from memoryhub.queries.overview.onsets import VerdictOnset
from memoryhub.queries.threads import verdicts
from memoryhub.queries.threads.threads import ThreadLine
from memoryhub.queries.threads.thresholds import Thresholds
from memoryhub.queries.threads.verdicts import ThreadVerdict, Tone, VerdictCounters
from memoryhub.vault.registry.lru import Lru

#: Threads of a project that are stored with their onsets; further threads are only
#: counted. Reads check the worst LOOKED of the stored threads again.
KEPT: Final = 100
LOOKED: Final = 20
#: How long a count of the server's failed checks is cached, in seconds.
BELIEVED_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnhealthyItem:
    """A thread over a threshold, or a check of the server that needs a look."""

    tone: Tone
    onset: VerdictOnset
    #: Either a thread with its verdicts, the worst first…
    thread: ThreadLine | None = None
    verdicts: tuple[ThreadVerdict, ...] = ()
    #: Fetches refused lately.
    refused: int = 0
    #: …or a check.
    check: ServerCheck | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unhealthy:
    """Threads and checks that need a look now, bad ones first."""

    things: tuple[UnhealthyItem, ...]
    #: Number of threads beyond the stored threads.
    more: int
    #: Number of threads by flag; a thread may have several flags.
    counts: Mapping[str, int]
    checks: tuple[ServerCheck, ...]

    @property
    def count(self) -> int:
        return len(self.things) + self.more

    @property
    def looked_at(self) -> int:
        """Number of verdicts and checks that were looked at, well or not."""
        return len(verdicts.VERDICTS) + len(self.checks)

    @property
    def wrong_checks(self) -> int:
        return self.count - self.threads

    @property
    def guards(self) -> tuple[ServerCheck, ...]:
        """Return the checks of privacy."""
        return tuple(each for each in self.checks if each.guards)

    @property
    def threads(self) -> int:
        return sum(each.thread is not None for each in self.things) + self.more


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectGlance:
    """Counts of a project that every page shows."""

    unhealthy: int
    open_threads: int


def get_unhealthy(
    project: Project, *, now: datetime, counted: bool = False
) -> Unhealthy:
    """Return all threads and checks that need a look.

    About two dozen small queries, for any number of threads; with `counted`, a count of
    all keys under each KEK, too.
    """
    threads, more, counts = _list_threads(project, now=now)
    looked = checks.list_checks(project, now=now, counted=counted)
    wrong = [
        UnhealthyItem(tone=tone, onset=VerdictOnset(each.since), check=each)
        for each in looked
        if (tone := each.tone)
    ]
    things = tuple(sorted([*threads, *wrong], key=_rank_item))
    _wrong_checks.put(project.id, (time.monotonic() + BELIEVED_SECONDS, len(wrong)))
    return Unhealthy(things=things, more=more, counts=counts, checks=looked)


def get_counts(project: Project, *, now: datetime) -> ProjectGlance:
    """Return the stored counts of open threads and of all that needs a look.

    One query by primary key. Checks the server again once this process's result is
    older than `BELIEVED_SECONDS`.
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


def _rank_item(thing: UnhealthyItem) -> tuple[bool, bool, bool, datetime]:
    at = thing.onset.at
    long_ago = datetime.min.replace(tzinfo=UTC)
    return (thing.tone != "bad", thing.thread is None, at is None, at or long_ago)


def _list_threads(
    project: Project, *, now: datetime
) -> tuple[list[UnhealthyItem], int, Counter[str]]:
    """List the threads that the worker found, judged by their present counters.

    Leaves out, and does not count, threads that have recovered. Judges threads that
    moved since the worker looked, so that no row of a page shows worse. Four queries.
    """
    row = ProjectStats.objects.filter(project=project).first()
    onsets = parse_onsets(row) if row else {}
    kept = dict(islice(onsets.items(), LOOKED))
    limits = Thresholds.from_project(project)
    if len(onsets) < KEPT:
        moved = Thread.objects.filter(project=project).order_by("-listed_at", "id")
        newest = moved.values_list("id", flat=True)[:LOOKED]
        kept |= {each: onsets.get(each, {}) for each in newest}
    counts = Counter[str](_read_kept(row)["counts"] if row else {})
    counts.subtract(flag for flags in kept.values() for flag in flags)
    counted = verdicts.count_refused_lately(now).filter(thread__in=[*kept])
    refused = {each["thread"]: each["refused"] for each in counted}
    things = []
    for thread in verdicts.filter_unhealthy(now).filter(id__in=[*kept]):
        line, count = ThreadLine.from_row(thread), refused.get(thread.id, 0)
        found = verdicts.find(VerdictCounters.from_line(line, refused=count), limits)
        if found:
            counts.update(each.flag for each in found)
            onset = kept[thread.id].get(found[0].flag) or _date_new(line)
            things.append(
                UnhealthyItem(
                    tone=found[0].tone,
                    onset=onset,
                    thread=line,
                    verdicts=found,
                    refused=count,
                )
            )
    stored = sum(each in onsets for each in kept)
    return things, max(0, (row.unhealthy_threads if row else 0) - stored), counts


def _date_new(line: ThreadLine) -> VerdictOnset:
    """Date a verdict that the worker has not seen yet to the thread's newest turn."""
    return VerdictOnset(line.last_event_at, line.turns or None)


def parse_onsets(row: ProjectStats) -> dict[UUID, dict[str, VerdictOnset]]:
    """Parse the project's unhealthy threads, with the onset of each verdict."""
    return {
        UUID(each["thread"]): {
            flag: VerdictOnset(at and datetime.fromisoformat(at), turn)
            for flag, (at, turn) in each["flags"].items()
        }
        for each in _read_kept(row)["threads"]
    }


def parse_counts(row: ProjectStats) -> Mapping[str, int]:
    """Parse the number of the project's unhealthy threads by flag."""
    counts: Mapping[str, int] = _read_kept(row)["counts"]
    return counts


def get_onsets(project: UUID) -> dict[UUID, dict[str, VerdictOnset]]:
    """Return the stored onsets of verdicts, by thread and flag. One query."""
    row = ProjectStats.objects.filter(project=project).first()
    return parse_onsets(row) if row else {}


def _read_kept(row: ProjectStats) -> dict[str, Any]:
    """Read the stored threads and counts; both empty before the worker's first look."""
    kept = orjson.loads(row.unhealthy)
    return kept if isinstance(kept, dict) else {"threads": [], "counts": {}}


def render_kept(
    threads: Mapping[UUID, Mapping[str, VerdictOnset]], counts: Mapping[str, int]
) -> str:
    """Render threads with onsets, and counts by flag, as JSON for the stored row."""
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


#: Cache by project: until when the entry is valid, and how many checks need a look.
_wrong_checks: Lru[UUID, tuple[float, int]] = Lru(1_000, name="health of projects")
