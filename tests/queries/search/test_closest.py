"""Search of a thread with the words side by side first."""

from __future__ import annotations

import pytest

from memoryhub.queries.search.closest import has_classes, search_closest
from memoryhub.queries.search.searching import SearchRequest, search_thread
from memoryhub.services.access.api_keys import Agent
from tests.cast import factories

pytestmark = pytest.mark.django_db


def test_text_with_the_words_side_by_side_comes_before_better_scores(
    agent: Agent,
) -> None:
    often = "Night: a ferry, slow. Ferry, slow, night. A slow one, a night one."
    said = "I took " + "a very long walk before I took " * 9 + "the slow night ferry."
    factories.append(agent, "t-1", often, said, "A ferry.")
    row = factories.get_thread(agent, "t-1")
    request = SearchRequest.parse("slow night ferry", limit=2)
    assert [hit.slot for hit in search_thread(row, request).items] == [0, 1]
    found = search_closest(row, request)
    assert [(hit.slot, hit.closeness) for hit in found.items] == [
        (1, "phrase"),
        (0, "words"),
    ]
    assert found.total == 3


@pytest.mark.parametrize(
    ("text", "order", "expected"),
    [
        ("slow ferry", "best", True),
        ("slow ferry", "newest", False),
        ("ferry", "best", False),
        ('"slow ferry"', "best", False),
    ],
)
def test_hits_have_classes_for_several_words_in_the_order_best(
    text: str, order: str, *, expected: bool
) -> None:
    assert has_classes(SearchRequest.parse(text, order=order)) == expected  # type: ignore[arg-type]
