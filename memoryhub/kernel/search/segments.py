"""Segments: terms of records as arrays that are stored, joined and searched. Pure.

A record is a row of `RECORD`. Postings list, by sorted word, the records with the word
and its frequency. Each word comes with its stem, so that a search makes no stems.
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, count
from typing import Any, Final, NamedTuple

from memoryhub.kernel.search import terms
from memoryhub.kernel.search.arrays import Numbers, Records, np

#: Kinds of records that nobody finds, and that only end earlier records: a deleted
#: page, inherited records that a fork has erased, and a struck message.
DELETED, ERASED, STRUCK = "~deleted", "~erased", "~struck"
#: Names of each segment, in its first places.
_NAMES: Final = ("", DELETED, ERASED, STRUCK)
#: Last of the kinds that no search finds.
ENDED: Final = len(_NAMES) - 1
#: Kind of the messages of a thread.
MESSAGE: Final = "message"
ROLES: Final = ("", "user", "assistant", "tool", "system")

#: The columns of a record, as numpy takes them.
RECORD: Final = [
    ("seq", "<i8"),
    #: Microseconds since 1970.
    ("time", "<i8"),
    ("turn", "<i4"),
    #: Number of words; an identifier counts as many words as it has parts.
    ("length", "<u4"),
    #: Places in the names.
    ("kind", "<u4"),
    ("type", "<u4"),
    ("page", "<u4"),
    #: Place in an index's threads.
    ("thread", "<u4"),
    ("role", "u1"),
]
_HEAD = struct.Struct("<I")
_MOST_OFTEN = 255
#: Microseconds.
_DAY = 86_400_000_000


class SearchRecord(NamedTuple):
    """A searchable record with its text."""

    seq: int
    #: Microseconds since 1970.
    time: int
    turn: int
    kind: str
    role: str
    type: str
    page: str
    text: str
    #: Sender of the message, by its name in the thread.
    sender: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Postings:
    """The records of each word, ascending, with the word's frequency."""

    #: Sorted words.
    words: tuple[str, ...]
    #: Stem of each word.
    stems: tuple[str, ...]
    #: Start of each word: word n has the entries from starts[n] to starts[n + 1].
    starts: Numbers
    records: Numbers
    counts: Numbers
    #: Approximate size in bytes. Counted once: an index is weighed at each search.
    size: int = field(init=False)

    def __post_init__(self) -> None:
        words = sum(map(len, self.words)) + 120 * len(self.words)
        arrays = (self.starts, self.records, self.counts)
        size = words + sum(each.nbytes for each in arrays)
        object.__setattr__(self, "size", size)

    def find(self, word: str) -> int | None:
        """Return the number of a word; None if the postings do not hold the word."""
        at = bisect_left(self.words, word)
        return at if at < len(self.words) and self.words[at] == word else None

    def shift_records(self, by: int) -> Postings:
        """Return a copy with all record numbers raised by `by`."""
        return Postings(
            words=self.words,
            stems=self.stems,
            starts=self.starts,
            records=self.records + np.uint32(by),
            counts=self.counts.copy(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSegment:
    """Records of a run of a thread, and their postings."""

    records: Records
    #: Names of kinds, types and pages; the first is empty.
    names: tuple[str, ...]
    postings: Postings


def build(
    found: Iterable[SearchRecord], stem: terms.Stem | None = None
) -> IndexSegment:
    """Build a segment of records in the order of their seqs. Linear in their texts.

    `stem` stems the words; without it a new stemmer does.
    """
    rows, names = list[tuple[Any, ...]](), number_names()
    numbers = defaultdict[str, int](count().__next__)
    word_numbers, sizes = list[int](), list[int]()
    # Most records of a run are of one day.
    build_dates = cache(terms.build_date_terms)
    for record in found:
        words, dates = terms.list_terms(record.text), list[str]()
        if record.text:
            words += terms.list_terms(record.sender)
            dates = build_dates(record.time // _DAY * _DAY)
        length = terms.count_words(words) + len(dates)
        words += dates
        word_numbers += map(numbers.__getitem__, words)
        sizes.append(len(words))
        called = (record.kind, record.type, record.page)
        at_names = [names.setdefault(name, len(names)) for name in called]
        role = ROLES.index(record.role)
        rows.append((record.seq, record.time, record.turn, length, *at_names, 0, role))
    return IndexSegment(
        records=np.array(rows, RECORD),
        names=tuple(names),
        postings=_build_postings(
            numbers, word_numbers, sizes, stem=stem or terms.build_stemmer()
        ),
    )


def _build_postings(
    numbers: Mapping[str, int],
    word_numbers: Sequence[int],
    sizes: Sequence[int],
    *,
    stem: terms.Stem,
) -> Postings:
    """Build postings of the words of records, told by number; `sizes` words in each."""
    words = sorted(numbers)
    places = np.empty(len(words), np.int64)
    places[[numbers[word] for word in words]] = np.arange(len(words))
    of_record = np.repeat(np.arange(len(sizes)), sizes)
    # One number tells a word and a record, in the order of postings.
    pairs = places[np.array(word_numbers, np.int64)] * len(sizes) + of_record
    pairs, counts = np.unique(pairs, return_counts=True)
    of_word, records = np.divmod(pairs, len(sizes) or 1)
    return Postings(
        words=tuple(words),
        stems=tuple(map(stem, words)),
        starts=_build_starts(np.bincount(of_word, minlength=len(words))),
        records=records.astype("<u4"),
        counts=np.minimum(counts, _MOST_OFTEN).astype("u1"),
    )


def merge_postings(parts: Sequence[Postings]) -> Postings:
    """Join postings; a part's records follow the records of the part before. Linear."""
    if len(parts) == 1:
        return parts[0]
    pairs = (zip(part.words, part.stems, strict=True) for part in parts)
    stems = dict(chain.from_iterable(pairs))
    words = tuple(sorted(stems))
    at = dict(zip(words, count()))
    places = [
        np.fromiter(map(at.__getitem__, part.words), np.int64, len(part.words))
        for part in parts
    ]
    lengths = np.zeros(len(words), np.int64)
    for part, ids in zip(parts, places, strict=True):
        lengths[ids] += np.diff(part.starts)
    starts = _build_starts(lengths)
    records = np.empty(int(starts[-1]), "<u4")
    counts = np.empty(len(records), "u1")
    free = starts[:-1].astype(np.int64)
    for part, ids in zip(parts, places, strict=True):
        each = np.diff(part.starts).astype(np.int64)
        shift = np.repeat(free[ids] - part.starts[:-1].astype(np.int64), each)
        to = shift + np.arange(len(part.records))
        records[to], counts[to] = part.records, part.counts
        free[ids] += each
    return Postings(
        words=words,
        stems=tuple(map(stems.__getitem__, words)),
        starts=starts,
        records=records,
        counts=counts,
    )


def join_segments(parts: Sequence[IndexSegment]) -> IndexSegment:
    """Join segments of one thread, oldest first."""
    names = number_names()
    records = np.concatenate([renumber_names(part, names) for part in parts])
    before = np.cumsum([0, *(len(part.records) for part in parts)])
    moved = [
        part.postings.shift_records(int(n))
        for part, n in zip(parts, before, strict=False)
    ]
    return IndexSegment(
        records=records, names=tuple(names), postings=merge_postings(moved)
    )


def number_names(names: Sequence[str] = _NAMES) -> dict[str, int]:
    """Return the places of names."""
    return {name: at for at, name in enumerate(names)}


def renumber_names(part: IndexSegment, names: dict[str, int]) -> Records:
    """Return a segment's records with places in `names`; missing names are added."""
    places = [names.setdefault(name, len(names)) for name in part.names]
    lookup, records = np.array(places, "<u4"), part.records.copy()
    for column in ("kind", "type", "page"):
        records[column] = lookup[records[column]]
    return records


def to_bytes(segment: IndexSegment) -> bytes:
    """Convert a segment to the bytes that are sealed."""
    postings = segment.postings
    lengths = np.diff(postings.starts).astype("<u4")
    pairs = zip(postings.words, postings.stems, strict=True)
    head = json.dumps(
        {
            "version": terms.VERSION,
            "records": len(segment.records),
            "names": segment.names,
            "words": postings.words,
            "stems": [0 if word == stem else stem for word, stem in pairs],
        },
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode()
    parts = (segment.records, lengths, postings.records, postings.counts)
    return b"".join((_HEAD.pack(len(head)), head, *(each.tobytes() for each in parts)))


def from_bytes(plain: bytes) -> IndexSegment | None:
    """Convert bytes of `to_bytes` to a segment; None for another version of terms."""
    (size,) = _HEAD.unpack_from(plain)
    at = _HEAD.size + size
    head = json.loads(plain[_HEAD.size : at])
    if head["version"] != terms.VERSION:
        return None
    words = tuple(head["words"])
    records = np.frombuffer(plain, RECORD, head["records"], at)
    at += records.nbytes
    lengths = np.frombuffer(plain, "<u4", len(words), at)
    starts = _build_starts(lengths)
    found = np.frombuffer(plain, "<u4", int(starts[-1]), at + lengths.nbytes)
    at += lengths.nbytes + found.nbytes
    return IndexSegment(
        records=records,
        names=tuple(head["names"]),
        postings=Postings(
            words=words,
            stems=tuple(s or w for s, w in zip(head["stems"], words, strict=True)),
            starts=starts,
            records=found,
            counts=np.frombuffer(plain, "u1", len(found), at),
        ),
    )


def _build_starts(lengths: Numbers) -> Numbers:
    return np.concatenate([[0], np.cumsum(lengths)]).astype("<u4")
