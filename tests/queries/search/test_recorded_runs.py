"""On recorded runs of a real agent: three rarer words of a message bring it first."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from memoryhub.journal.log import thread_terms
from memoryhub.kernel.search import terms
from memoryhub.models.projects import Project
from memoryhub.models.subjects import Subject
from memoryhub.models.threads import Thread
from memoryhub.queries.search.searching import SearchRequest, recall
from tests.cast import sample
from tests.cast.recordings import take

pytestmark = pytest.mark.django_db


def test_three_rare_words_of_a_known_message_return_it_first(acme: Project) -> None:
    take(acme, sample.require_path())
    rng = random.Random(3)
    # In the order of names: ids are others each time, and another draw may fail.
    threads = Thread.objects.filter(project=acme).select_related("subject")
    by_subject: dict[Subject, list[Thread]] = {}
    for row in threads.order_by("name"):
        by_subject.setdefault(row.subject, []).append(row)
    for subject, rows in [*by_subject.items()][: sample.SUBJECTS]:
        texts = {
            (row.id, each.seq): each.text
            for row in rows
            for each in thread_terms.read(row, (1, row.head_seq), most=10_000).records
            if each.kind == "message"
        }
        spread = Counter(
            w for text in texts.values() for w in {*terms.list_terms(text)}
        )
        place = rng.choice([each for each in texts if _rare(texts[each], spread)])
        words = _rare(texts[place], spread)
        result = recall(subject, SearchRequest.parse(" ".join(words)))
        first = result.items[0]
        assert (first.thread, first.seq) == place, words
    assert len(by_subject) >= sample.SUBJECTS


def _rare(text: str, spread: Counter[str]) -> list[str]:
    """Return three words of a text that occur in at most one other text."""
    words = {w for w in terms.list_terms(text) if w.isalnum() and len(w) > 2}
    ordered = sorted(words - terms.STOP, key=lambda word: (spread[word], word))
    rare = [word for word in ordered if spread[word] <= 2]
    return rare[:3] if len(rare) >= 3 and spread[rare[0]] == 1 else []
