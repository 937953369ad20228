"""Terms, queries, segments, ranks and excerpts, without a database."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.errors import InvalidError
from memoryhub.kernel.search import parsing, ranking, segments, terms
from memoryhub.kernel.search.excerpts import (
    LONGEST,
    build_excerpt,
    cut_out,
    narrow_excerpt,
)
from memoryhub.kernel.search.index import Index, list_missing_spans, unite_spans
from memoryhub.kernel.search.ranking import SearchScope
from memoryhub.kernel.search.segments import IndexSegment, SearchRecord

ONE, TWO = UUID(int=1), UUID(int=2)
TEXTS = st.lists(st.text("ab -.中文é", max_size=30), max_size=12)


def built(
    texts: Sequence[str],
    first: int = 1,
    *,
    times: Sequence[int] = (),
    senders: Sequence[str] = (),
) -> IndexSegment:
    rows = zip_longest(texts, times, senders)
    return segments.build(
        SearchRecord(
            seq, at or seq * 10, 1, "message", "user", "", "", text, sender or ""
        )
        for seq, (text, at, sender) in enumerate(rows, first)
    )


def index_of(*texts: str) -> Index:
    return Index().add_segments([(ONE, built(texts))], {ONE: ((1, len(texts)),)})


def ranked(index: Index, query: str, order: ranking.Order = "best") -> list[int]:
    scope = SearchScope(up_to=dict.fromkeys(index.threads, 1_000))
    found = ranking.rank(index, parsing.parse(query, kinds=()), scope, order)
    return [int(seq) for seq in index.records["seq"][found.places]]


def _scored(index: Index, query: str) -> dict[int, float]:
    scope = SearchScope(up_to={ONE: 1_000})
    found = ranking.rank(index, parsing.parse(query, kinds=()), scope, "best")
    seqs = index.records["seq"][found.places]
    return dict(zip(seqs.tolist(), found.scores.tolist(), strict=True))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("HAT-0231!", ["hat-0231", "hat", "0231"]),
        ("zfa04y", ["zfa04y"]),
        ("ＡＢＣ Straße", ["abc", "strasse"]),
        ("手机壳", ["手机", "机壳"]),
        ("中", ["中"]),
        ("e\u0301te\u0301 été", ["ete", "ete"]),
        ("İSTANBUL Łódź København", ["istanbul", "lodz", "kobenhavn"]),
        ("हिन्दी が 각", ["हिन्दी", "が", "각"]),
        ("แมวดำ", ["แม", "มว", "วด", "ดํ", "ํา"]),
        ("ราคา๑๒๓usb", ["รา", "าค", "คา", "๑๒๓usb"]),
        ("x" * 129, []),
        ("… -- !", []),
    ],
)
def test_text_is_split_into_its_terms(text: str, found: list[str]) -> None:
    assert terms.list_terms(text) == found


@given(st.text(max_size=60))
def test_term_spans_match_the_text(text: str) -> None:
    for run in terms.iter_runs(text):
        assert tuple(terms.list_terms(text[run.start : run.end])) == run.word.terms


@given(st.text(st.characters(max_codepoint=127)))
def test_plain_ascii_is_read_as_other_text_is(text: str) -> None:
    *runs, accented = terms.iter_runs(f"{text} é")
    assert [*terms.iter_runs(text)] == runs
    assert accented.word.whole == "e"


def test_unknown_filter_is_searched_as_ordinary_text() -> None:
    query = parsing.parse('role:bard kind:dream from:soon "open -', kinds=["note"])
    assert query.filters == parsing.Filters()
    assert [word.whole for word in query.words] == [
        *("role:bard", "kind:dream", "from:soon", "open")
    ]


@pytest.mark.parametrize(
    "text", ["rm -rf", "--no-verify-ssl", 'lamp -"blue red"', "lamp not:blue"]
)
def test_plain_text_is_no_filter(text: str) -> None:
    query = parsing.parse(text, kinds=())
    assert query == parsing.SearchQuery(words=parsing.list_words(text))


def test_run_without_spaces_is_one_term_of_a_query() -> None:
    query = parsing.parse("แมวดำตัวนี้นอนอยู่บนเก้าอี้" * 5, kinds=())
    assert query.term_count == 1
    index = index_of("หมาวิ่ง", "เมื่อวานแมวดำตัวนี้นอนอยู่บนเก้าอี้", *FAR)
    found = ranking.rank(index, query, SearchScope(up_to={ONE: 1_000}), "best")
    assert index.records["seq"][found.places][0] == 2
    # A text with all letters of a word leaves out those with some of them.
    index = index_of("แม่", "ไปตลาดกับแม่และพี่สาวเมื่อวานนี้แล้วเจอแมว", *FAR)
    assert ranked(index, "แมว") == [2]
    assert sorted(ranked(index, "แมงมุม")) == [1, 2]


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_001,
        " ".join(f"w{n}" for n in range(65)),
        "to:2025-01-01 from:2026-01-01",
    ],
)
def test_query_too_long_or_backwards_is_refused(text: str) -> None:
    with pytest.raises(InvalidError):
        parsing.parse(text, kinds=())


@given(first=TEXTS, second=TEXTS)
def test_segments_joined_are_as_if_made_at_once(
    first: list[str], second: list[str]
) -> None:
    whole = built([*first, *second])
    parts = [built(first), built(second, len(first) + 1)]
    again = segments.from_bytes(segments.to_bytes(segments.join_segments(parts)))
    assert again is not None
    for kept, made in (
        (again.records["seq"], whole.records["seq"]),
        (again.records["length"], whole.records["length"]),
        (again.postings.starts, whole.postings.starts),
        (again.postings.records, whole.postings.records),
        (again.postings.counts, whole.postings.counts),
    ):
        assert np.array_equal(kept, made)
    assert again.postings.words == whole.postings.words
    assert again.postings.stems == whole.postings.stems


def test_scores_are_bm25() -> None:
    """The score is computed by hand: N 3, df 1, mean lengths, k1 1.2, b 0.75."""
    index = index_of("lamp on", "a b", "c d")
    query = parsing.parse("lamp", kinds=())
    found = ranking.rank(index, query, SearchScope(up_to={ONE: 3}), "best")
    assert found.scores.tolist() == pytest.approx([np.log(1 + 2.5 / 1.5)])


FAR = ["w", "v", "u", "t"]


def test_word_counts_once_per_neighbourhood() -> None:
    """A word adds its highest score in a neighbourhood, not the sum of its scores."""
    index = index_of("blue", "lamp", *FAR, "blue", *FAR, "lamp", "blue", "lamp")
    assert ranked(index, "blue lamp")[-1] == 7
    scores = _scored(index, "blue lamp")
    assert scores[1] == scores[13] > scores[7]
    # Each is found by a word of its own.
    assert sorted(scores) == [1, 2, 7, 12, 13, 14]


def test_records_an_hour_apart_are_not_neighbours() -> None:
    hour = ranking.SITTING + 1
    times = [0, 1, 2, 2 + hour, 3 + hour]
    texts = ["blue", "lamp", "x", "x", "blue"]
    index = Index().add_segments([(ONE, built(texts, times=times))], {ONE: ((1, 5),)})
    assert ranked(index, "blue lamp")[-1] == 5


def test_record_is_found_by_its_sender_and_its_day() -> None:
    index = Index().add_segments([(ONE, built(["a", "b"], senders=["Ann", ""]))], {})
    assert ranked(index, "ann") == [1]
    assert ranked(index, "january 1970") == [1, 2][::-1]


def test_dates_of_records_make_no_word_common() -> None:
    """All records are of the 1st of January, and one speaks of a 1."""
    index = index_of("lamp", *FAR, "lamp 1", *FAR, "lamp")
    assert ranked(index, "lamp 1")[0] == 6
    scores = _scored(index, "1")
    assert scores[6] > 10 * max(
        score for seq, score in scores.items() if abs(seq - 6) > 3
    )
    assert ranked(index, "lamp 1", "first") == [1, 6, 11]


def test_stop_words_find_records_only_when_searched_alone() -> None:
    index = index_of(*["the sea is wide"] * 9, "the blue lamp")
    assert ranked(index, "the lamp") == [10]
    assert len(ranked(index, "the of")) == 10
    assert ranked(index, "the whale") == []


def test_equal_scores_are_ordered_newest_first() -> None:
    index = index_of("a lamp", "x", "y", "z", "w", "v", "u", "t", "s", "a lamp")
    assert ranked(index, "lamp") == [10, 1]
    assert ranked(index, "lamp", "first") == [1, 10]


def test_score_ignores_threads_outside_the_search_scope() -> None:
    one = index_of("lamp on", "a b", "c d")
    both = one.add_segments([(TWO, built(["lamp"] * 9))], {TWO: ((1, 9),)})
    query = parsing.parse("lamp", kinds=())
    scope = SearchScope(up_to={ONE: 3})
    before, after = (ranking.rank(each, query, scope, "best") for each in (one, both))
    assert before.scores.tolist() == after.scores.tolist()


def test_excerpt_shows_the_text_beside_the_words() -> None:
    lines = [f"Line {n} of record 12 has the value {n}." for n in range(60)]
    lines[40] = "The code of record 12 is 1753163006."
    assert (
        "1753163006"
        in build_excerpt(
            "\n".join(lines), ["code", "record", "12"], terms.build_stemmer()
        ).text
    )


def test_narrow_excerpt_lies_around_most_matches() -> None:
    text = f"A lamp. {'filler ' * 20}The green lamp, a lamp. {'filler ' * 6}"
    whole = build_excerpt(text, ["lamp", "green"], terms.build_stemmer())
    found = narrow_excerpt(whole, 60)
    assert len(found.text) <= 60
    assert [found.text[a:b] for a, b in found.matches] == ["green", "lamp", "lamp"]
    assert (found.before, found.after) == (True, True)
    assert narrow_excerpt(found, 60) == found
    plain = build_excerpt("filler " * 20, ["lamp"], terms.build_stemmer())
    assert narrow_excerpt(plain, 60).text.startswith("filler")


def test_excerpt_without_spans_keeps_its_matches() -> None:
    whole = build_excerpt("## a lamp\n- lamp", ["lamp"], terms.build_stemmer())
    found = cut_out(whole, [(0, 5), (9, 12)])
    assert found.text == "lamp · lamp"
    assert [found.text[a:b] for a, b in found.matches] == ["lamp", "lamp"]
    assert cut_out(whole, []) == whole
    assert cut_out(whole, [(0, len(whole.text))]).matches == ()


def test_excerpt_marks_words_inside_a_run() -> None:
    text = "เมื่อวานเราทำงานที่ร้าน" * 20 + "แล้วแมวดำนอนอยู่บนเก้าอี้"
    found = build_excerpt(text, terms.list_terms("แมวดำ"), terms.build_stemmer())
    assert "แมวดำ" in [found.text[start:end] for start, end in found.matches]


@given(st.text("ab lamp.", max_size=900))
def test_excerpt_is_short_and_its_matches_are_words(text: str) -> None:
    found = build_excerpt(text, ["lamp"], terms.build_stemmer())
    assert len(found.text) <= LONGEST
    assert found.text in text
    for start, end in found.matches:
        assert "lamp" in terms.list_terms(found.text[start:end])


def test_spans_are_joined_and_gaps_are_found() -> None:
    assert unite_spans([(5, 6), (1, 2), (3, 4), (9, 9)]) == ((1, 6), (9, 9))
    assert list_missing_spans([(1, 6), (9, 9)], 12) == [(7, 8), (10, 12)]
    assert list_missing_spans([(1, 12)], 12) == []
