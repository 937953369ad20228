"""Search of a thread that puts texts with the words side by side first. Never writes.

A ranking by words alone may put a text that has a few rare words many times before the
text that has the typed words as they were typed.
"""

from __future__ import annotations

from dataclasses import replace

from memoryhub.kernel.search.parsing import SearchQuery
from memoryhub.models.threads import Thread
from memoryhub.queries.search import searching
from memoryhub.queries.search.searching import SearchRequest, SearchResult


def has_classes(request: SearchRequest) -> bool:
    """Tell whether hits differ in how close they are to the typed words.

    They do for several words without quotation marks, in the order `best`.
    """
    query = request.query
    several = len(list_spoken(query)) > 1
    return request.order == "best" and several and not query.phrases


def list_spoken(query: SearchQuery) -> tuple[str, ...]:
    """List the typed words one by one, identifiers split into their parts."""
    return tuple(term for word in query.words for term in word.spoken)


def search_closest(
    thread: Thread, request: SearchRequest, *, seq: int | None = None
) -> SearchResult:
    """Search a thread as `search_thread` does; hits with the words side by side first.

    Each hit tells its closeness, if hits differ in it; `total` counts all hits. Twice
    the queries of `search_thread`, and one per 100 texts that have all of the words.
    """
    found = searching.search_thread(thread, request, seq=seq)
    if not found.items or not has_classes(request):
        return found
    as_phrase = replace(request.query, phrases=(list_spoken(request.query),))
    exact = searching.search_thread(
        thread, replace(request, query=as_phrase), seq=seq
    ).items
    places = {(hit.thread, hit.seq) for hit in exact}
    others = [hit for hit in found.items if (hit.thread, hit.seq) not in places]
    items = [replace(hit, closeness="phrase") for hit in exact]
    items += [
        replace(hit, closeness=hit.find_closeness(request.query)) for hit in others
    ]
    return replace(found, items=(*items[: request.limit],))
