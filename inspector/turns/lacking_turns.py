"""Latest turns of a project's threads whose request lacked the best match."""

from __future__ import annotations

from inspector.lists import screens
from inspector.lists.screens import Context, LineCount, ListRequest, Screen
from inspector.turns import turns as turn_lists
from inspector.turns.turns import TurnListRow
from inspector.web.visitors import Visitor
from memoryhub.models.server.clock import clock
from memoryhub.models.threads import Thread
from memoryhub.queries.threads import catalogue
from memoryhub.queries.turns import lacking, turns

#: Threads, and newest turns of each, that are gone through at once: a turn that ends
#: an exchange costs some 40 ms to judge.
THREADS, TURNS = 6, 8


def _build_list(ask: ListRequest[Visitor]) -> Context:
    """Judge the newest turns of each of the threads used last."""
    project, officer = ask.where.project, ask.where.officer
    found = catalogue.list_threads(
        project,
        terms=(),
        now=clock.now(),
        after=ask.after,
        limit=min(ask.limit, THREADS),
        restricted=officer,
    )
    names = [line.name for line in found.items if line.turns]
    rows = catalogue.list_named(project, names, restricted=officer)
    named = {row.name: row for row in rows}
    ask.where.note_threads(rows)
    listed = [
        (named[name], turn)
        for name in names
        if name in named
        for turn in _list_lacking(named[name])
    ]
    return screens.build_list_context(ask, found) | {
        "listed": listed,
        "count": LineCount(shown=len(listed)),
        "judged": len(named),
        "most": TURNS,
    }


def _list_lacking(row: Thread) -> list[TurnListRow]:
    """List those of a thread's newest turns that lacked their match, with questions."""
    newest = turns.list_turns(row, limit=TURNS).items
    lines = lacking.list_lacking_turns(row, newest)
    return turn_lists.list_turn_rows(row, lines, {}, alone=True) if lines else []


SCREEN = Screen(
    folder="turns/lacking_turns",
    label="Best match missing",
    scope=screens.build_project_scope("threads"),
    lines=_build_list,
)
