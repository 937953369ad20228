"""Screen of turns: the model calls of a thread, newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, get_args

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from inspector.access.access import require_signed_in
from inspector.drawing import first_words
from inspector.drawing.first_words import FirstWords
from inspector.lists import screens, visits
from inspector.lists.screens import Context, ListRequest, Screen
from inspector.lists.visits import ThreadMoment
from inspector.web import asof
from memoryhub.kernel.state.turn_marks import MarkWord
from memoryhub.models.threads import Thread
from memoryhub.queries.replay.states import load_state
from memoryhub.queries.turns import exchanges, lacking, prices, turns
from memoryhub.queries.turns.prices import EstimatedCost, PriceTable
from memoryhub.queries.turns.turns import TurnLine

#: Characters of a text in a row.
ROW_CHARS = 160
WORDS: Final[tuple[str, ...]] = get_args(MarkWord)
#: Filter beside the marks: the request lacked the best match for the question.
LACKING: Final = "lacking"
#: Turns that a list of such turns goes through at once.
JUDGED: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnListRow:
    """Turn in a list, with the question of the exchange that the turn begins."""

    line: TurnLine
    #: Whether the turn begins an exchange, even if its question was erased.
    begins: bool
    #: Question; None if it was erased, or stands in the row of an earlier turn.
    excerpt: FirstWords | None
    mark: MarkWord | None
    #: None without prices, or without a recorded request.
    cost: EstimatedCost | None
    #: Tokens of the model's messages in the turn.
    answer_tokens: int

    @property
    def lacked(self) -> int:
        """Number of fetches that the model asked for, served or refused."""
        return sum(self.line.moved.get(name, 0) for name in ("faults", "refused"))


def list_turn_rows(
    row: Thread,
    lines: Sequence[TurnLine],
    marks: Mapping[int, MarkWord],
    *,
    alone: bool = False,
) -> list[TurnListRow]:
    """List a row per turn: first words of its question, its mark and its cost.

    Rows that stand `alone`, without the turns before them, have the question of the
    exchange that they continue. Three queries, two more then. `row` comes with its
    subject and project.
    """
    table, model = prices.get_table(row.project), prices.find_model(row)
    answers = exchanges.count_answer_tokens(lines)
    begun = exchanges.list_questions(row, lines)
    questions = begun
    if alone:
        later = [line for line in lines if line.n not in begun]
        questions = begun | exchanges.find_questions_before(row, later)
    return [
        TurnListRow(
            line=line,
            begins=line.n in begun,
            excerpt=first_words.build_message_words(
                questions[line.n], "user", chars=ROW_CHARS
            )
            if questions.get(line.n) is not None
            else None,
            mark=marks.get(line.n),
            cost=_compute_cost(table, model, line, answers.get(line.n, 0)),
            answer_tokens=answers.get(line.n, 0),
        )
        for line in lines
    ]


def _compute_cost(
    table: PriceTable, model: str | None, line: TurnLine, answers: int
) -> EstimatedCost | None:
    """Compute a turn's cost; an unknown prefix counts as not cached."""
    if line.packed is None:
        return None
    tokens, cached = line.packed.tokens, line.packed.prefix_tokens or 0
    return table.compute_cost(tokens, cached, answers, model=model)


def _build_list(ask: ListRequest[ThreadMoment]) -> Context:
    visit, word = ask.where, ask.parsed.options["mark"]
    state = load_state(visit.row, visit.moment.at_seq)
    marks = {n: mark.word for n, mark in state.marks.items()}
    listed, limit = turns.list_turns, ask.limit
    if word == LACKING:
        limit = min(limit, JUDGED)
    elif word:
        chosen = {n for n, each in marks.items() if each == word}
        listed = partial(turns.list_turns_of, numbers=chosen)
    found = listed(visit.row, up_to=visit.moment.at_seq, after=ask.after, limit=limit)
    lines: Sequence[TurnLine] = found.items
    if word == LACKING:
        lines = lacking.list_lacking_turns(visit.row, lines)
    rows = list_turn_rows(visit.row, lines, marks, alone=bool(word))
    return screens.build_list_context(ask, found) | {"rows": rows}


_read_mark = partial(screens.read_choice, "mark", (*WORDS, LACKING))
SCREEN = Screen(
    folder="turns",
    scope=screens.THREAD,
    tab="turns",
    panel=screens.build_newest_panel("turns", _build_list, read=_read_mark),
    lines=_build_list,
    read=_read_mark,
    around=lambda ask: {
        "marks": {word: ask.query(mark=word) for word in ("", *WORDS, LACKING)},
    },
)


@require_safe
@require_signed_in
def go_to_turn(request: HttpRequest, project: str, thread: str) -> HttpResponse:
    """Redirect to the turn of a number, or to the nearest turn."""
    visit = visits.find(request, project, thread)
    names = {"project": project, "thread": thread}
    wanted, last = asof.read_number(request, "n"), visit.row.turn_count
    if wanted is None or not last:
        return HttpResponseRedirect(reverse("turns", kwargs=names))
    n = min(max(1, wanted), last)
    return HttpResponseRedirect(reverse("turn", kwargs={**names, "n": n}))
