"""Search: what it costs over a hundred thousand records, and whether it finds.

The records are made of the words of recorded runs, or of made ones, 300 characters
each. Known items are looked for by three of their rarer words; SQLite's FTS5 is asked
for the same over the same plain text, with its own bm25.
"""

from __future__ import annotations

import random
import sqlite3
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from benchmarks import messages
from benchmarks.figures import Figure, Goal, Pace
from memoryhub.kernel.search import ranking, segments, terms
from memoryhub.kernel.search.index import Index
from memoryhub.kernel.search.parsing import SearchQuery
from memoryhub.kernel.search.ranking import SearchScope
from memoryhub.kernel.search.segments import IndexSegment, SearchRecord
from memoryhub.kernel.search.terms import SearchWord

RECORDS, QUICK, LENGTH = 100_000, 5_000, 300
QUERIES, ITEMS = 200, 200
THREAD = UUID(int=1)
#: Words of a number that stands for what differs from text to text.
_RARE = 3


def measure(pace: Pace) -> list[Figure]:
    """Search over 100,000 records of one subject: time, memory, size, recall."""
    count = QUICK if pace.quick else RECORDS
    texts = [*_texts(count)]
    segment = segments.build(_records(texts))
    plain = segments.to_bytes(segment)
    loading, index = _loaded(plain, count)
    return [
        *_latencies(index, segment, count),
        Figure(
            question="Cold load of a subject's index",
            value=loading,
            unit="s",
            goal=Goal(most=1),
        ),
        Figure(
            question="Memory of the index",
            value=_memory(plain, count) / 1e6,
            unit="MB",
            goal=Goal(most=40),
        ),
        Figure(
            question="Segment on disk, a record",
            value=len(plain) / count,
            unit="bytes before they are compressed",
        ),
        *_found(),
    ]


def _texts(count: int) -> Iterator[str]:
    rng = random.Random(7)
    words = [w for each in _said() for w in each.split()]
    for _ in range(count):
        start = rng.randrange(len(words))
        text = " ".join(words[start : start + 60])[: LENGTH - 10]
        yield f"{text} {rng.randrange(10**9):09d}"


def _said() -> list[str]:
    found = (str(each.get("content") or "") for each in messages.messages())
    return [text for text in found if text]


def _records(texts: Sequence[str]) -> Iterator[SearchRecord]:
    for seq, text in enumerate(texts, 1):
        yield SearchRecord(
            seq, seq, seq // 10, "message", "user", "chat.user", "", text
        )


def _loaded(plain: bytes, count: int) -> tuple[float, Index]:
    begun = time.perf_counter()
    segment = segments.from_bytes(plain)
    assert segment is not None
    index = Index().add_segments([(THREAD, segment)], {THREAD: ((1, count),)})
    return time.perf_counter() - begun, index


def _memory(plain: bytes, count: int) -> int:
    tracemalloc.start()
    _, index = _loaded(plain, count)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held if index.records.size else 0


def _latencies(index: Index, segment: IndexSegment, count: int) -> Iterator[Figure]:
    rng = random.Random(11)
    often = {
        word: int(end - start)
        for word, start, end in zip(
            segment.postings.words,
            segment.postings.starts[:-1],
            segment.postings.starts[1:],
            strict=True,
        )
    }
    common = sorted(often, key=often.__getitem__, reverse=True)[:4]
    words = [*often]
    asked: dict[str, Callable[[], list[str]]] = {
        f"{n} word{'s' if n > 1 else ''}": lambda n=n: rng.sample(words, n)  # type: ignore[misc]
        for n in (1, 3, 8)
    }
    asked["the four commonest"] = lambda: common
    for name, pick in asked.items():
        taken = sorted(_time(index, pick(), count) for _ in range(QUERIES))
        yield Figure(
            question=f"Warm search, {name}: p99 of CPU time",
            value=taken[-max(1, QUERIES // 100) - 1] * 1e3,
            unit="ms",
            goal=Goal(most=50),
            behind=f"median {taken[QUERIES // 2] * 1e3:.1f} ms",
        )


def _time(index: Index, words: Sequence[str], count: int) -> float:
    # CPU time, since the machine may be shared; a search waits for nothing.
    query = SearchQuery(words=tuple(map(SearchWord, words)))
    begun = time.thread_time()
    ranking.rank(index, query, SearchScope(up_to={THREAD: count}), "best")
    return time.thread_time() - begun


def _found() -> Iterator[Figure]:
    """Yield the recall of known items beside FTS5's, in points of a hundred."""
    texts = _said()
    index = Index().add_segments(
        [(THREAD, segments.build(_records(texts)))], {THREAD: ((1, len(texts)),)}
    )
    spread = Counter(word for text in texts for word in set(terms.list_terms(text)))
    items = [*_items(texts, spread)]
    peer = open_fts5(texts)
    for most in (5, 10):
        ours = sum(
            at + 1 in _ours(index, words, len(texts), most) for at, words in items
        )
        theirs = sum(at + 1 in _theirs(peer, words, most) for at, words in items)
        share = 100 / max(1, len(items))
        yield Figure(
            question=f"Known items among the first {most}, less what FTS5 finds",
            value=(ours - theirs) * share,
            unit="points",
            goal=Goal(least=-2),
            behind=f"{ours * share:.1f} % and {theirs * share:.1f} %",
        )


def _items(
    texts: Sequence[str], spread: Counter[str]
) -> Iterator[tuple[int, list[str]]]:
    """Yield messages, each with three words neither everywhere nor unique."""
    rng = random.Random(13)
    for at in rng.sample(range(len(texts)), min(ITEMS, len(texts))):
        words = {w for w in terms.list_terms(texts[at]) if w.isalnum() and len(w) > 2}
        rare = sorted(words - terms.STOP, key=lambda word: (spread[word], word))
        if len(rare) >= 2 * _RARE:
            yield at, rare[_RARE : 2 * _RARE]


def _ours(index: Index, words: Sequence[str], count: int, most: int) -> list[int]:
    query = SearchQuery(words=tuple(map(SearchWord, words)))
    found = ranking.rank(index, query, SearchScope(up_to={THREAD: count}), "best")
    return [int(seq) for seq in index.records["seq"][found.places[:most]]]


def open_fts5(texts: Sequence[str]) -> sqlite3.Connection:
    """Open a full-text table of SQLite in memory, with a row for each text."""
    peer = sqlite3.connect(":memory:")
    peer.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize='porter unicode61')")
    peer.executemany("INSERT INTO t(x) VALUES (?)", [(text,) for text in texts])
    return peer


def _theirs(peer: sqlite3.Connection, words: Sequence[str], most: int) -> list[int]:
    wanted = " OR ".join(f'"{word}"' for word in words)
    rows = peer.execute(
        "SELECT rowid FROM t WHERE t MATCH ? ORDER BY bm25(t), rowid DESC LIMIT ?",
        (wanted, most),
    )
    return [row for (row,) in rows]
