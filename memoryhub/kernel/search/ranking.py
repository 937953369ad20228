"""Ranking: which records a query finds, and in what order. Pure.

BM25 (Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009) with the N,
df and mean length of what the search ranges over. A word counts once in each
neighbourhood: for a message by the most of what it scores there and of a share of what
it scores in those next to it, since people answer without repeating what they mean.
Linear in the records for each word.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
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
    named,
)
from memoryhub.kernel.search.terms import Word

Order = Literal["best", "first", "newest"]
ORDERS: Final[tuple[Order, ...]] = get_args(Order)
#: Why nothing was found, and why a word did not count.
Reason = Literal["no_match", "no_terms", "erased"]
Cut = Literal["stop", "absent"]

K1, B = 1.2, 0.75
#: How much another form of a word counts, beside the exact one.
STEM_WEIGHT = 0.8
#: Of what a word scores in a message, the share in those 1, 2 and 3 away.
NEAR = (0.6, 0.4, 0.2)
#: Microseconds of silence that end a sitting: beyond, nothing is near.
SITTING = 3_600_000_000
#: Records that are put in order, unless more are asked for.
MOST = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a search ranges over."""

    #: Up to which seq each thread is seen.
    up_to: Mapping[UUID, int]
    #: They are a fork and what it goes on from, eldest first: one history.
    lineage: bool = False
    #: Old versions of pages as well.
    versions: bool = False
    #: By thread, spans of seqs that are not seen.
    gone: Mapping[UUID, Sequence[tuple[int, int]]] = field(default_factory=dict)


class Matched(NamedTuple):
    """A term of a query in one record."""

    term: str
    #: How often; other forms of the word count less.
    tf: float
    idf: float
    exact: bool


class CutTerm(NamedTuple):
    term: str
    reason: Cut
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A term of a query over all records: how often it stands in each."""

    term: str
    #: By record, other forms weighed less; 0 where it is not, or out of range.
    weighed: Numbers
    exact: Numbers
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """Places of the records that were found, in order, and what their scores are of."""

    places: Numbers
    scores: Numbers
    #: How many there are, of which `places` are the first.
    total: int
    #: Records that the search ranged over.
    ranged: int
    counted: tuple[tuple[Term, float], ...] = ()
    cut: tuple[CutTerm, ...] = ()
    reason: Reason | None = None

    def why(self, place: int) -> tuple[Matched, ...]:
        """Return the terms of a record that counted, with what they counted by."""
        return tuple(
            Matched(
                term.term,
                float(term.weighed[place]),
                idf,
                bool(term.exact[place]),
            )
            for term, idf in self.counted
            if term.weighed[place] > 0
        )


def rank(
    index: Index, query: SearchQuery, scope: Scope, order: Order, most: int = MOST
) -> Ranked:
    """Find what a query asks for, and put the first `most` in order.

    `best` takes records with any of the words, the heaviest first; of equal ones that
    with more of its own, then the newer. The others take records with all words, by
    time. Phrases are only told to have all their words somewhere: who opens the texts
    checks them.
    """
    seen = _seen(index, scope)
    ranged = seen & _let_by(index, query.filters)
    if not query.wanted:
        return _none(ranged, reason="no_terms")
    stem = terms.stemmer()
    chosen = _chosen(index, query, ranged)
    found = _spelled([_term(index, each, ranged, stem) for each in chosen], query)
    found += _dates(index, chosen, ranged)
    counted, cut = _counted(found, total=int(ranged.sum()))
    own, scores = _scores(index, counted, ranged, seen)
    let = _required(index, query, ranged)
    candidates = own > 0 if order == "best" else _having(found, own > 0)
    places = np.flatnonzero(candidates & let)
    if not len(places):
        return _none(ranged, cut=tuple(cut), reason="no_match")
    ordered = _ordered(index, places, scores, own, order, most=most)
    return Ranked(
        places=ordered,
        scores=scores[ordered],
        total=len(places),
        ranged=int(ranged.sum()),
        counted=tuple(counted),
        cut=tuple(cut),
    )


def rarest(index: Index, words: Sequence[Word], most: int) -> tuple[Word, ...]:
    """Return of a long text the words that stand in the fewest records, in its order.

    As it is written each stands in some; of few words all are returned.
    """
    if len(words) <= most:
        return tuple(words)
    often = {word: _often(index, word) for word in words}
    there = sorted((word for word in words if often[word]), key=often.__getitem__)
    kept = {*there[:most]}
    return tuple(word for word in words if word in kept)


def _often(index: Index, word: Word) -> int:
    """In how many records a word stands, or the commonest of its parts."""
    return max(
        sum(
            int(postings.starts[at + 1] - postings.starts[at])
            for postings in index.parts
            if (at := postings.find(term)) is not None
        )
        for term in word.spoken
    )


def _having(needed: Sequence[Term], candidates: Numbers) -> Numbers:
    """Which of these records have all of the terms."""
    words = dict[str, Numbers]()
    for term in needed:
        words[term.term] = words.get(term.term, False) | (term.weighed > 0)
    for word, having in words.items():
        if word not in terms.STOP or len(words) == 1:
            candidates = candidates & having
    return candidates


def _required(index: Index, query: SearchQuery, ranged: Numbers) -> Numbers:
    """Which records have all words of the phrases, and none that keeps out."""
    let = ranged.copy()
    for phrase in query.phrases:
        for word in phrase:
            let &= _term(index, word, ranged, None).exact
    for unwanted in query.filters.without:
        without = ranged.copy()
        for term in [unwanted.whole] if unwanted.whole else unwanted.parts:
            without &= _term(index, term, ranged, None).exact
        let &= ~without
    return let


def _none(ranged: Numbers, *, reason: Reason, cut: tuple[CutTerm, ...] = ()) -> Ranked:
    empty = np.empty(0, np.int64)
    total = int(ranged.sum())
    return Ranked(
        places=empty, scores=empty, total=0, ranged=total, cut=cut, reason=reason
    )


def _seen(index: Index, scope: Scope) -> Numbers:
    """Which records are there for this search, by what it ranges over."""
    records = index.records
    threads = records["thread"]
    caps = index.caps(scope.up_to)
    seen: Numbers = records["seq"] <= (caps[threads] if len(caps) else 0)
    pages = np.flatnonzero(seen & (records["page"] > 0))
    if len(pages):
        old = _superseded(index, pages, scope)
        seen[[] if scope.versions else old] = False
    seen &= records["kind"] > ENDED
    for at, thread in enumerate(index.threads):
        for first, last in scope.gone.get(thread, ()):
            inside = (records["seq"] >= first) & (records["seq"] <= last)
            seen &= ~(inside & (threads == at))
    return seen


def _superseded(index: Index, pages: Numbers, scope: Scope) -> Numbers:
    """Of versions of pages and their ends those that another one follows."""
    rows = index.records[pages]
    at = {thread: n for n, thread in enumerate(scope.up_to)}
    depths = np.array([at.get(each, 0) for each in index.threads])[rows["thread"]]
    # Along a lineage a page goes on in its forks; elsewhere each thread has its own.
    owners = np.zeros_like(depths) if scope.lineage else depths
    order = np.lexsort((rows["seq"], depths, rows["page"], owners))
    same = rows["page"][order][1:] == rows["page"][order][:-1]
    same &= owners[order][1:] == owners[order][:-1]
    old: Numbers = pages[order[:-1][same]]
    return old


def _let_by(index: Index, filters: Filters) -> Numbers:
    records = index.records
    let: Numbers = np.ones(len(records), bool)
    if filters.roles:
        codes = [ROLES.index(each) for each in sorted(filters.roles)]
        let &= np.isin(records["role"], codes)
    names = named(index.names)
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


def _chosen(index: Index, query: SearchQuery, ranged: Numbers) -> list[str]:
    """The terms that count, of many the rarest.

    An identifier counts as a whole, or in parts if it is nowhere.
    """
    chosen = list[str]()
    for word in query.wanted:
        whole = word.whole
        if word.parts and not (whole and _term(index, whole, ranged, None).records):
            chosen += word.parts
        else:
            chosen.append(whole)
    different = [Word(term) for term in dict.fromkeys(chosen)]
    return [word.whole for word in rarest(index, different, MOST_TERMS)]


def _term(index: Index, term: str, ranged: Numbers, stem: terms.Stem | None) -> Term:
    """How often a term stands in each record; with `stem` its other forms as well."""
    exact, stemmed = np.zeros(len(ranged), np.float32), ""
    for postings in index.parts:
        if (place := postings.find(term)) is not None:
            _add(exact, postings, place, 1)
            stemmed = postings.stems[place]
    weighed = exact
    if stem is not None and term.isalpha():
        # To make one takes longer than all else that is done for a word.
        weighed, stemmed = exact.copy(), stemmed or stem(term)
        for postings in index.parts:
            for word in _forms(postings, stemmed):
                if postings.words[word] != term:
                    _add(weighed, postings, word, STEM_WEIGHT)
    weighed = np.where(ranged, weighed, 0)
    records = int(np.count_nonzero(weighed))
    return Term(term=term, weighed=weighed, exact=exact > 0, records=records)


def _spelled(found: Sequence[Term], query: SearchQuery) -> list[Term]:
    """The same, pairs of letters only where all of a word stand, if they do anywhere.

    A pair that is of no such word counts wherever it stands.
    """
    weighed = {each.term: each.weighed for each in found}
    kept = dict[str, Numbers]()
    for word in filter(lambda word: word.is_spelled, query.wanted):
        parts = [part for part in word.parts if part in weighed]
        every = np.logical_and.reduce([weighed[part] > 0 for part in parts])
        for part in parts if np.any(every) else ():
            kept[part] = kept.get(part, False) | every
    return [
        _only(each, kept[each.term]) if each.term in kept else each for each in found
    ]


def _only(term: Term, let: Numbers) -> Term:
    weighed = np.where(let, term.weighed, 0)
    return replace(term, weighed=weighed, records=int(np.count_nonzero(weighed)))


def _dates(index: Index, words: Sequence[str], ranged: Numbers) -> list[Term]:
    """Those of the words that are of a record's day, each beside that of the texts."""
    found = list[Term]()
    for word in filter(terms.names_date, words):
        of_date = _term(index, terms.date_term(word), ranged, None)
        if of_date.records:
            found.append(replace(of_date, term=word))
    return found


def _forms(postings: Postings, stemmed: str) -> Iterator[int]:
    """Words of a stem: they begin as it does, but for the last letters of short ones.

    The words are sorted, so only those that begin like it are looked at.
    """
    beginning = stemmed[: max(2, min(len(stemmed) - 1, 4))]
    first = bisect_left(postings.words, beginning)
    for at in range(first, len(postings.words)):
        if not postings.words[at].startswith(beginning):
            return
        if postings.stems[at] == stemmed:
            yield at


def _add(into: Numbers, postings: Postings, word: int, weight: float) -> None:
    start, end = postings.starts[word], postings.starts[word + 1]
    into[postings.records[start:end]] += postings.counts[start:end] * weight


def _counted(
    found: Sequence[Term], *, total: int
) -> tuple[list[tuple[Term, float]], list[CutTerm]]:
    """The terms that count, with their idf; and those that are cut."""
    there = [term for term in found if term.records]
    telling = [term for term in there if term.term not in terms.STOP] or there
    counted = [(term, _idf(term.records, total)) for term in telling]
    words = {term.term for term in telling}
    cut = [
        CutTerm(term.term, "stop" if term.records else "absent", term.records)
        for term in found
        if term.term not in words
    ]
    return counted, cut


def _idf(records: int, total: int) -> float:
    return float(np.log1p((total - records + 0.5) / (records + 0.5)))


def _scores(
    index: Index,
    counted: Sequence[tuple[Term, float]],
    ranged: Numbers,
    seen: Numbers,
) -> tuple[Numbers, Numbers]:
    """Return by record what its own words score, and that with its neighbourhood's."""
    lengths = index.records["length"].astype(np.float64)
    ranging = lengths[ranged]
    mean = float(ranging.mean()) if len(ranging) else 1.0
    norm = K1 * (1 - B + B * lengths / (mean or 1.0))
    messages, shares = _neighbours(index, seen)
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


def _neighbours(index: Index, seen: Numbers) -> tuple[Numbers, list[Numbers]]:
    """Return the messages in their order, and what those 1, 2, 3 further on share."""
    records, kinds = index.records, named(index.names)
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


def _ordered(
    index: Index,
    places: Numbers,
    scores: Numbers,
    own: Numbers,
    order: Order,
    *,
    most: int,
) -> Numbers:
    """The first `most` of these in order."""
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
