"""Citations in prose: which ids a text names, and which are left out."""

from __future__ import annotations

import pytest

from memoryhub.kernel.text.citations import CHARS, IDS, list_cited_ids, list_unknown


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Row 12 [ref: slot-1].", ("slot-1",)),
        ("[ref: a, b ,a][ref:c]", ("a", "b", "c")),
        ("[ref:][ref: , ][ref: a\nb][REF: a][ref a]", ()),
        ("[ref: [ref: a]]", ("a",)),
        ("[ref: a]\n```py\n[ref: b]\n~~~\n[ref: c]\n```\n[ref: d]", ("a", "d")),
        ("[ref: a]\n```\n[ref: b]", ("a",)),
        ("[ref: made up by me]", ("made up by me",)),
    ],
)
def test_text_cites_ids_of_its_prose(text: str, ids: tuple[str, ...]) -> None:
    assert list_cited_ids(text) == ids


def test_citations_are_bounded() -> None:
    many = "".join(f"[ref: p{n}]" for n in range(IDS + 1))
    assert list_cited_ids(many) == tuple(f"p{n}" for n in range(IDS))
    (long,) = list_cited_ids(f"[ref: {'p' * 10_000}]")
    assert len(long) == CHARS + 1
    assert list_unknown([long], ["p" * CHARS]) == ["p" * CHARS]
    assert len(list_unknown(list_cited_ids(many), ())) == 10
