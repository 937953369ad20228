"""Keys by what a person asks of them: name, time left, size. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from math import inf

from memoryhub.kernel.state.working_memory import KeyEntry
from memoryhub.queries.lists.terms import SearchTerm, Span, Value, Word, within

#: The word for a key that never expires, where a time is asked for.
NEVER = "never"

Matches = Callable[[str, KeyEntry], bool]


def matching(terms: Sequence[SearchTerm], *, now: datetime) -> Matches:
    """What tells whether a key is what these terms ask for, by its time left as of now.

    One that never expires has more time left than any span with an end.
    """

    def matches(name: str, entry: KeyEntry) -> bool:
        return all(_found(term, name, entry, now) for term in terms)

    return matches


def _found(term: SearchTerm, name: str, entry: KeyEntry, now: datetime) -> bool:
    found = any(_holds(term.key, value, name, entry, now) for value in term.values)
    return found != term.negated


def _holds(key: str, value: Value, name: str, entry: KeyEntry, now: datetime) -> bool:
    if isinstance(value, Word):
        text = _WORDS[key](name, entry)
        return text.startswith(value.text) if value.prefix else text == value.text
    assert isinstance(value, Span)
    return within(_NUMBERS[key](entry, now), value)


def _seconds_left(entry: KeyEntry, now: datetime) -> float:
    if entry.expires_at is None:
        return inf
    return (entry.expires_at - now).total_seconds()


_WORDS: Mapping[str, Callable[[str, KeyEntry], str]] = {
    "name": lambda name, _: name,
    "ttl": lambda _, entry: NEVER if entry.expires_at is None else "",
}
_NUMBERS: Mapping[str, Callable[[KeyEntry, datetime], float]] = {
    "ttl": _seconds_left,
    "size": lambda entry, _: entry.bytes,
}
