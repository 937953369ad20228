"""Unhealthy threads: looks for threads over a threshold, so that no page has to.

Keeps the worst threads of each project, with the turn in which each verdict began.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Q

from memoryhub import journal
from memoryhub.models.projects import Project, ProjectStats
from memoryhub.models.threads import Thread
from memoryhub.queries.overview import onsets, unhealthy
from memoryhub.queries.overview.onsets import VerdictOnset
from memoryhub.queries.threads import verdicts
from memoryhub.queries.threads.thresholds import BOUNDS, DEFAULTS, Thresholds
from memoryhub.queries.threads.verdicts import VERDICTS, VerdictCounters

_RANKS: Final = {each.flag: rank for rank, each in enumerate(VERDICTS)}


def look(now: datetime) -> int:
    """Update each project's unhealthy threads; return how many there are.

    Two queries over all threads that were used lately, two for thresholds and stored
    verdicts; up to four more for a new verdict.
    """
    limits = _list_limits()
    flags, counts, by_flag = _list_flags(now, limits)
    kept = {row.project_id: row for row in ProjectStats.objects.all()}
    moved = []
    for project, row in kept.items():
        earlier = unhealthy.parse_onsets(row)
        found = _find_onsets(
            flags.get(project, {}), earlier, limits.get(project, DEFAULTS)
        )
        text = unhealthy.render_kept(found, by_flag[project])
        if (row.unhealthy, row.unhealthy_threads) != (text, counts[project]):
            row.unhealthy, row.unhealthy_threads = text, counts[project]
            moved.append(row)
    if moved:
        fields = ["unhealthy", "unhealthy_threads"]
        journal.run(lambda: ProjectStats.objects.bulk_update(moved, fields))
    return sum(counts.values())


def _list_limits() -> dict[UUID, Thresholds]:
    """Return the thresholds of projects whose owner set any. One query."""
    own = Q()
    for name in BOUNDS:
        own |= Q(**{f"{name}__isnull": False})
    rows = Project.objects.filter(own).values("id", *BOUNDS)
    return {row.pop("id"): Thresholds.from_values(row) for row in rows}


def _list_flags(
    now: datetime, limits: Mapping[UUID, Thresholds]
) -> tuple[dict[UUID, dict[UUID, list[str]]], Counter[UUID], dict[UUID, Counter[str]]]:
    """Return the worst threads' flags by project, the numbers of threads, flag counts.

    The flag counts give, by project, the number of threads with each flag.
    """
    refused = {
        row["thread"]: row["refused"] for row in verdicts.count_refused_lately(now)
    }
    columns = ("project_id", "id", *verdicts.COLUMNS)
    rows = verdicts.filter_unhealthy(now).values_list(*columns)
    found: dict[UUID, list[tuple[int, UUID, list[str]]]] = defaultdict(list)
    by_flag: dict[UUID, Counter[str]] = defaultdict(Counter)
    for project, thread, *counters in rows:
        counted = VerdictCounters(*counters)._replace(refused=refused.get(thread, 0))
        if wrong := verdicts.find(counted, limits.get(project, DEFAULTS)):
            rank = _RANKS[wrong[0].flag]
            flags: list[str] = [each.flag for each in wrong]
            found[project].append((rank, thread, flags))
            by_flag[project].update(flags)
    counts = Counter({project: len(each) for project, each in found.items()})
    worst = {
        project: {thread: flags for _, thread, flags in sorted(each)[: unhealthy.KEPT]}
        for project, each in found.items()
    }
    return worst, counts, by_flag


def _find_onsets(
    flags: Mapping[UUID, list[str]],
    earlier: Mapping[UUID, Mapping[str, VerdictOnset]],
    limits: Thresholds,
) -> dict[UUID, dict[str, VerdictOnset]]:
    """Return each verdict's onset: the stored one, else found in the thread's turns."""
    new = {
        thread: [flag for flag in each if flag not in earlier.get(thread, {})]
        for thread, each in flags.items()
    }
    rows = Thread.objects.in_bulk([thread for thread, each in new.items() if each])
    found = {
        thread: onsets.find_onsets(row, new[thread], limits)
        for thread, row in rows.items()
    }
    return {
        thread: {
            flag: found.get(thread, {}).get(flag) or earlier.get(thread, {})[flag]
            for flag in each
        }
        for thread, each in flags.items()
        if thread in rows or not new[thread]
    }
