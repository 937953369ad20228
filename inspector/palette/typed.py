"""Text typed into the palette, parsed as names and as a search of contents. Pure.

Words are searched in both. Keys such as `status:` narrow the threads. Keys such as
`role:`, phrases and `not:word` narrow the contents. The rest is ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from inspector.web import search
from inspector.web.search import SearchError
from memoryhub.errors import InvalidError
from memoryhub.kernel.search.parsing import MOST_TERMS, Filters, SearchQuery
from memoryhub.kernel.search.segments import ROLES
from memoryhub.kernel.text import names
from memoryhub.queries.lists.terms import SearchTerm
from memoryhub.queries.search.searching import KINDS, SearchRequest

#: Keys that narrow a search of contents, each with valid values.
CONTENT_KEYS = {
    "role": ROLES[1:],
    "type": ("message",),
    "kind": KINDS,
    "in": ("rebook-lisbon-storm",),
    "from": ("2026-01-30",),
    "to": ("2026-01-31",),
    "turn": ("10..20",),
}
#: Least similarity of an unknown key to the key that is suggested.
_ALIKE = 0.75
_TOKEN = re.compile(r'"[^"]*"|\S+')
#: Token that looks like a filter: a word, a colon and a value, but no address.
_KEYED = re.compile(r"-?([a-z_]+):(?!//)\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedSearch:
    """The parsed text of the palette, or the error."""

    text: str
    #: Words searched in names.
    words: tuple[str, ...] = ()
    #: Terms that narrow the threads.
    terms: tuple[SearchTerm, ...] = ()
    #: Text searched in contents; empty for no search.
    contents: str = ""
    #: Words excluded from the search of contents.
    excluded: tuple[str, ...] = ()
    #: Keys that look like filters and are none; their tokens are searched as words.
    unknown: tuple[str, ...] = ()
    error: SearchError | None = None


def parse_typed(text: str) -> TypedSearch:
    """Parse the typed text; a problem becomes the result's `error`."""
    text = text.strip()
    try:
        return _parse_tokens(text)
    except SearchError as error:
        return TypedSearch(text=text, error=error)


def _parse_tokens(text: str) -> TypedSearch:
    if len(text) > search.MAX_CHARS:
        raise SearchError(f"A search has at most {search.MAX_CHARS} characters.")
    tokens = _TOKEN.findall(text)
    terms = [term for token in tokens if (term := _parse_term(token)) is not None]
    says = _has_search_words(_parse_query(text))
    plain = [each for each in tokens if not _is_filter(each)]
    # A name that lacks a typed word is no result, so no part of a sentence names one.
    if not all(map(names.is_valid, plain)):
        plain = []
    return TypedSearch(
        text=text,
        words=() if terms else tuple(plain[: search.MAX_TERMS]),
        terms=tuple(terms),
        contents="" if terms or not says else text,
        excluded=tuple(
            each.removeprefix("not:")
            for each in tokens
            if each.startswith("not:") and _is_filter(each)
        ),
        unknown=tuple(dict.fromkeys(_iter_unknown_keys(tokens))),
    )


def _iter_unknown_keys(tokens: Iterable[str]) -> Iterator[str]:
    """Yield the keys of `foo:bar` that narrow nothing; not the schemes of addresses."""
    for token in tokens:
        found = _KEYED.fullmatch(token)
        if found and not _is_filter(token) and _parse_term(token) is None:
            yield found[1]


def _parse_term(token: str) -> SearchTerm | None:
    """Parse a term that narrows threads, else None. Raises SearchError for a typo."""
    key, colon, value = token.removeprefix("-").partition(":")
    if not colon or '"' in key or key in CONTENT_KEYS:
        if (
            colon
            and key in CONTENT_KEYS
            and not (value and _is_filter(token.removeprefix("-")))
        ):
            raise _build_error(key, value)
        return None
    name = "label." if key.startswith("label.") else key
    if name in search.THREADS:
        return search.parse_terms(token, search.THREADS)[0]
    keys = (*CONTENT_KEYS, *search.THREADS)
    if near := get_close_matches(key, keys, n=1, cutoff=_ALIKE):
        raise SearchError(f"There is no search key {key}.", nearest=f"{near[0]}:")
    return None


def _build_error(key: str, value: str) -> SearchError:
    if not value:
        return SearchError(
            f"{key}: needs a value.", nearest=f"{key}:{CONTENT_KEYS[key][0]}"
        )
    near = get_close_matches(value, CONTENT_KEYS[key], n=1) or CONTENT_KEYS[key]
    return SearchError(f"There is no such {key}.", nearest=f"{key}:{near[0]}")


def _is_filter(token: str) -> bool:
    """Tell whether the token narrows a search of contents."""
    return _parse_query(token).filters != Filters()


def _parse_query(text: str) -> SearchQuery:
    """Parse a search of contents. Raises SearchError."""
    try:
        return SearchRequest.parse(text, can_exclude=True).query
    except InvalidError as refusal:
        allowed = refusal.allowed or f"at most {MOST_TERMS} terms"
        raise SearchError(f"A search has {allowed}.") from None


def _has_search_words(query: SearchQuery) -> bool:
    """Tell whether the query has more than one letter to search for."""
    return sum(len(each) for word in query.wanted for each in word.spoken) > 1
