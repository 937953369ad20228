"""Unhealthy: looks for threads over a threshold, so that a page needs not.

Of each project it keeps the worst, with the turn in which each verdict began.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from memoryhub import journal
from memoryhub.models.projects import ProjectStats
from memoryhub.models.threads import Thread
from memoryhub.queries.overview import onsets, unhealthy
from memoryhub.queries.overview.onsets import Onset
from memoryhub.queries.threads import verdicts
from memoryhub.queries.threads.verdicts import Counters


def look(now: datetime) -> int:
    """Bring up what each project's unhealthy threads are; how many there are.

    Two queries over all threads that were used lately, one of what was found before; up
    to four more for a verdict that is new.
    """
    flags, counts, by_flag = _flags(now)
    kept = {row.project_id: row for row in ProjectStats.objects.all()}
    moved = []
    for project, row in kept.items():
        earlier = unhealthy.kept_onsets(row)
        found = _onsets(flags.get(project, {}), earlier)
        text = unhealthy.as_text(found, by_flag[project])
        if (row.unhealthy, row.unhealthy_threads) != (text, counts[project]):
            row.unhealthy, row.unhealthy_threads = text, counts[project]
            moved.append(row)
    if moved:
        fields = ["unhealthy", "unhealthy_threads"]
        journal.run(lambda: ProjectStats.objects.bulk_update(moved, fields))
    return sum(counts.values())


def _flags(
    now: datetime,
) -> tuple[dict[UUID, dict[UUID, list[str]]], Counter[UUID], dict[UUID, Counter[str]]]:
    """By project and thread, what is wrong with the worst; and how many there are.

    Beside it, by project, of how many threads each flag is said.
    """
    refused = {row["thread"]: row["refused"] for row in verdicts.refused_lately(now)}
    columns = ("project_id", "id", *verdicts.COLUMNS)
    rows = verdicts.unhealthy(now).values_list(*columns)
    found: dict[UUID, list[tuple[int, UUID, list[str]]]] = defaultdict(list)
    by_flag: dict[UUID, Counter[str]] = defaultdict(Counter)
    for project, thread, *counters in rows:
        counted = Counters(*counters)._replace(refused=refused.get(thread, 0))
        if wrong := verdicts.find(counted):
            rank = verdicts.VERDICTS.index(wrong[0])
            flags: list[str] = [each.flag for each in wrong]
            found[project].append((rank, thread, flags))
            by_flag[project].update(flags)
    counts = Counter({project: len(each) for project, each in found.items()})
    worst = {
        project: {thread: flags for _, thread, flags in sorted(each)[: unhealthy.KEPT]}
        for project, each in found.items()
    }
    return worst, counts, by_flag


def _onsets(
    flags: Mapping[UUID, list[str]],
    earlier: Mapping[UUID, Mapping[str, Onset]],
) -> dict[UUID, dict[str, Onset]]:
    """Since when each holds: as was found before, else by the thread's turns."""
    new = {
        thread: [flag for flag in each if flag not in earlier.get(thread, {})]
        for thread, each in flags.items()
    }
    rows = Thread.objects.in_bulk([thread for thread, each in new.items() if each])
    found = {
        thread: onsets.find_onsets(row, new[thread]) for thread, row in rows.items()
    }
    return {
        thread: {
            flag: found.get(thread, {}).get(flag) or earlier.get(thread, {})[flag]
            for flag in each
        }
        for thread, each in flags.items()
        if thread in rows or not new[thread]
    }
