"""Marks of turns: the form of a turn's page, and the list of a project."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import cast

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from inspector.access import access
from inspector.access.access import require_signed_in
from inspector.drawing import first_words
from inspector.lists import screens
from inspector.lists.screens import Context, ListRequest, Screen
from inspector.turns import turn_page
from inspector.turns.turns import WORDS
from inspector.web import refusals
from inspector.web.methods import require_post
from inspector.web.visitors import Visitor
from memoryhub.errors import InvalidError, Refusal
from memoryhub.kernel.state.turn_marks import MarkWord
from memoryhub.models.access.operators import Membership
from memoryhub.queries.turns import marks
from memoryhub.queries.turns.marks import MarkedTurnLine
from memoryhub.services.turns.marks import MAX_COMMENT_CHARS, mark_for_operator

_TEXTS: refusals.Texts = {
    "mark": "Choose wrong or good.",
    "comment": f"A comment has at most {MAX_COMMENT_CHARS:,} characters.",
}
#: Characters of a comment in a row.
_ROW_CHARS = 160
#: Characters read of a sent comment.
_LONGEST = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedTurnExcerpt:
    """Marked turn in a list, with the first words of the comment."""

    line: MarkedTurnLine
    comment: str


def _build_list(ask: ListRequest[Visitor]) -> Context:
    word = cast("MarkWord | None", ask.parsed.options["mark"] or None)
    found = marks.list_marked_turns(
        ask.where.project.id, mark=word, after=ask.after, limit=ask.limit
    )
    ask.where.note_threads(line.thread for line in found.items)
    rows = [
        MarkedTurnExcerpt(
            line=line, comment=first_words.cut_to_line(line.comment or "", _ROW_CHARS)
        )
        for line in found.items
    ]
    return screens.build_list_context(ask, found) | {"listed": rows}


SCREEN = Screen(
    folder="turns/marked_turns",
    scope=screens.build_project_scope("threads"),
    read=partial(screens.read_choice, "mark", WORDS),
    lines=_build_list,
)


@require_post
@require_signed_in
def mark_turn(request: HttpRequest, project: str, thread: str, n: int) -> HttpResponse:
    """Mark a turn or remove its mark, and show the turn again."""
    visitor = access.require_visitor(request, project)
    row = access.require_thread(visitor, thread)
    visitor.require_role(Membership.Role.EDITOR)
    sent = request.POST
    word, comment = sent.get("mark", ""), sent.get("comment", "")[:_LONGEST]
    comment = comment.replace("\r\n", "\n").strip()
    try:
        if sent.get("act") == "remove":
            mark_for_operator(row, n, None, actor=visitor.actor)
        elif word not in WORDS:
            raise InvalidError(loc="mark")
        else:
            mark = cast("MarkWord", word)
            mark_for_operator(row, n, mark, comment, actor=visitor.actor)
    except Refusal as refusal:
        problem = refusals.get_error_text(refusal, _TEXTS)
        form = {"typed": {"mark": word, "comment": comment}, "problem": problem}
        status = refusals.get_status(refusal)
        return turn_page.render_turn(
            request, project, thread, n, form=form, status=status
        )
    names = {"project": project, "thread": thread, "n": n}
    return HttpResponseRedirect(reverse("turn", kwargs=names) + "#mark")
