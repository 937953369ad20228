"""Ranking: the records that a query finds, and their order. Pure.

BM25 (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009) with the N,
df and mean length of the searched records. A word counts once in each neighbourhood.
For a message, a word scores the most of its own score and a share of its scores in the
messages next to it, since people answer without repeating what they mean. Linear in the
records for each word. See decision 58.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple, get_args
from uuid import UUID

from memoryhub.kernel.search import terms
from memoryhub.kernel.search.arrays import Numbers, np
from memoryhub.kernel.search.index import Index
from memoryhub.kernel.search.parsing import MOST_TERMS, Filters, SearchQuery
from memoryhub.kernel.search.segments import (
    ENDED,
    MESSAGE,
    ROLES,
    Postings,
    number_names,
)
from memoryhub.kernel.search.terms import SearchWord

Order = Literal["best", "first", "newest"]
ORDERS: Final[tuple[Order, ...]] = get_args(Order)
#: Why a search found nothing, and why a word did not count.
Reason = Literal["no_match", "no_terms", "erased"]
Cut = Literal["stop", "absent"]

K1, B = 1.2, 0.75
#: Weight of another form of a word, compared with the exact form.
STEM_WEIGHT = 0.8
#: Share of a word's score in a message for the messages 1, 2 and 3 away.
NEAR = (0.6, 0.4, 0.2)
#: Microseconds of silence that end a sitting: no message beyond is a neighbour.
SITTING = 3_600_000_000
#: Records that are put in order, unless the caller asks for more.
MOST = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchScope:
    """Threads and versions that a search covers."""

    #: Last visible seq of each thread.
    up_to: Mapping[UUID, int]
    #: Whether the threads are a fork and its ancestors, eldest first: one history.
    lineage: bool = False
    #: Whether old versions of pages are searched as well.
    versions: bool = False
    #: Spans of seqs that are not visible, by thread.
    gone: Mapping[UUID, Sequence[tuple[int, int]]] = field(default_factory=dict)

    def is_visible(self, thread: UUID, seq: int) -> bool:
        """Return whether the search covers an event, unless a later one replaces it."""
        gone = self.gone.get(thread, ())
        inside = any(first <= seq <= last for first, last in gone)
        return seq <= self.up_to.get(thread, -1) and not inside


class MatchedTerm(NamedTuple):
    """A term of a query in one record."""

    term: str
    #: Frequency in the record; other forms of the word count less.
    tf: float
    idf: float
    exact: bool


class CutTerm(NamedTuple):
    term: str
    reason: Cut
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A term of a query with its frequency in each record."""

    term: str
    #: Frequency by record, other forms weighed less; 0 if absent or out of range.
    weighed: Numbers
    exact: Numbers
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Places of the found records in order, and the terms behind their scores."""

    places: Numbers
    scores: Numbers
    #: Number of found records, of which `places` are the first.
    total: int
    #: Number of records that the search covered.
    ranged: int
    counted: tuple[tuple[Term, float], ...] = ()
    cut: tuple[CutTerm, ...] = ()
    reason: Reason | None = None

    def list_matches(self, place: int) -> tuple[MatchedTerm, ...]:
        """Return the counted terms of a record, with their frequency and idf."""
        return tuple(
            MatchedTerm(
                term.term,
                float(term.weighed[place]),
                idf,
                bool(term.exact[place]),
            )
            for term, idf in self.counted
            if term.weighed[place] > 0
        )


def rank(
    index: Index, query: SearchQuery, scope: SearchScope, order: Order, most: int = MOST
) -> Ranking:
    """Find the records of a query, and put the first `most` in order.

    `best` takes records with any of the words, the highest score first; of equal
    records the one with the higher score of its own words, then the newer. The other
    orders take records with all words, by time. A phrase is only known to have all its
    words somewhere in the record: whoever opens the texts must check phrases.
    """
    seen = _select_seen(index, scope)
    ranged = seen & _select_filtered(index, query.filters)
    if not query.wanted:
        return _build_empty(ranged, reason="no_terms")
    stem = terms.build_stemmer()
    chosen = _choose_terms(index, query, ranged)
    found = _restrict_pairs(
        [_count_term(index, each, ranged, stem) for each in chosen], query
    )
    found += _count_dates(index, chosen, ranged)
    counted, cut = _split_counted(found, total=int(ranged.sum()))
    own, scores = _compute_scores(index, counted, ranged, seen)
    let = _select_required(index, query, ranged)
    candidates = own > 0 if order == "best" else _select_having_all(found, own > 0)
    places = np.flatnonzero(candidates & let)
    if not len(places):
        return _build_empty(ranged, cut=tuple(cut), reason="no_match")
    ordered = _sort_places(index, places, scores, own, order, most=most)
    return Ranking(
        places=ordered,
        scores=scores[ordered],
        total=len(places),
        ranged=int(ranged.sum()),
        counted=tuple(counted),
        cut=tuple(cut),
    )


def select_rarest(
    index: Index, words: Sequence[SearchWord], most: int
) -> tuple[SearchWord, ...]:
    """Return the words of a long text that stand in the fewest records, in text order.

    Each returned word stands in some record; of few words all are returned.
    """
    if len(words) <= most:
        return tuple(words)
    often = {word: _count_records(index, word) for word in words}
    there = sorted((word for word in words if often[word]), key=often.__getitem__)
    kept = {*there[:most]}
    return tuple(word for word in words if word in kept)


def _count_records(index: Index, word: SearchWord) -> int:
    """Count the records with a word, or with the commonest of its parts."""
    return max(
        sum(
            int(postings.starts[at + 1] - postings.starts[at])
            for postings in index.parts
            if (at := postings.find(term)) is not None
        )
        for term in word.spoken
    )


def _select_having_all(needed: Sequence[Term], candidates: Numbers) -> Numbers:
    """Select the candidate records that have all of the terms."""
    words = dict[str, Numbers]()
    for term in needed:
        words[term.term] = words.get(term.term, False) | (term.weighed > 0)
    for word, having in words.items():
        if word not in terms.STOP or len(words) == 1:
            candidates = candidates & having
    return candidates


def _select_required(index: Index, query: SearchQuery, ranged: Numbers) -> Numbers:
    """Select the records with all words of the phrases, and without excluded words."""
    let = ranged.copy()
    for phrase in query.phrases:
        for word in phrase:
            let &= _count_term(index, word, ranged, None).exact
    for unwanted in query.filters.without:
        without = ranged.copy()
        for term in [unwanted.whole] if unwanted.whole else unwanted.parts:
            without &= _count_term(index, term, ranged, None).exact
        let &= ~without
    return let


def _build_empty(
    ranged: Numbers, *, reason: Reason, cut: tuple[CutTerm, ...] = ()
) -> Ranking:
    empty = np.empty(0, np.int64)
    total = int(ranged.sum())
    return Ranking(
        places=empty, scores=empty, total=0, ranged=total, cut=cut, reason=reason
    )


def _select_seen(index: Index, scope: SearchScope) -> Numbers:
    """Select the records that are visible in the search scope."""
    records = index.records
    threads = records["thread"]
    caps = index.build_caps(scope.up_to)
    seen: Numbers = records["seq"] <= (caps[threads] if len(caps) else 0)
    pages = np.flatnonzero(seen & (records["page"] > 0))
    if len(pages):
        old = _find_superseded(index, pages, scope)
        seen[[] if scope.versions else old] = False
    seen &= records["kind"] > ENDED
    for at, thread in enumerate(index.threads):
        for first, last in scope.gone.get(thread, ()):
            inside = (records["seq"] >= first) & (records["seq"] <= last)
            seen &= ~(inside & (threads == at))
    return seen


def _find_superseded(index: Index, pages: Numbers, scope: SearchScope) -> Numbers:
    """Find the versions and ends of pages that a later record of the page follows."""
    rows = index.records[pages]
    at = {thread: n for n, thread in enumerate(scope.up_to)}
    depths = np.array([at.get(each, 0) for each in index.threads])[rows["thread"]]
    # Along a lineage a page goes on in its forks; else each thread has its own page.
    owners = np.zeros_like(depths) if scope.lineage else depths
    order = np.lexsort((rows["seq"], depths, rows["page"], owners))
    same = rows["page"][order][1:] == rows["page"][order][:-1]
    same &= owners[order][1:] == owners[order][:-1]
    old: Numbers = pages[order[:-1][same]]
    return old


def _select_filtered(index: Index, filters: Filters) -> Numbers:
    records = index.records
    let: Numbers = np.ones(len(records), bool)
    if filters.roles:
        codes = [ROLES.index(each) for each in sorted(filters.roles)]
        let &= np.isin(records["role"], codes)
    names = number_names(index.names)
    for column, wanted in (("kind", filters.kinds), ("type", filters.types)):
        if wanted:
            codes = [names.get(each, len(names)) for each in sorted(wanted)]
            let &= np.isin(records[column], codes)
    if filters.since is not None:
        let &= records["time"] >= filters.since
    if filters.until is not None:
        let &= records["time"] < filters.until
    if filters.turns is not None:
        first, last = filters.turns
        let &= (records["turn"] >= first) & (records["turn"] <= last)
    return let


def _choose_terms(index: Index, query: SearchQuery, ranged: Numbers) -> list[str]:
    """Choose the terms that count; of many terms, the rarest.

    An identifier counts as a whole, or in parts if the whole stands in no record.
    """
    chosen = list[str]()
    for word in query.wanted:
        whole = word.whole
        if word.parts and not (
            whole and _count_term(index, whole, ranged, None).records
        ):
            chosen += word.parts
        else:
            chosen.append(whole)
    different = [SearchWord(term) for term in dict.fromkeys(chosen)]
    return [word.whole for word in select_rarest(index, different, MOST_TERMS)]


def _count_term(
    index: Index, term: str, ranged: Numbers, stem: terms.Stem | None
) -> Term:
    """Count a term in each record; with `stem` also its other forms."""
    exact, stemmed = np.zeros(len(ranged), np.float32), ""
    for postings in index.parts:
        if (place := postings.find(term)) is not None:
            _add_counts(exact, postings, place, 1)
            stemmed = postings.stems[place]
    weighed = exact
    if stem is not None and term.isalpha():
        # Making a stem takes longer than all other work for a word.
        weighed, stemmed = exact.copy(), stemmed or stem(term)
        for postings in index.parts:
            for word in _iter_forms(postings, stemmed):
                if postings.words[word] != term:
                    _add_counts(weighed, postings, word, STEM_WEIGHT)
    weighed = np.where(ranged, weighed, 0)
    records = int(np.count_nonzero(weighed))
    return Term(term=term, weighed=weighed, exact=exact > 0, records=records)


def _restrict_pairs(found: Sequence[Term], query: SearchQuery) -> list[Term]:
    """Count pairs of letters only where a whole spelled word stands, if any does.

    A pair that belongs to no such word counts wherever it stands.
    """
    weighed = {each.term: each.weighed for each in found}
    kept = dict[str, Numbers]()
    for word in filter(lambda word: word.is_spelled, query.wanted):
        parts = [part for part in word.parts if part in weighed]
        every = np.logical_and.reduce([weighed[part] > 0 for part in parts])
        for part in parts if np.any(every) else ():
            kept[part] = kept.get(part, False) | every
    return [
        _restrict_term(each, kept[each.term]) if each.term in kept else each
        for each in found
    ]


def _restrict_term(term: Term, let: Numbers) -> Term:
    weighed = np.where(let, term.weighed, 0)
    return replace(term, weighed=weighed, records=int(np.count_nonzero(weighed)))


def _count_dates(index: Index, words: Sequence[str], ranged: Numbers) -> list[Term]:
    """Build a further term for each word that stands in the date of records."""
    found = list[Term]()
    for word in filter(terms.is_date_word, words):
        of_date = _count_term(index, terms.build_date_term(word), ranged, None)
        if of_date.records:
            found.append(replace(of_date, term=word))
    return found


def _iter_forms(postings: Postings, stemmed: str) -> Iterator[int]:
    """Yield words of a stem: their first letters are those of the stem.

    The words are sorted, so only words with the stem's first 2 to 4 letters are read.
    """
    beginning = stemmed[: max(2, min(len(stemmed) - 1, 4))]
    at = bisect_left(postings.words, beginning)
    # No word holds the last character of Unicode, which is none of a text.
    end = bisect_left(postings.words, f"{beginning}{chr(sys.maxunicode)}", at)
    with suppress(ValueError):
        while True:
            at = postings.stems.index(stemmed, at, end)
            yield at
            at += 1


def _add_counts(into: Numbers, postings: Postings, word: int, weight: float) -> None:
    start, end = postings.starts[word], postings.starts[word + 1]
    into[postings.records[start:end]] += postings.counts[start:end] * weight


def _split_counted(
    found: Sequence[Term], *, total: int
) -> tuple[list[tuple[Term, float]], list[CutTerm]]:
    """Return the terms that count, with their idf, and the terms that do not."""
    there = [term for term in found if term.records]
    telling = [term for term in there if term.term not in terms.STOP]
    if all(term.term in terms.STOP for term in found):
        # Stop words count where nothing else is asked for.
        telling = there
    counted = [(term, _compute_idf(term.records, total)) for term in telling]
    words = {term.term for term in telling}
    cut = [
        CutTerm(term.term, "stop" if term.records else "absent", term.records)
        for term in found
        if term.term not in words
    ]
    return counted, cut


def _compute_idf(records: int, total: int) -> float:
    return float(np.log1p((total - records + 0.5) / (records + 0.5)))


def _compute_scores(
    index: Index,
    counted: Sequence[tuple[Term, float]],
    ranged: Numbers,
    seen: Numbers,
) -> tuple[Numbers, Numbers]:
    """Return each record's score of its own words, and that with its neighbours."""
    lengths = index.records["length"].astype(np.float64)
    ranging = lengths[ranged]
    mean = float(ranging.mean()) if len(ranging) else 1.0
    norm = K1 * (1 - B + B * lengths / (mean or 1.0))
    messages, shares = _list_neighbours(index, seen)
    alone, around = np.zeros(len(ranged)), np.zeros(len(messages))
    for term, idf in counted:
        own = np.zeros(len(ranged))
        at = np.flatnonzero(term.weighed)
        often = term.weighed[at].astype(np.float64)
        own[at] = idf * often * (K1 + 1) / (often + norm[at])
        alone += own
        spoken = own[messages]
        best = spoken.copy()
        for away, share in enumerate(shares, 1):
            np.maximum(best[away:], share * spoken[:-away], out=best[away:])
            np.maximum(best[:-away], share * spoken[away:], out=best[:-away])
        around += best
    scores = alone.copy()
    scores[messages] = around
    return alone, np.where(ranged, scores, 0)


def _list_neighbours(index: Index, seen: Numbers) -> tuple[Numbers, list[Numbers]]:
    """Return the messages in order, and the shares of messages 1, 2 and 3 away."""
    records, kinds = index.records, number_names(index.names)
    there = np.flatnonzero(seen & (records["kind"] == kinds.get(MESSAGE, ENDED)))
    place = records["thread"][there].astype(np.int64) << 40 | records["seq"][there]
    messages = there[np.argsort(place, kind="stable")]
    thread, time = records["thread"][messages], records["time"][messages]
    ended = (thread[1:] != thread[:-1]) | (np.abs(np.diff(time)) > SITTING)
    sitting = np.concatenate([np.zeros(1, np.int64), np.cumsum(ended)])[: len(messages)]
    shares = [
        share * (sitting[away:] == sitting[:-away])
        for away, share in enumerate(NEAR, 1)
        if away < len(messages)
    ]
    return messages, shares


def _sort_places(
    index: Index,
    places: Numbers,
    scores: Numbers,
    own: Numbers,
    order: Order,
    *,
    most: int,
) -> Numbers:
    """Return the first `most` places in order."""
    records = index.records
    time, seq = records["time"][places], records["seq"][places]
    key = {"best": -scores[places], "first": time, "newest": -time}[order]
    if len(places) > most:
        last = np.partition(key, most - 1)[most - 1]
        kept = np.flatnonzero(key <= last)
        places, key, time, seq = places[kept], key[kept], time[kept], seq[kept]
    later = 1 if order == "first" else -1
    sorted_at = {each: at for at, each in enumerate(sorted(index.threads))}
    threads = np.array([sorted_at[each] for each in index.threads])
    at = threads[records["thread"][places]]
    keys = (at, later * seq, later * time, -own[places], key)
    ordered: Numbers = places[np.lexsort(keys if order == "best" else (*keys[:3], key))]
    return ordered[:most]
