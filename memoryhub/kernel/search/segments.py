"""Segments: the terms of records, as arrays that are stored, joined and searched. Pure.

A record is a row of `RECORD`. Postings say by word, sorted, in which records it stands
and how often; a word comes with its stem, so that none has to be made when searching.
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from memoryhub.kernel.search import terms
from memoryhub.kernel.search.arrays import Numbers, Records, np

#: Kinds of what is found by nobody, and only ends what was said before: a page that was
#: deleted, records that a fork has erased of what it inherits.
DELETED, ERASED = "~deleted", "~erased"
#: Names that each segment has, in its first places.
_NAMES: Final = ("", DELETED, ERASED)
#: Of kinds up to here nothing is found.
ENDED: Final = len(_NAMES) - 1
#: The kind of what was said.
MESSAGE: Final = "message"
ROLES: Final = ("", "user", "assistant", "tool", "system")

#: The columns of a record, as numpy takes them.
RECORD: Final = [
    ("seq", "<i8"),
    #: Microseconds since 1970.
    ("time", "<i8"),
    ("turn", "<i4"),
    #: Words in it; an identifier has as many as it has parts.
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


class Record(NamedTuple):
    """What is to be found, with its text."""

    seq: int
    #: Microseconds since 1970.
    time: int
    turn: int
    kind: str
    role: str
    type: str
    page: str
    text: str
    #: Who sent it, by the name in its thread.
    sender: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Postings:
    """By word: the records that it stands in, ascending, and how often."""

    #: Sorted.
    words: tuple[str, ...]
    #: Of each word.
    stems: tuple[str, ...]
    #: Of word n: from starts[n] to starts[n + 1].
    starts: Numbers
    records: Numbers
    counts: Numbers

    @property
    def size(self) -> int:
        """Bytes that it takes, nearly."""
        words = sum(map(len, self.words)) + 120 * len(self.words)
        arrays = (self.starts, self.records, self.counts)
        return words + sum(each.nbytes for each in arrays)

    def find(self, word: str) -> int | None:
        """Return the number of a word; None if it is none of these."""
        at = bisect_left(self.words, word)
        return at if at < len(self.words) and self.words[at] == word else None

    def moved(self, by: int) -> Postings:
        """With all records so many places further on, and arrays of its own."""
        return Postings(
            words=self.words,
            stems=self.stems,
            starts=self.starts,
            records=self.records + np.uint32(by),
            counts=self.counts.copy(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Records of a run of a thread, and their postings."""

    records: Records
    #: Of kinds, types and pages; the first is empty.
    names: tuple[str, ...]
    postings: Postings


def build(found: Iterable[Record], stem: terms.Stem | None = None) -> Segment:
    """Make a segment of records in the order of their seqs. Linear in their texts.

    Words are stemmed by what is given, or all of them anew.
    """
    rows, names = list[tuple[Any, ...]](), named()
    places: dict[str, list[int]] = {}
    often: dict[str, list[int]] = {}
    for at, record in enumerate(found):
        words, dates = terms.terms_of(record.text), list[str]()
        if record.text:
            words += terms.terms_of(record.sender)
            dates = terms.date_terms(record.time)
        for word, count in Counter([*words, *dates]).items():
            places.setdefault(word, []).append(at)
            often.setdefault(word, []).append(min(count, _MOST_OFTEN))
        length = sum(not terms.joins(word) for word in words) + len(dates)
        called = (record.kind, record.type, record.page)
        at_names = [names.setdefault(name, len(names)) for name in called]
        role = ROLES.index(record.role)
        rows.append((record.seq, record.time, record.turn, length, *at_names, 0, role))
    words, stem = sorted(places), stem or terms.stemmer()
    lengths = [len(places[word]) for word in words]
    return Segment(
        records=np.array(rows, RECORD),
        names=tuple(names),
        postings=Postings(
            words=tuple(words),
            stems=tuple(map(stem, words)),
            starts=_starts(np.array(lengths, "<u4")),
            records=np.array([n for word in words for n in places[word]], "<u4"),
            counts=np.array([n for word in words for n in often[word]], "u1"),
        ),
    )


def merged(parts: Sequence[Postings]) -> Postings:
    """Join postings whose records follow those of the part before. Linear."""
    if len(parts) == 1:
        return parts[0]
    stems = dict(_stemmed(parts))
    words = tuple(sorted(stems))
    at = {word: n for n, word in enumerate(words)}
    places = [np.array([at[w] for w in part.words], np.int64) for part in parts]
    lengths = np.zeros(len(words), np.int64)
    for part, ids in zip(parts, places, strict=True):
        lengths[ids] += np.diff(part.starts)
    starts = _starts(lengths)
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
        stems=tuple(stems[word] for word in words),
        starts=starts,
        records=records,
        counts=counts,
    )


def _stemmed(parts: Sequence[Postings]) -> Iterator[tuple[str, str]]:
    for part in parts:
        yield from zip(part.words, part.stems, strict=True)


def joined(parts: Sequence[Segment]) -> Segment:
    """Join segments of one thread, oldest first."""
    names = named()
    records = np.concatenate([renamed(part, names) for part in parts])
    before = np.cumsum([0, *(len(part.records) for part in parts)])
    moved = [
        part.postings.moved(int(n)) for part, n in zip(parts, before, strict=False)
    ]
    return Segment(records=records, names=tuple(names), postings=merged(moved))


def named(names: Sequence[str] = _NAMES) -> dict[str, int]:
    """Return the places of names."""
    return {name: at for at, name in enumerate(names)}


def renamed(part: Segment, names: dict[str, int]) -> Records:
    """Return its records with names of these, to which it adds its own."""
    places = [names.setdefault(name, len(names)) for name in part.names]
    lookup, records = np.array(places, "<u4"), part.records.copy()
    for column in ("kind", "type", "page"):
        records[column] = lookup[records[column]]
    return records


def to_bytes(segment: Segment) -> bytes:
    """Return the form in which a segment is sealed."""
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


def from_bytes(plain: bytes) -> Segment | None:
    """Read what `to_bytes` made; None for one of other terms."""
    (size,) = _HEAD.unpack_from(plain)
    at = _HEAD.size + size
    head = json.loads(plain[_HEAD.size : at])
    if head["version"] != terms.VERSION:
        return None
    words = tuple(head["words"])
    records = np.frombuffer(plain, RECORD, head["records"], at)
    at += records.nbytes
    lengths = np.frombuffer(plain, "<u4", len(words), at)
    starts = _starts(lengths)
    found = np.frombuffer(plain, "<u4", int(starts[-1]), at + lengths.nbytes)
    at += lengths.nbytes + found.nbytes
    return Segment(
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


def _starts(lengths: Numbers) -> Numbers:
    return np.concatenate([[0], np.cumsum(lengths)]).astype("<u4")
