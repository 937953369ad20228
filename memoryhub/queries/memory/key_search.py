"""Search of keys by name, time left and size. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from math import inf

from memoryhub.kernel.state.working_memory import KeyEntry
from memoryhub.queries.lists.terms import (
    NumberSpan,
    SearchTerm,
    Value,
    WordValue,
    is_within,
)

#: The word that stands for no expiry in a search by time left.
NEVER = "never"

KeyPredicate = Callable[[str, KeyEntry], bool]


def build_predicate(terms: Sequence[SearchTerm], *, now: datetime) -> KeyPredicate:
    """Return a predicate of keys that match all terms, with the time left as of now.

    A key that never expires has more time left than any bounded span.
    """

    def is_match(name: str, entry: KeyEntry) -> bool:
        return all(_is_term_met(term, name, entry, now) for term in terms)

    return is_match


def _is_term_met(term: SearchTerm, name: str, entry: KeyEntry, now: datetime) -> bool:
    found = any(_has_value(term.key, value, name, entry, now) for value in term.values)
    return found != term.negated


def _has_value(
    key: str, value: Value, name: str, entry: KeyEntry, now: datetime
) -> bool:
    if isinstance(value, WordValue):
        text = _WORDS[key](name, entry)
        return text.startswith(value.text) if value.prefix else text == value.text
    assert isinstance(value, NumberSpan)
    return is_within(_NUMBERS[key](entry, now), value)


def _compute_seconds_left(entry: KeyEntry, now: datetime) -> float:
    if entry.expires_at is None:
        return inf
    return (entry.expires_at - now).total_seconds()


_WORDS: Mapping[str, Callable[[str, KeyEntry], str]] = {
    "name": lambda name, _: name,
    "ttl": lambda _, entry: NEVER if entry.expires_at is None else "",
}
_NUMBERS: Mapping[str, Callable[[KeyEntry, datetime], float]] = {
    "ttl": _compute_seconds_left,
    "size": lambda entry, _: entry.bytes,
}
