"""What is typed into the palette, read as names and as what was said. Pure.

Words are looked for in both. `status:` and its like narrow the threads down, `role:`
and its like, a phrase and `not:word` what was said. The rest is ordinary text.
"""

from __future__ import annotations

import re
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

#: What narrows down what was said, with values that it takes.
CONTENTS = {
    "role": ROLES[1:],
    "type": ("message",),
    "kind": KINDS,
    "in": ("rebook-lisbon-storm",),
    "from": ("2026-01-30",),
    "to": ("2026-01-31",),
    "turn": ("10..20",),
}
#: How alike an unknown key is to one that it is taken for.
_ALIKE = 0.75
_TOKEN = re.compile(r'"[^"]*"|\S+')


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """Hold what is looked for, or why it can't be read."""

    text: str
    #: What names are looked for by.
    words: tuple[str, ...] = ()
    #: What threads are narrowed down by.
    terms: tuple[SearchTerm, ...] = ()
    #: What is looked for in what was said; empty for nothing.
    contents: str = ""
    #: Words that keep out of that.
    excluded: tuple[str, ...] = ()
    error: SearchError | None = None


def read(text: str) -> Typed:
    """Read what is typed; what is wrong with it comes as its error."""
    text = text.strip()
    try:
        return _read(text)
    except SearchError as error:
        return Typed(text=text, error=error)


def _read(text: str) -> Typed:
    if len(text) > search.MAX_CHARS:
        raise SearchError(f"A search has at most {search.MAX_CHARS} characters.")
    tokens = _TOKEN.findall(text)
    terms = [term for token in tokens if (term := _term(token)) is not None]
    says = _says(_parsed(text))
    plain = [each for each in tokens if names.valid(each) and not _filters(each)]
    return Typed(
        text=text,
        words=() if terms else tuple(plain[: search.MAX_TERMS]),
        terms=tuple(terms),
        contents="" if terms or not says else text,
        excluded=tuple(
            each.removeprefix("not:")
            for each in tokens
            if each.startswith("not:") and _filters(each)
        ),
    )


def _term(token: str) -> SearchTerm | None:
    """What narrows threads down. Raises SearchError for what nearly does."""
    key, colon, value = token.removeprefix("-").partition(":")
    if not colon or '"' in key or key in CONTENTS:
        if (
            colon
            and key in CONTENTS
            and not (value and _filters(token.removeprefix("-")))
        ):
            raise _unreadable(key, value)
        return None
    name = "label." if key.startswith("label.") else key
    if name in search.THREADS:
        return search.parse(token, search.THREADS)[0]
    keys = (*CONTENTS, *search.THREADS)
    if near := get_close_matches(key, keys, n=1, cutoff=_ALIKE):
        raise SearchError(f"There is no key {key}.", nearest=f"{near[0]}:")
    return None


def _unreadable(key: str, value: str) -> SearchError:
    if not value:
        return SearchError(
            f"{key}: wants a value.", nearest=f"{key}:{CONTENTS[key][0]}"
        )
    near = get_close_matches(value, CONTENTS[key], n=1) or CONTENTS[key]
    return SearchError(f"There is no such {key}.", nearest=f"{key}:{near[0]}")


def _filters(token: str) -> bool:
    """Tell whether it narrows down what was said."""
    return _parsed(token).filters != Filters()


def _parsed(text: str) -> SearchQuery:
    """What is looked for in what was said. Raises SearchError."""
    try:
        return SearchRequest.parse(text, can_exclude=True).query
    except InvalidError as refusal:
        allowed = refusal.allowed or f"at most {MOST_TERMS} terms"
        raise SearchError(f"A search has {allowed}.") from None


def _says(query: SearchQuery) -> bool:
    """Tell whether there is more than a letter to look for."""
    return sum(len(each) for word in query.wanted for each in word.spoken) > 1
