"""Screens of keys: a live panel of the first by name, a search, and one key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from inspector.access.access import require_signed_in
from inspector.drawing import chat, trees
from inspector.drawing.scenes import Context, Panel, ThreadScene
from inspector.lists import screens, visits
from inspector.lists.screens import LineCount, ListRequest, Screen, ScreenExport
from inspector.lists.visits import Visit
from inspector.memory import editing, key_story
from inspector.web import asof, search
from inspector.web.records import Record
from inspector.web.search import ParsedSearch, SearchError
from memoryhub.errors import InvalidError
from memoryhub.kernel.text import globs
from memoryhub.queries.forget import erasure_views
from memoryhub.queries.lists.cursors import ListBatch
from memoryhub.queries.memory import checkpoints, key_views, keys
from memoryhub.queries.memory.keys import KeyLine, Sort
from memoryhub.queries.replay import states
from memoryhub.queries.threads.edits import Edit

#: Keys that the panel shows.
LISTED = 50
#: Orders of the list, by the URL's word.
SORTS: dict[str, Sort] = {"name": "name", "expiry": "expiry", "size": "bytes"}
_COMPLEX = SearchError(
    f"A glob has at most {globs.MAX_CHARS} characters and {globs.MAX_WILDCARDS} "
    "wildcards."
)


def _build_panel(scene: ThreadScene) -> Context:
    """Build the panel: the first keys by name, and the memory's fill.

    At most six queries.
    """
    thread, seq = scene.thread, scene.at_seq
    found = keys.list_keys(thread, values=True, seq=seq, limit=LISTED)
    return {
        "listed": found.items,
        "more": found.next is not None,
        "held": states.load_state(thread, seq),
        "restored": checkpoints.find_last_restore(thread, "keys", seq=seq),
    }


def _read_search(request: HttpRequest) -> ParsedSearch:
    """Read the search, the glob of whole names (`*`, `?`, `[abc]`) and the order."""
    text, glob = request.GET.get("q", ""), request.GET.get("glob", "").strip()
    sort = request.GET.get("sort", "")
    options = {"glob": glob, "sort": sort if sort in SORTS and sort != "name" else ""}
    parsed = replace(search.parse_search(text, search.MEMORY_KEYS), options=options)
    try:
        globs.compile_glob(glob)
    except InvalidError:
        return replace(parsed, error=_COMPLEX)
    return parsed


def _build_surroundings(ask: ListRequest[Visit]) -> Context:
    """Build the forms around the list; `kept` is the checkpoint of cleared keys."""
    editable = ask.where.editable
    kept = asof.read_number(ask.request, "kept") if editable else None
    return {"sorts": SORTS, "editing": editable, "kept": kept}


def _build_list(ask: ListRequest[Visit]) -> Context:
    found = _list_keys(ask, ask.after, ask.limit, content=True)
    return {
        "listed": found.items,
        "count": LineCount(shown=len(found.items), more=found.next is not None),
        "following": ask.query(after=found.next) if found.next else "",
    }


def _list_batch(
    ask: ListRequest[Visit], after: str | None, limit: int
) -> ListBatch[KeyLine]:
    return _list_keys(ask, after, limit, content=ask.content)


def _list_keys(
    ask: ListRequest[Visit], after: str | None, limit: int, *, content: bool
) -> ListBatch[KeyLine]:
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


def _build_record(thread: str, line: KeyLine) -> Record:
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
    panel=Panel(template="inspector/memory/keys/_panel.html", context=_build_panel),
    difference="inspector/memory/keys/_difference.html",
    beyond=("after", "limit", "all"),
    read=_read_search,
    examples=("ttl:<1h", "ttl:never", "size:>10k", "type:object"),
    lines=_build_list,
    around=_build_surroundings,
    export=ScreenExport(
        fields=(
            "thread", "key", "bytes", "version", "expires_at", "set_at", "set_by",
            "inherited",
        ),
        content_fields=("value", "erased"),
        record=_build_record,
        batch=_list_batch,
    ),
)  # fmt: skip


@require_safe
@require_signed_in
def show(request: HttpRequest, project: str, thread: str, key: str) -> HttpResponse:
    """Show a key: its value, its expiry and its history."""
    visit = visits.find(request, project, thread)
    return render_page(request, visit, key, saved=editing.find_saved(request, visit))


def render_page(
    request: HttpRequest,
    visit: Visit,
    key: str,
    *,
    saved: Edit | None = None,
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    """Render a key's page with the saved edit or its problem. 410 once it is erased."""
    view = key_views.get_view(visit.row, key, seq=visit.moment.at_seq)
    whole = request.GET.get("content") == "all"
    room = chat.PageRoom.build_unlimited() if whole else chat.PageRoom()
    shown = view.line is not None and not view.erased
    value = view.line.value if view.line else None
    context: dict[str, Any] = {
        "view": view,
        "tree": trees.build_tree(value) if shown else None,
        "raw": room.build_json_block(chat.render_json(value)) if shown else None,
        "story": key_story.list_steps(view),
        "reach": key_views.REACH,
        "proof": erasure_views.find_record_proof(visit.row.id, view.line.version)
        if view.erased and view.line
        else None,
        "editing": visit.editable,
        "saved": saved,
        "problem": problem,
    }
    template = "inspector/memory/keys/show.html"
    status = 410 if view.erased else status
    return visits.render_page(request, template, visit, context, status=status)
