"""Predicates in use: one spelling of each that a subject's claims have."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from django.db.models import Max

from memoryhub.journal import texts
from memoryhub.models.subjects import Subject
from memoryhub.queries.knowledge.homes import find_home
from memoryhub.queries.knowledge.timelines import select_rows
from memoryhub.vault.keys.blind_index import fold_predicate

#: Predicates that a list names, at most.
SHOWN = 50
#: Share of equal letters from which on two predicates are taken for one.
_CLOSE = 0.8


def list_predicates(subject: Subject) -> list[str]:
    """List the predicates of claims that nobody retracted, newest first, at most 50.

    Each as its newest claim spells it. Three queries.
    """
    home = find_home(subject)
    if home is None:
        return []
    rows = select_rows(home).filter(cardinality=None, retracted_seq=None)
    newest = rows.order_by().values("predicate").annotate(newest=Max("seq"))
    seqs = newest.order_by("-newest").values_list("newest", flat=True)[:SHOWN]
    places = [(home.id, seq) for seq in seqs]
    opened = texts.open_events_at(home, places)
    found = [opened[place].content for place in places]
    return [content["predicate"] for content in found if content]


def find_near_predicate(typed: str, used: Sequence[str]) -> str | None:
    """Find the predicate in use that `typed` nearly is; None if it is one itself."""
    spelled = {fold_predicate(each): each for each in used}
    folded = fold_predicate(typed)
    if folded in spelled:
        return None
    near = get_close_matches(folded, spelled, n=1, cutoff=_CLOSE)
    return spelled[near[0]] if near else None
