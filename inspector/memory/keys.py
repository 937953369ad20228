"""Keys: the first by name as they change, or what a search finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access.access import signed_in
from inspector.drawing import chat, trees
from inspector.drawing.scenes import Context, Panel, Scene
from inspector.lists import screens, visits
from inspector.lists.screens import Count, Export, ListRequest, Screen
from inspector.lists.visits import Visit
from inspector.memory import editing, key_story
from inspector.web import asof, search
from inspector.web.records import Record
from inspector.web.search import ParsedSearch, SearchError
from memoryhub.errors import InvalidError
from memoryhub.kernel.text import globs
from memoryhub.queries.forget import erasure_views
from memoryhub.queries.lists.cursors import Batch
from memoryhub.queries.memory import key_views, keys
from memoryhub.queries.memory.keys import KeyLine, Sort
from memoryhub.queries.replay import states
from memoryhub.queries.threads.edits import Edit

#: Keys of a panel.
LISTED = 50
#: The URL's words for an order, and the list's.
SORTS: dict[str, Sort] = {"name": "name", "expiry": "expiry", "size": "bytes"}
_COMPLEX = SearchError(
    f"A glob has at most {globs.MAX_CHARS} characters and {globs.MAX_WILDCARDS} "
    "wildcards."
)


def _panel(scene: Scene) -> Context:
    """The first keys by name, and how full it is. Four queries."""
    found = keys.list_keys(scene.thread, values=True, seq=scene.at_seq, limit=LISTED)
    state = states.state_of(scene.thread, scene.at_seq)
    return {"listed": found.items, "more": found.next is not None, "held": state}


def _read(request: HttpRequest) -> ParsedSearch:
    """A search, a glob of whole names (`*`, `?`, `[abc]`) and an order."""
    text, glob = request.GET.get("q", ""), request.GET.get("glob", "").strip()
    sort = request.GET.get("sort", "")
    options = {"glob": glob, "sort": sort if sort in SORTS and sort != "name" else ""}
    parsed = replace(search.parse_search(text, search.MEMORY_KEYS), options=options)
    try:
        globs.compiled(glob)
    except InvalidError:
        return replace(parsed, error=_COMPLEX)
    return parsed


def _around(ask: ListRequest[Visit]) -> Context:
    """The forms around the list; `kept` is the checkpoint of keys just cleared."""
    editable = ask.where.editable
    kept = asof.number(ask.request, "kept") if editable else None
    return {"sorts": SORTS, "editing": editable, "kept": kept}


def _lines(ask: ListRequest[Visit]) -> Context:
    found = _find(ask, ask.after, ask.limit, content=True)
    return {
        "listed": found.items,
        "count": Count(shown=len(found.items), more=found.next is not None),
        "following": ask.query(after=found.next) if found.next else "",
    }


def _batch(ask: ListRequest[Visit], after: str | None, limit: int) -> Batch[KeyLine]:
    return _find(ask, after, limit, content=ask.content)


def _find(
    ask: ListRequest[Visit], after: str | None, limit: int, *, content: bool
) -> Batch[KeyLine]:
    options = ask.parsed.options
    return keys.list_keys(
        ask.where.row,
        glob=options["glob"] or "*",
        terms=ask.parsed.terms,
        sort=SORTS[options["sort"] or "name"],
        values=content,
        seq=ask.where.moment.at_seq,
        after=after,
        limit=limit,
    )


def _record(thread: str, line: KeyLine) -> Record:
    return {
        "thread": thread,
        "key": line.name,
        "bytes": line.bytes,
        "version": line.version,
        "expires_at": line.expires_at.isoformat() if line.expires_at else None,
        "set_at": line.set_at.isoformat(),
        "set_by": line.set_by,
        "inherited": line.inherited,
        "value": line.value,
        "erased": line.erased,
    }


SCREEN = Screen(
    folder="memory/keys",
    tab="memory",
    scope=screens.THREAD,
    panel=Panel(template="inspector/memory/keys/_panel.html", context=_panel),
    difference="inspector/memory/keys/_difference.html",
    beyond=("after", "limit", "all"),
    read=_read,
    examples=("ttl:<1h", "ttl:never", "size:>10k", "type:object"),
    lines=_lines,
    around=_around,
    export=Export(
        fields=(
            "thread", "key", "bytes", "version", "expires_at", "set_at", "set_by",
            "inherited",
        ),
        content_fields=("value", "erased"),
        record=_record,
        batch=_batch,
    ),
)  # fmt: skip


@require_safe
@signed_in
def show(request: HttpRequest, project: str, thread: str, key: str) -> HttpResponse:
    """One key: its value, its time, and all that happened to it."""
    visit = visits.find(request, project, thread)
    return page(request, visit, key, saved=editing.find_saved(request, visit))


def page(
    request: HttpRequest,
    visit: Visit,
    key: str,
    *,
    saved: Edit | None = None,
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    """Show a key, with what was just saved or could not be. 410 once it is erased."""
    view = key_views.get_view(visit.row, key, seq=visit.moment.at_seq)
    whole = request.GET.get("content") == "all"
    room = chat.Room.boundless() if whole else chat.Room()
    shown = view.line is not None and not view.erased
    value = view.line.value if view.line else None
    context: dict[str, Any] = {
        "view": view,
        "tree": trees.tree(value) if shown else None,
        "raw": room.raw(chat.pretty(value)) if shown else None,
        "story": key_story.list_steps(view),
        "reach": key_views.REACH,
        "proof": erasure_views.get_mark(visit.row.id, view.line.version)
        if view.erased and view.line
        else None,
        "editing": visit.editable,
        "saved": saved,
        "problem": problem,
    }
    template = "inspector/memory/keys/show.html"
    status = 410 if view.erased else status
    return visits.page(request, template, visit, context, status=status)
