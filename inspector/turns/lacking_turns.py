"""Newest turns of a project's threads whose request lacked the best match."""

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

#: Threads that are gone through at once: a turn costs some 40 ms to judge.
THREADS = 12


def _build_list(ask: ListRequest[Visitor]) -> Context:
    """Judge the newest turn of each of the threads used last."""
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
    judged = [(named[name], _judge(named[name])) for name in names if name in named]
    listed = [(row, turn) for row, turn in judged if turn is not None]
    return screens.build_list_context(ask, found) | {
        "listed": listed,
        "count": LineCount(shown=len(listed)),
        "judged": len(judged),
    }


def _judge(row: Thread) -> TurnListRow | None:
    """Return the newest turn of a thread, with its question, if it lacked its match."""
    newest = turns.list_turns(row, limit=1).items
    lines = lacking.list_lacking_turns(row, newest)
    found = turn_lists.list_turn_rows(row, lines, {}, alone=True) if lines else []
    return found[0] if found else None


SCREEN = Screen(
    folder="turns/lacking_turns",
    label="Best match missing",
    scope=screens.build_project_scope("threads"),
    lines=_build_list,
)
