"""Parsing of search queries. Pure. Text that is no filter is ordinary text.

A minus is never a filter: `rm -rf` and `--no-verify-ssl` are searched for as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from memoryhub.errors import InvalidError
from memoryhub.kernel.search import terms
from memoryhub.kernel.search.segments import ROLES
from memoryhub.kernel.search.terms import SearchWord
from memoryhub.kernel.text import names

MOST_CHARACTERS: Final = 1_000
MOST_TERMS: Final = 64

_PIECE = re.compile(r'"([^"]*)"|(\S+)')
_TURN = re.compile(r"(\d{1,9})?\.\.(\d{1,9})?|(\d{1,9})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Conditions on a record; without any, all records pass. Times in microseconds."""

    roles: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()
    #: Names of threads.
    threads: frozenset[str] = frozenset()
    since: int | None = None
    #: Exclusive end: the record's time is before it.
    until: int | None = None
    turns: tuple[int, int] | None = None
    #: Words that the record must not contain.
    without: frozenset[SearchWord] = frozenset()

    def narrow(self, by: Filters) -> Filters:
        """Return tighter times of both, and roles, types, kinds of `by` if any."""
        since = [each for each in (self.since, by.since) if each is not None]
        until = [each for each in (self.until, by.until) if each is not None]
        return replace(
            self,
            roles=by.roles or self.roles,
            types=by.types or self.types,
            kinds=by.kinds or self.kinds,
            since=max(since, default=None),
            until=min(until, default=None),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """A query: words, phrases as their words in order, and filters."""

    words: tuple[SearchWord, ...] = ()
    phrases: tuple[tuple[str, ...], ...] = ()
    filters: Filters = field(default_factory=Filters)

    @property
    def wanted(self) -> tuple[SearchWord, ...]:
        """Return all words of the query, once each, words of phrases included."""
        in_phrases = (SearchWord(term) for phrase in self.phrases for term in phrase)
        return tuple(dict.fromkeys((*self.words, *in_phrases)))

    @property
    def term_count(self) -> int:
        """Count the typed terms: in a script without spaces, a run is one term."""
        words = (*self.words, *self.filters.without)
        spoken = sum(len(word.spoken) if word.whole else 1 for word in words)
        return spoken + sum(map(len, self.phrases))


def parse(
    text: str, *, kinds: Collection[str], can_exclude: bool = False
) -> SearchQuery:
    """Parse a query; `kinds` are the kinds that exist.

    `not:word` excludes for a person who `can_exclude`; elsewhere it is ordinary text.
    Raises InvalidError when the query is too long, or from is after to.
    """
    if len(text) > MOST_CHARACTERS:
        allowed = f"at most {MOST_CHARACTERS:,} characters"
        raise InvalidError(loc="query", allowed=allowed)
    query = SearchQuery()
    for phrase, piece in _PIECE.findall(text):
        unknown = piece.startswith("kind:") and piece[5:] not in kinds
        if unknown or (piece.startswith("not:") and not can_exclude):
            query = _add_found(query, "words", _split_words(piece))
        else:
            query = _add_piece(query, phrase, piece)
    if query.term_count > MOST_TERMS:
        raise InvalidError(loc="query", allowed=f"at most {MOST_TERMS} terms")
    since, until = query.filters.since, query.filters.until
    if since is not None and until is not None and since > until:
        allowed = "a from: that is before its to:"
        raise InvalidError(code="time_range", loc="query", allowed=allowed)
    return query


def to_microseconds(time: datetime) -> int:
    """Convert a time to the microseconds of records."""
    since = time - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _add_piece(query: SearchQuery, phrase: str, piece: str) -> SearchQuery:
    if not piece:
        found = _split_words(phrase)
        spoken = tuple(term for word in found for term in word.spoken)
        # One word in quotes stays one word, whole if it is an identifier.
        if len(spoken) < 2 or (len(found) == 1 and found[0].whole):
            return _add_found(query, "words", found)
        return _add_found(query, "phrases", (spoken,))
    key, colon, value = piece.partition(":")
    if colon and value and key in _FILTERS:
        filters = _FILTERS[key](query.filters, value)
        if filters is not None:
            return replace(query, filters=filters)
    return _add_found(query, "words", _split_words(piece))


def _add_found(query: SearchQuery, name: str, found: tuple[Any, ...]) -> SearchQuery:
    before: tuple[Any, ...] = getattr(query, name)
    new = tuple(each for each in dict.fromkeys(found) if each not in before)
    changed: Mapping[str, Any] = {name: before + new}
    return replace(query, **changed)


def list_words(text: str) -> tuple[SearchWord, ...]:
    """Return the words of a text without filters, once each."""
    return tuple(dict.fromkeys(_split_words(text)))


def _split_words(text: str) -> tuple[SearchWord, ...]:
    return tuple(run.word for run in terms.iter_runs(text))


def _build_choice_reader(
    name: str, words: tuple[str, ...]
) -> Callable[..., Filters | None]:
    def read(filters: Filters, value: str) -> Filters | None:
        if not value or (value not in words if words else not names.is_valid(value)):
            return None
        added: Mapping[str, Any] = {name: getattr(filters, name) | {value}}
        return replace(filters, **added)

    return read


def _build_time_reader(name: str) -> Callable[..., Filters | None]:
    def read(filters: Filters, value: str) -> Filters | None:
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            return None
        time = time if time.tzinfo else time.replace(tzinfo=UTC)
        bound: Mapping[str, Any] = {name: to_microseconds(time)}
        return replace(filters, **bound)

    return read


def _parse_turns(filters: Filters, value: str) -> Filters | None:
    found = _TURN.fullmatch(value)
    if found is None or value == "..":
        return None
    first, last, only = found.groups()
    if only:
        return replace(filters, turns=(int(only), int(only)))
    return replace(filters, turns=(int(first or 0), int(last or 10**9)))


def _exclude_words(filters: Filters, value: str) -> Filters | None:
    words = filters.without.union(_split_words(value))
    return replace(filters, without=words) if words else None


_FILTERS: dict[str, Callable[..., Filters | None]] = {
    "role": _build_choice_reader("roles", ROLES[1:]),
    "type": _build_choice_reader("types", ()),
    "kind": _build_choice_reader("kinds", ()),
    "in": _build_choice_reader("threads", ()),
    "from": _build_time_reader("since"),
    "to": _build_time_reader("until"),
    "turn": _parse_turns,
    "not": _exclude_words,
}
