"""Turns: the model calls of a thread, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from inspector.access.access import signed_in
from inspector.drawing import first_words
from inspector.drawing.first_words import FirstWords
from inspector.lists import screens, visits
from inspector.lists.screens import Context, ListRequest, Screen
from inspector.lists.visits import Place
from inspector.web import asof
from memoryhub.models.threads import Thread
from memoryhub.queries.turns import exchanges, turns
from memoryhub.queries.turns.turns import TurnLine

#: Characters of a text that stand in a row.
ROW_CHARS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """Hold a turn of a list, with the question that it begins an exchange with."""

    line: TurnLine
    #: It begins one: its question stands before it, or stood.
    begins: bool
    #: None where it goes on with an exchange, or the question is gone.
    excerpt: FirstWords | None


def turn_rows(row: Thread, lines: Sequence[TurnLine]) -> list[TurnRow]:
    """Give each turn with the words of its question. Two queries."""
    questions = exchanges.list_questions(row, lines)
    return [
        TurnRow(
            line=line,
            begins=line.n in questions,
            excerpt=first_words.message_words(
                questions[line.n].content, "user", chars=ROW_CHARS
            )
            if line.n in questions and questions[line.n].content is not None
            else None,
        )
        for line in lines
    ]


def _lines(ask: ListRequest[Place]) -> Context:
    visit = ask.where
    found = turns.list_turns(
        visit.row, up_to=visit.moment.at_seq, after=ask.after, limit=ask.limit
    )
    rows = turn_rows(visit.row, found.items)
    return screens.list_context(ask, found) | {"rows": rows}


SCREEN = Screen(
    folder="turns",
    scope=screens.THREAD,
    tab="turns",
    panel=screens.newest("turns", _lines),
    lines=_lines,
)


@require_safe
@signed_in
def go(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Go to the turn of that number, or to the nearest there is."""
    visit = visits.find(request, project, thread)
    names = {"project": project, "thread": thread}
    wanted, last = asof.number(request, "n"), visit.row.turn_count
    if wanted is None or not last:
        return HttpResponseRedirect(reverse("turns", kwargs=names))
    n = min(max(1, wanted), last)
    return HttpResponseRedirect(reverse("turn", kwargs={**names, "n": n}))
