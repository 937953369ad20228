"""Search by parts of a name: of threads, and of one thread's pages and keys.

Never writes. Names are ASCII, and search ignores case. No index covers the middle of a
name, so each search reads only the newest names: the cost is bounded, whatever a
project holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from memoryhub.models.pages import Page
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import Key
from memoryhub.queries.lists.terms import SearchTerm
from memoryhub.queries.threads import catalogue
from memoryhub.queries.threads.threads import ThreadLine

#: Maximum number of names searched, newest first.
LOOKED_AT = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PageName:
    """A live page, with its type and tokens."""

    page_id: str
    type: str
    tokens: int


def list_threads(
    project: Project,
    words: Sequence[str],
    *,
    terms: Sequence[SearchTerm] = (),
    now: datetime,
    limit: int,
    restricted: bool = True,
) -> list[ThreadLine]:
    """List threads that match the terms and have all words in their names.

    The latest move comes first. One query, which reads the 5,000 threads that moved
    last.
    """
    rows = catalogue.filter_threads(
        project, terms=terms, now=now, restricted=restricted
    )
    rows = rows.order_by("-listed_at", "id")
    if words:
        newest = Thread.objects.filter(project=project).order_by("-listed_at", "id")
        rows = rows.filter(_build_condition("name", words))
        rows = rows.filter(id__in=newest.values("id")[:LOOKED_AT])
    return [ThreadLine.from_row(row) for row in rows[:limit]]


def list_pages(thread: Thread, words: Sequence[str], *, limit: int) -> list[PageName]:
    """List pages whose ids contain all words, newest first; in a fork its own only.

    One query, which reads the 5,000 pages that were created or changed last.
    """
    rows = Page.objects.filter(thread=thread).order_by("-seq")
    newest = rows.values("page_id")[:LOOKED_AT]
    live = rows.filter(_build_condition("page_id", words), deleted_seq=None)
    live = live.filter(page_id__in=newest)
    return [
        PageName(page_id=row.page_id, type=row.type, tokens=row.tokens)
        for row in live[:limit]
    ]


def list_keys(
    thread: Thread, words: Sequence[str], *, now: datetime, limit: int
) -> list[str]:
    """List keys whose names contain all words, by name. One query.

    The query reads all keys of the thread, whose number its key limit bounds.
    """
    alive = Q(expires_at=None) | Q(expires_at__gt=now)
    rows = Key.objects.filter(alive, _build_condition("key", words), thread=thread)
    return [*rows.order_by("key").values_list("key", flat=True)[:limit]]


def _build_condition(column: str, words: Iterable[str]) -> Q:
    found = Q()
    for word in words:
        found &= Q(**{f"{column}__icontains": word})
    return found
