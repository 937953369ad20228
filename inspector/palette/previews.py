"""Previews of a page that a search found, with its life and last eviction."""

from __future__ import annotations

from django.urls import reverse

from inspector.drawing import first_words, lifelines
from inspector.drawing.first_words import Pieces
from inspector.lists.screens import Context
from inspector.turns import turn_words
from memoryhub.errors import Refusal
from memoryhub.kernel.messages.reading import read
from memoryhub.kernel.messages.words import render_words as all_words
from memoryhub.kernel.observing.lines import find_signs
from memoryhub.kernel.search import excerpts, terms
from memoryhub.kernel.state.pages import is_observation
from memoryhub.models.threads import Thread
from memoryhub.queries.paging import newcomers, page_views
from memoryhub.queries.paging.page_views import PageView
from memoryhub.queries.search.searching import SearchRequest
from memoryhub.queries.threads.forks import get_segments
from memoryhub.queries.threads.threads import ThreadLine


def build_preview(
    row: Thread, page: str, words: str, *, at_seq: int | None, then: int | None
) -> Context:
    """Build the context of a page's preview beside search hits for `words`.

    `at_seq` is the moment of the search, `then` the event of the hit. As many queries
    as the page's own screen. `row` must be loaded with its subject and project. The
    context has no `view` if the page was erased or never existed.
    """
    names = {"project": row.project.slug, "thread": row.name}
    around: Context = {
        "base": reverse("thread", kwargs=names),
        "thread": ThreadLine.from_row(row),
        "then": "" if then is None else f"?at_seq={then}",
    }
    seq = row.head_seq if at_seq is None else min(at_seq, row.head_seq)
    try:
        view = page_views.get_page(row, page, seq=seq)
    except Refusal:
        return around
    leaving = _build_leaving(row, view)
    carried = [each.turn for each in reversed(view.uses.carried)]
    left = leaving["left"]
    return {
        **around,
        **leaving,
        "view": view,
        "marked": _build_excerpt(view, words),
        "line": lifelines.draw(
            view.life, head=view.head, here=None if at_seq is None else view.clock
        ),
        "axis": lifelines.place_ticks(view.ticks, head=view.head),
        "carried": carried,
        # A text may be recalled after it has left.
        "again": [turn for turn in carried if left and turn > left.turn],
        "made": view.life.find_first("made", after=0),
    }


def _build_leaving(row: Thread, view: PageView) -> Context:
    """Build the context of the page's last eviction: cause, newcomer, later fetch."""
    left = view.life.find_last("left", up_to=view.clock)
    came = newcomers.get_newcomers(get_segments(row), [left]) if left else {}
    newcomer = came.get((left.thread, left.seq)) if left else None
    return {
        "left": left,
        "why": turn_words.describe_leaving(left, newcomer),
        "newcomer": newcomer,
        "wanted": left and view.life.find_first("fetched", "refused", after=left.clock),
    }


def _build_excerpt(view: PageView, query: str) -> Pieces:
    """Build the excerpt of the page's full text with the most search words."""
    content = view.levels[0].content
    if content is None:
        return []
    text = content if isinstance(content, str) else all_words(read(content))
    looked_for = SearchRequest.parse(query, can_exclude=True).query.wanted
    wanted = {term for word in looked_for for term in word.terms}
    # As in the list of hits, such words count where nothing else is looked for.
    wanted = wanted - terms.STOP or wanted
    found = excerpts.build_excerpt(text, wanted, terms.build_stemmer())
    if is_observation(view.entry.page_id):
        found = excerpts.cut_out(found, find_signs(found.text))
    return first_words.split_excerpt(found)
