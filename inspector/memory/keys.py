from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from inspector.access.access import signed_in
from inspector.drawing import chat, trees
from inspector.live import panels, visits
from inspector.live.visits import Visit
from inspector.memory import memory_records
from inspector.web import asof, exports, search
from inspector.web.search import Asked, SearchError
from memoryhub.errors import InvalidError
from memoryhub.kernel.text import globs
from memoryhub.queries.forget import erasure_views
from memoryhub.queries.lists.cursors import Batch
from memoryhub.queries.memory import key_views, keys
from memoryhub.queries.memory.keys import KeyLine, Sort

#: Searches that are a click away.
EXAMPLES = ("ttl:<1h", "ttl:never", "size:>10k", "type:object")
#: The URL's words for an order, and the list's.
#: Words of the URL that ask for more than the first keys as they are.
LISTING = ("q", "glob", "after", "all")
SORTS: dict[str, Sort] = {"name": "name", "expiry": "expiry", "size": "bytes"}
_COMPLEX = SearchError(
    f"A glob has at most {globs.MAX_CHARS} characters and {globs.MAX_WILDCARDS} "
    "wildcards."
)


@require_safe
@signed_in
def index(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """The keys: the first by name as they change, or what a search finds."""
    visit, asked = visits.find(request, project, thread), _asked(request)
    sort = _sort(request)
    listing = any(request.GET.get(name) for name in LISTING)
    live = not listing and sort == "name"
    context: dict[str, Any] = {
        "asked": asked,
        "examples": EXAMPLES,
        "sorts": tuple(SORTS),
        "sort": sort,
        "glob": _glob(request),
        "search": asked.query(
            glob=_glob(request), sort=sort if sort != "name" else None
        ),
        "panel": live,
        "exported": exports.links(
            f"{panels.shared(visit.scene)['base']}/keys",
            asked.query(glob=_glob(request), sort=sort, at_seq=visit.moment.at_seq),
        ),
        "links": not asked.error,
    }
    if live:
        context |= panels.PANELS["keys"].context(visit.scene)
    elif not asked.error:
        context |= _found(request, visit, asked)
    status = 422 if asked.error else 200
    return visits.page(
        request, "inspector/memory/keys/index.html", visit, context, status=status
    )


@require_safe
@signed_in
def export(
    request: HttpRequest,
    project: str,
    thread: str,
    kind: str,  # the URL's word
) -> HttpResponseBase:
    """The keys that a search finds as data; values only if asked for."""
    visit, asked = visits.find(request, project, thread), _asked(request)
    if asked.error:
        return exports.refused(asked.error, status=422)
    content = request.GET.get("content") == "1"
    return exports.answer(
        request,
        kind,
        f"{thread}-keys",
        heading=memory_records.KEY + (memory_records.KEY_CONTENT if content else ()),
        record=lambda line: memory_records.key(thread, line, content=content),
        part=lambda: _batch(request, visit, asked, limit=keys.CHUNK, values=content),
        parts=lambda: _all(request, visit, asked, values=content),
    )


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str, key: str) -> HttpResponse:
    """One key: its value, its time, and all that happened to it."""
    visit = visits.find(request, project, thread)
    view = key_views.get_view(visit.row, key, seq=visit.moment.at_seq)
    whole = request.GET.get("content") == "all"
    room = chat.Room.boundless() if whole else chat.Room()
    shown = view.line is not None and not view.erased
    value = view.line.value if view.line else None
    context: dict[str, Any] = {
        "view": view,
        "tree": trees.tree(value) if shown else None,
        "raw": room.raw(value) if shown else None,
        "story": [panels.told_step(step) for step in view.history],
        "reach": key_views.REACH,
        "proof": erasure_views.get_mark(visit.row.id, view.line.version)
        if view.erased and view.line
        else None,
        "editing": visit.place.editor and visit.moment.live and shown,
    }
    status = 410 if view.erased else 200
    return visits.page(
        request, "inspector/memory/keys/show.html", visit, context, status=status
    )


def _asked(request: HttpRequest) -> Asked:
    asked = search.asked(request.GET.get("q", ""), search.MEMORY_KEYS, bare="name")
    try:
        globs.compiled(_glob(request))
    except InvalidError:
        return replace(asked, error=_COMPLEX)
    return asked


def _glob(request: HttpRequest) -> str:
    """Of the names, whole: `*`, `?`, `[abc]`; empty for all."""
    return request.GET.get("glob", "").strip()


def _sort(request: HttpRequest) -> str:
    word = request.GET.get("sort", "")
    return word if word in SORTS else "name"


def _all(
    request: HttpRequest, visit: Visit, asked: Asked, *, values: bool
) -> Iterator[tuple[KeyLine, ...]]:
    return keys.iter_keys(
        visit.row,
        glob=_glob(request) or "*",
        terms=asked.terms,
        sort=SORTS[_sort(request)],
        values=values,
        seq=visit.moment.at_seq,
    )


def _found(request: HttpRequest, visit: Visit, asked: Asked) -> dict[str, Any]:
    found = _batch(request, visit, asked, limit=asof.limit(request))
    more = asked.query(
        glob=_glob(request),
        sort=_sort(request),
        at_seq=visit.moment.at_seq,
        after=found.next,
    )
    return {"listed": found.items, "following": more if found.next else ""}


def _batch(
    request: HttpRequest,
    visit: Visit,
    asked: Asked,
    *,
    limit: int,
    values: bool = False,
) -> Batch[KeyLine]:
    return keys.list_keys(
        visit.row,
        glob=_glob(request) or "*",
        terms=asked.terms,
        sort=SORTS[_sort(request)],
        values=values,
        seq=visit.moment.at_seq,
        after=request.GET.get("after") or None,
        limit=limit,
    )
