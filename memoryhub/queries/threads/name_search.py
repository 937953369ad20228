"""Names by any part of them: of threads, and of pages and keys of one thread.

Never writes. Names are ASCII, and case does not matter here. No index knows the middle
of a name, so each looks at the newest names only: the cost has a bound, whatever a
project holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from django.db.models import Q

from memoryhub.models.pages import Page
from memoryhub.models.projects import Project
from memoryhub.models.threads import Thread
from memoryhub.models.working_memory import Key
from memoryhub.queries.lists.terms import SearchTerm
from memoryhub.queries.threads import catalogue
from memoryhub.queries.threads.threads import ThreadLine

#: Names that are looked at, newest first.
LOOKED_AT = 5_000
#: Of those that have a part, how many are ranked.
_RANKED = 50

Named = TypeVar("Named")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageName:
    """A page that is there, and what it is."""

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
    """List threads that fit the terms and have a word in their names, best first.

    The best have most of the words; of as many, the one that moved last. Without words
    the newest. One query, which looks at the 5,000 threads that moved last.
    """
    rows = catalogue.matching(project, terms=terms, now=now, restricted=restricted)
    rows = rows.order_by("-listed_at", "id")
    if words:
        newest = Thread.objects.filter(project=project).order_by("-listed_at", "id")
        rows = rows.filter(_any_of("name", words))
        rows = rows.filter(id__in=newest.values("id")[:LOOKED_AT])
    found = _best(rows[: _RANKED if words else limit], words, lambda row: row.name)
    return [ThreadLine.of(row) for row in found[:limit]]


def list_pages(thread: Thread, words: Sequence[str], *, limit: int) -> list[PageName]:
    """List pages whose ids have a word, best first; a fork's own ones only.

    One query, which looks at the 5,000 pages that were made or changed last.
    """
    rows = Page.objects.filter(thread=thread).order_by("-seq")
    newest = rows.values("page_id")[:LOOKED_AT]
    live = rows.filter(_any_of("page_id", words), deleted_seq=None)
    live = live.filter(page_id__in=newest)
    found = _best(live[:_RANKED], words, lambda row: row.page_id)
    return [
        PageName(page_id=row.page_id, type=row.type, tokens=row.tokens)
        for row in found[:limit]
    ]


def list_keys(
    thread: Thread, words: Sequence[str], *, now: datetime, limit: int
) -> list[str]:
    """List keys that have a word in their names, best first. One query.

    It looks at all keys of the thread, of which there are no more than it may hold.
    """
    alive = Q(expires_at=None) | Q(expires_at__gt=now)
    rows = Key.objects.filter(alive, _any_of("key", words), thread=thread)
    names = rows.order_by("key").values_list("key", flat=True)[:_RANKED]
    return _best(names, words, str)[:limit]


def _any_of(column: str, words: Iterable[str]) -> Q:
    found = Q()
    for word in words:
        found |= Q(**{f"{column}__icontains": word})
    return found


def _best(
    rows: Iterable[Named], words: Sequence[str], name_of: Callable[[Named], str]
) -> list[Named]:
    """Sort by how many of the words a name has; as they came where it is as many."""
    folded = [word.lower() for word in words]

    def score(row: Named) -> int:
        name = name_of(row).lower()
        return -sum(word in name for word in folded)

    return sorted(rows, key=score)
