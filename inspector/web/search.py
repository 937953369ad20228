"""Search of a list: the query language that operators type, parsed to terms. Pure.

    query = term *(" " term)      term = ["-"] (key ":" value *("," value) | word)
    value = [<|>|<=|>=] number [s m h d k M] | a".."b | word | word"*" | "quoted"
    number, of times also = YYYY-MM-DD [T HH [:MM [:SS [.ffffff]]]] in UTC, meaning all
            times with that beginning: a day, an hour, a minute

A bare word is the beginning of a name, or of an event's type. Values of one term are
joined by OR, terms by AND. A word that does not fit is refused with the nearest one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import partial
from typing import Any
from urllib.parse import urlencode

from memoryhub.errors import InvalidError
from memoryhub.journal.audit import ACTIONS, PURPOSES
from memoryhub.kernel.registry import TYPES
from memoryhub.kernel.state.pages import MODALITIES, PAGE_TYPES
from memoryhub.kernel.text import names
from memoryhub.models.threads import Thread
from memoryhub.queries.lists.terms import (
    NumberSpan,
    Period,
    SearchTerm,
    Value,
    WordValue,
)
from memoryhub.queries.memory.key_search import NEVER
from memoryhub.queries.threads import catalogue

MAX_CHARS, MAX_TERMS = 500, 20
#: Keys of a list's search, each with the parser of its values.
Keys = Mapping[str, Callable[[str], Value]]

#: Nouns of events: the parts of event types before the dot.
NOUNS = tuple(dict.fromkeys(name.partition(".")[0] for name in TYPES))

#: Tiers of pages.
TIERS = ("L0", "L1", "L2")

_TOKEN = re.compile(r'(?:[^\s"]|"[^"]*")+')
_VALUE = re.compile(r'(?:[^,"]|"[^"]*")+')
_KEY = re.compile(r"([A-Za-z_]+(?:\.[A-Za-z0-9._:@-]+?)?):(.+)", re.DOTALL)
_NUMBER = re.compile(r"(<=|>=|<|>)?(\d{1,15}(?:\.\d{1,6})?)([smhdkM]?)")
_NEGATIVE = re.compile(r"-\d{1,15}(?:\.\d{1,15})?")
_DAY = re.compile(r"\d{4}-\d")
_TIME = re.compile(
    r"(<=|>=|<|>)?"
    r"(\d{4}-\d\d-\d\d(?:[T ]\d\d(?::\d\d(?::\d\d(?:\.\d{1,6})?)?)?)?)Z?"
)
_TIMES = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
#: A hundred years in seconds: longer than any record is old, within datetime's range.
_MAX_AGE = 100 * 365 * 86_400
_THOUSANDS = {"k": 1_000, "M": 1_000_000}
_LABEL = "label."


class SearchError(InvalidError):
    """Refusal of a search that cannot be parsed."""

    def __init__(self, problem: str, *, nearest: str = "") -> None:
        super().__init__(loc="q", nearest=nearest)
        #: The problem in words.
        self.problem = problem
        #: The nearest valid word.
        self.nearest = nearest

    @property
    def message(self) -> str:
        hint = f" Did you mean {self.nearest}?" if self.nearest else ""
        return self.problem + hint


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSearch:
    """The terms and options of a list's URL, or the error of its search."""

    text: str
    terms: tuple[SearchTerm, ...] = ()
    error: SearchError | None = None
    #: The URL's other choices, beside the search and the moment.
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def words(self) -> tuple[str, ...]:
        """The search's terms as typed."""
        return tuple(_TOKEN.findall(self.text))

    def query(self, **more: str | int | None) -> str:
        """Build the URL's query of this search with further parameters."""
        parts = {"q": self.text, **self.options, **more}
        return urlencode({name: value for name, value in parts.items() if value})


def parse_search(text: str, keys: Keys, *, bare: str = "name") -> ParsedSearch:
    """Parse a search as typed; a problem becomes the result's `error`."""
    text = text.strip()
    try:
        return ParsedSearch(text=text, terms=parse_terms(text, keys, bare=bare))
    except SearchError as error:
        return ParsedSearch(text=text, error=error)


def parse_terms(text: str, keys: Keys, *, bare: str = "name") -> tuple[SearchTerm, ...]:
    """Parse the terms of a query over a list with these keys. Raises SearchError.

    A bare word is the beginning of a value of the key `bare`.
    """
    if len(text) > MAX_CHARS:
        raise SearchError(f"A search has at most {MAX_CHARS} characters.")
    if text.count('"') % 2:
        raise SearchError("A quotation mark is not closed.")
    tokens = _TOKEN.findall(text)
    if len(tokens) > MAX_TERMS:
        raise SearchError(f"A search has at most {MAX_TERMS} terms.")
    return tuple(_parse_term(token, keys, bare) for token in tokens)


def _parse_term(token: str, keys: Keys, bare: str) -> SearchTerm:
    negated, rest = token.startswith("-"), token.removeprefix("-")
    keyed = _KEY.fullmatch(rest)
    key = keyed[1] if keyed else ""
    name = _LABEL if key.startswith(_LABEL) else key
    if not keyed or name not in keys:
        return _parse_bare_word(
            rest, key, keys, SearchTerm(key=bare, values=(), negated=negated)
        )
    read = keys[name]
    if key == _LABEL:
        raise SearchError("Name the label after the dot.", nearest="label.source:…")
    values = tuple(read(value) for value in _VALUE.findall(keyed[2]))
    if not values:
        raise SearchError(f"{key}: needs a value.")
    return SearchTerm(key=key, values=values, negated=negated)


def _parse_bare_word(text: str, key: str, keys: Keys, term: SearchTerm) -> SearchTerm:
    """Parse a word without a known key: a name's beginning, which may have a colon."""
    near = get_close_matches(key, keys, n=1) if key else []
    if near or text.endswith(":"):
        wanted = get_close_matches(text.rstrip(":"), keys, n=1)
        raise SearchError(
            f"There is no search key {text.partition(':')[0]}.",
            nearest=f"{(near or wanted or [term.key])[0]}:",
        )
    word = _strip_quotes(text).removesuffix("*")
    _require_name(word)
    return replace(term, values=(WordValue(text=word, prefix=True),))


def parse_name(text: str) -> WordValue:
    """Parse a name, or a name's beginning before `*`."""
    quoted = text.startswith('"')
    word = _strip_quotes(text)
    prefix = word.endswith("*") and not quoted
    word = word.removesuffix("*") if prefix else word
    _require_name(word)
    return WordValue(text=word, prefix=prefix)


def parse_label(text: str) -> WordValue:
    """Parse a label's value: a name or its beginning; numbers may be negative."""
    return WordValue(text=text) if _NEGATIVE.fullmatch(text) else parse_name(text)


def parse_status(text: str) -> WordValue:
    """Parse a thread's status."""
    visible = [word for word in Thread.Status.values if word not in _HIDDEN_STATUSES]
    return _parse_one_of("status", _strip_quotes(text), visible)


def parse_event_type(text: str) -> WordValue:
    """Parse an event type, or the beginning of types before `*`."""
    word = parse_name(text)
    return word if word.prefix else _parse_one_of("type", word.text, sorted(TYPES))


def parse_noun(text: str) -> WordValue:
    """Parse a noun of events: the part of event types before the dot."""
    return _parse_one_of("noun", _strip_quotes(text), NOUNS)


def parse_subject(text: str) -> WordValue:
    """Parse a subject's UUID, or the last eight digits that lists show."""
    plain = _strip_quotes(text).replace("-", "").lower()
    if not re.fullmatch("[0-9a-f]{8}|[0-9a-f]{32}", plain):
        raise SearchError("A person's id is a UUID or its last eight digits.")
    return WordValue(text=plain)


def parse_action(text: str) -> WordValue:
    """Parse an action of the audit log, or the beginning of actions before `*`."""
    word = parse_name(text)
    return word if word.prefix else _parse_one_of("action", word.text, sorted(ACTIONS))


def parse_purpose(text: str) -> WordValue:
    """Parse an operator's purpose of reading content."""
    return _parse_one_of("purpose", _strip_quotes(text), PURPOSES)


def parse_flag(text: str) -> WordValue:
    """Parse a flag, which a list shows of a thread beyond its columns."""
    return _parse_one_of("flag", _strip_quotes(text), catalogue.FLAGS)


def parse_tier(text: str) -> WordValue:
    """Parse a page's tier."""
    return _parse_one_of("tier", _strip_quotes(text), TIERS)


def parse_page_type(text: str) -> WordValue:
    return _parse_one_of("type", _strip_quotes(text), PAGE_TYPES)


def parse_modality(text: str) -> WordValue:
    return _parse_one_of("modality", _strip_quotes(text), MODALITIES)


def parse_pinned(text: str) -> WordValue:
    """Parse `yes` or `no`: whether a command has pinned a page."""
    return _parse_one_of("pinned", _strip_quotes(text), ("yes", "no"))


def parse_count(text: str) -> NumberSpan:
    """Parse a number or a span of numbers."""
    return _parse_span(text, _THOUSANDS, example="slots:>1k")


def parse_age(text: str) -> NumberSpan:
    """Parse an age, or a span of ages."""
    return _parse_span(text, _TIMES, example="active:<1h")


def parse_time_ahead(text: str) -> NumberSpan:
    """Parse a time from now: a plain one means within it; else a span of times."""
    span = _parse_span(text, _TIMES, example="due:7d")
    return replace(span, low=None) if span.low == span.high else span


def parse_time_left(text: str) -> NumberSpan | WordValue:
    """Parse a remaining time, or that something never ends."""
    return (
        WordValue(text=NEVER)
        if _strip_quotes(text) == NEVER
        else parse_time_ahead(text)
    )


def parse_time(text: str) -> NumberSpan | Period:
    """Parse an age or a time, or a span of either."""
    plain = _strip_quotes(text)
    return (
        _parse_period(plain)
        if _DAY.search(plain)
        else _parse_span(plain, _TIMES, example=_AGE)
    )


def parse_erased(text: str) -> WordValue:
    """Parse `true` or `false`: whether an event's content was erased."""
    word = _strip_quotes(text)
    if word not in ("true", "false"):
        raise SearchError("Erased is true or false.", nearest="erased:true")
    return WordValue(text=word)


def _parse_period(text: str) -> Period:
    low, dots, high = text.partition("..")
    compared, period = _parse_bound(low)
    if dots:
        beyond, last = _parse_bound(high)
        if compared or beyond:
            raise SearchError("A range has two plain times.", nearest=_SPAN_OF_TIME)
        return Period(begin=period.begin, end=last.end)
    return {
        "": period,
        "<": Period(end=period.begin),
        "<=": Period(end=period.end),
        ">": Period(begin=period.end),
        ">=": Period(begin=period.begin),
    }[compared]


def _parse_bound(text: str) -> tuple[str, Period]:
    """Parse the comparison, and the period: a day, or a part of one if given."""
    shape = _TIME.fullmatch(text)
    try:
        if shape is None:
            raise ValueError
        begin = datetime.fromisoformat(shape[2]).replace(tzinfo=UTC)
        # A time with one digit of fractional seconds has the length 21.
        width = _WIDTHS.get(len(shape[2])) or 10.0 ** (20 - len(shape[2]))
        end = begin + timedelta(seconds=width)
    except (ValueError, OverflowError):
        raise SearchError("There is no such time.", nearest=_SPAN_OF_TIME) from None
    return shape[1] or "", Period(begin=begin, end=end)


def _parse_span(text: str, units: Mapping[str, int], *, example: str) -> NumberSpan:
    low, dots, high = text.partition("..")
    if dots:
        bounds = [_parse_number(end, units, example) for end in (low, high)]
        if any(compared for compared, _ in bounds):
            raise SearchError("A range has two plain numbers.", nearest=example)
        return NumberSpan(low=bounds[0][1], high=bounds[1][1])
    compared, value = _parse_number(text, units, example)
    if not compared:
        return NumberSpan(low=value, high=value)
    if compared.startswith("<"):
        return NumberSpan(high=value, high_open=compared == "<")
    return NumberSpan(low=value, low_open=compared == ">")


def _parse_one_of(key: str, word: str, words: Sequence[str]) -> WordValue:
    if word not in words:
        near = get_close_matches(word, words, n=1) or words[:1]
        raise SearchError(f"There is no such {key}.", nearest=f"{key}:{near[0]}")
    return WordValue(text=word)


def _parse_number(
    text: str, units: Mapping[str, int], example: str
) -> tuple[str, float]:
    shape = _NUMBER.fullmatch(text)
    if shape is None or (shape[3] and shape[3] not in units):
        raise SearchError("This key does not take that number.", nearest=example)
    value = float(shape[2]) * units.get(shape[3], 1)
    if units is _TIMES and value > _MAX_AGE:
        raise SearchError("That is longer than a hundred years.", nearest=example)
    return shape[1] or "", value


def _strip_quotes(text: str) -> str:
    return text.replace('"', "")


def _require_name(word: str) -> None:
    if not names.is_valid(word):
        raise SearchError("Names hold letters, digits and . _ : @ - only.")


_AGE, _SPAN_OF_TIME = "at:<1h", "at:2026-01-30..2026-01-31"
#: Seconds in a time's period, by the length of its part of `YYYY-MM-DDTHH:MM:SS`.
_WIDTHS = {10: 86_400, 13: 3_600, 16: 60, 19: 1}
_HIDDEN_STATUSES = (Thread.Status.IMPORTING, Thread.Status.ERASED)

#: Keys over the list of threads.
THREADS: Keys = {
    "name": parse_name,
    "subject": parse_subject,
    "status": parse_status,
    "agent_type": parse_name,
    "agent_instance": parse_name,
    "session": parse_name,
    _LABEL: parse_label,
    "slots": parse_count,
    "events": parse_count,
    "turns": parse_count,
    "tokens": parse_count,
    "faults": parse_count,
    "active": parse_age,
    "at": parse_time,
    "due": parse_time_ahead,
    "flag": parse_flag,
}
#: Keys over the audit log; a bare word is the beginning of an action.
AUDIT: Keys = {
    "action": parse_action,
    "actor": parse_name,
    "target": parse_name,
    "purpose": parse_purpose,
    "outcome": parse_name,
    "view": parse_name,
    "at": parse_time,
}
#: Keys over the events of a thread; a bare word is the beginning of a type.
EVENTS: Keys = {
    "type": parse_event_type,
    "noun": parse_noun,
    "seq": partial(_parse_span, units=_THOUSANDS, example="seq:5..20"),
    "turn": partial(_parse_span, units=_THOUSANDS, example="turn:>3"),
    "page": parse_name,
    "actor": parse_name,
    "at": parse_time,
    "size": partial(_parse_span, units=_THOUSANDS, example="size:>64k"),
    "erased": parse_erased,
}
#: Keys over the page table of a thread; a bare word is the beginning of an id.
PAGES: Keys = {
    "page": parse_name,
    "tier": parse_tier,
    "level": partial(_parse_span, units=_THOUSANDS, example="level:>0"),
    "type": parse_page_type,
    "modality": parse_modality,
    "pinned": parse_pinned,
    "tokens": partial(_parse_span, units=_THOUSANDS, example="tokens:>1k"),
}
#: Keys over the keys of a thread's working memory.
MEMORY_KEYS: Keys = {
    "name": parse_name,
    "ttl": parse_time_left,
    "size": partial(_parse_span, units=_THOUSANDS, example="size:>1k"),
}
