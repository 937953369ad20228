"""Checks of working memory in a project, each over bounded rows. Never writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import orjson
from django.db.models import Count, Sum

from memoryhub.kernel.state.working_memory import (
    DEFAULT_MAX_KEY_BYTES,
    DEFAULT_MAX_KEYS,
)
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import Key
from memoryhub.queries.forget import expiry

#: Time within which expired keys and values are swept.
GOAL = timedelta(seconds=60)
SOON = timedelta(hours=1)
#: Most keys counted, largest keys named, and threads looked at.
COUNTED, LARGEST, WINDOW = 1_000, 5, 100
_FULL = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeKey:
    thread: str
    name: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChecks:
    """Results of the checks: `lag` is of all projects, the other fields of one."""

    lag: timedelta
    #: Keys that expire within `SOON`, at most `COUNTED`.
    soon: int
    largest: tuple[LargeKey, ...]
    #: Names of recently active threads over 90 % of their keys or bytes.
    full: tuple[str, ...]

    @property
    def swept(self) -> bool:
        return self.lag < GOAL

    @property
    def many(self) -> bool:
        """Tell whether there may be more keys than were counted."""
        return self.soon == COUNTED


def get_memory_checks(project: Project, *, now: datetime) -> MemoryChecks:
    """Return the checks of working memory. Six queries, over bounded rows.

    The last query sums up the keys of `WINDOW` threads, by an index.
    """
    held = Key.objects.filter(project=project)
    soon = held.filter(expires_at__gt=now, expires_at__lte=now + SOON)
    unswept = held.exclude(expires_at__lte=now).order_by("-bytes", "thread_id", "key")
    largest = unswept.values_list("thread__name", "key", "bytes")[:LARGEST]
    return MemoryChecks(
        lag=expiry.get_lag(now),
        soon=len(soon.values_list("key", flat=True)[:COUNTED]),
        largest=tuple(
            LargeKey(thread=thread, name=name, bytes=size)
            for thread, name, size in largest
        ),
        full=_list_full(project, now=now),
    )


def _list_full(project: Project, *, now: datetime) -> tuple[str, ...]:
    rows = Thread.objects.filter(project=project, status=Thread.Status.OPEN)
    newest = rows.order_by("-listed_at", "id").values_list("id", "name", "config")
    threads = {id_: (name, orjson.loads(set_)) for id_, name, set_ in newest[:WINDOW]}
    counted = (
        Key.objects.filter(thread_id__in=[*threads])
        .exclude(expires_at__lte=now)
        .order_by()
        .values("thread_id")
        .annotate(n=Count("key"), size=Sum("bytes"))
    )
    return tuple(
        threads[row["thread_id"]][0]
        for row in counted
        if _is_over(threads[row["thread_id"]][1], row["n"], row["size"])
    )


def _is_over(config: Mapping[str, int | None], count: int, size: int) -> bool:
    most = config.get("max_keys") or DEFAULT_MAX_KEYS
    most_bytes = config.get("max_key_bytes") or DEFAULT_MAX_KEY_BYTES
    return count > _FULL * most or size > _FULL * most_bytes
