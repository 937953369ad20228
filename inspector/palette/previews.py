"""Previews: a page that was found, when it was first seen and when it left."""

from __future__ import annotations

from django.urls import reverse

from inspector.drawing import first_words, lifelines
from inspector.drawing.first_words import Pieces
from inspector.lists.screens import Context
from inspector.turns import turn_words
from memoryhub.errors import Refusal
from memoryhub.kernel.messages.reading import read
from memoryhub.kernel.messages.words import words as all_words
from memoryhub.kernel.search import excerpts, terms
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import newcomers, page_views
from memoryhub.queries.paging.page_views import PageView
from memoryhub.queries.search.searching import SearchRequest
from memoryhub.queries.threads.forks import get_segments
from memoryhub.queries.threads.threads import ThreadLine


def preview(
    row: Thread, page: str, words: str, *, at_seq: int | None, then: int | None
) -> Context:
    """Gather what is shown of a page beside what was found, by these words.

    `at_seq` is as of when it is looked at, `then` when it was said. As many queries as
    its own screen takes. `row` comes with its subject and project. Of a page that is
    gone, and of what is none, there is no `view`.
    """
    names = {"project": row.project.slug, "thread": row.name}
    around: Context = {
        "base": reverse("thread", kwargs=names),
        "thread": ThreadLine.of(row),
        "then": "" if then is None else f"?at_seq={then}",
    }
    seq = row.head_seq if at_seq is None else min(at_seq, row.head_seq)
    try:
        view = page_views.get_page(row, page, seq=seq)
    except Refusal:
        return around
    return {
        **around,
        **_leaving(row, view),
        "view": view,
        "marked": _marked(view, words),
        "line": lifelines.draw(
            view.life, head=view.head, here=None if at_seq is None else view.clock
        ),
        "axis": lifelines.axis(view.ticks, head=view.head),
        "carried": [each.turn for each in reversed(view.uses.carried)],
        "made": view.life.first("made", after=0),
    }


def _leaving(row: Thread, view: PageView) -> Context:
    """Gather when it last left, for what, and whether it was wanted since."""
    left = view.life.last("left", up_to=view.clock)
    came = newcomers.get_newcomers(get_segments(row), [left]) if left else {}
    newcomer = came.get((left.thread, left.seq)) if left else None
    return {
        "left": left,
        "why": turn_words.leaving(left, newcomer),
        "newcomer": newcomer,
        "wanted": left and view.life.first("fetched", "refused", after=left.clock),
    }


def _marked(view: PageView, query: str) -> Pieces:
    """The part of its whole text that has most of what was looked for."""
    content = view.levels[0].content
    if content is None:
        return []
    text = content if isinstance(content, str) else all_words(read(content))
    looked_for = SearchRequest.parse(query, can_exclude=True).query.wanted
    wanted = {term for word in looked_for for term in word.terms}
    return first_words.excerpt_pieces(excerpts.excerpt(text, wanted, terms.stemmer()))
