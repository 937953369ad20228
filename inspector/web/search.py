"""Search: what an operator types above a list, read into terms. Pure.

    query = term *(" " term)      term = ["-"] (key ":" value *("," value) | word)
    value = [<|>|<=|>=] number [s m h d k M] | a".."b | word | word"*" | "quoted"
    number, of times also = YYYY-MM-DD [T HH [:MM [:SS [.ffffff]]]] in UTC, all that
            begins so: a day, an hour, a minute

A bare word is the beginning of a name, or of an event's type. Values of one term are
joined by OR, terms by AND. What does not fit is refused with the nearest that would.
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
from memoryhub.queries.lists.terms import Period, SearchTerm, Span, Value, Word
from memoryhub.queries.memory.key_search import NEVER
from memoryhub.queries.threads import catalogue

MAX_CHARS, MAX_TERMS = 500, 20
#: The keys of a list, and how their values read.
Keys = Mapping[str, Callable[[str], Value]]

#: What events are about: the parts of their types before the dot.
NOUNS = tuple(dict.fromkeys(name.partition(".")[0] for name in TYPES))

#: Where a page can be.
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
#: A hundred years: longer ago than anything here, and still a time.
_MAX_AGE = 100 * 365 * 86_400
_THOUSANDS = {"k": 1_000, "M": 1_000_000}
_LABEL = "label."


class SearchError(InvalidError):
    """The search can't be read."""

    def __init__(self, problem: str, *, nearest: str = "") -> None:
        super().__init__(loc="q", nearest=nearest)
        #: What is wrong, for people.
        self.problem = problem
        #: The nearest word that would do.
        self.nearest = nearest

    @property
    def message(self) -> str:
        hint = f" Did you mean {self.nearest}?" if self.nearest else ""
        return self.problem + hint


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedSearch:
    """Hold what the URL wants of a list, or why its search can't be read."""

    text: str
    terms: tuple[SearchTerm, ...] = ()
    error: SearchError | None = None
    #: What else the URL chooses, beside the search and the moment.
    options: Mapping[str, Any] = field(default_factory=dict)

    def query(self, **more: str | int | None) -> str:
        """Word this search with more of a query, as it stands behind the `?`."""
        parts = {"q": self.text, **self.options, **more}
        return urlencode({name: value for name, value in parts.items() if value})


def parse_search(text: str, keys: Keys, *, bare: str = "name") -> ParsedSearch:
    """Parse a search as it was typed; what is wrong with it comes as its error."""
    text = text.strip()
    try:
        return ParsedSearch(text=text, terms=parse(text, keys, bare=bare))
    except SearchError as error:
        return ParsedSearch(text=text, error=error)


def parse(text: str, keys: Keys, *, bare: str = "name") -> tuple[SearchTerm, ...]:
    """The terms of a query over a list with these keys. Raises SearchError.

    A bare word is the beginning of what the key `bare` holds.
    """
    if len(text) > MAX_CHARS:
        raise SearchError(f"A search has at most {MAX_CHARS} characters.")
    if text.count('"') % 2:
        raise SearchError("A quotation mark is not closed.")
    tokens = _TOKEN.findall(text)
    if len(tokens) > MAX_TERMS:
        raise SearchError(f"A search has at most {MAX_TERMS} terms.")
    return tuple(_term(token, keys, bare) for token in tokens)


def _term(token: str, keys: Keys, bare: str) -> SearchTerm:
    negated, rest = token.startswith("-"), token.removeprefix("-")
    keyed = _KEY.fullmatch(rest)
    key = keyed[1] if keyed else ""
    name = _LABEL if key.startswith(_LABEL) else key
    if not keyed or name not in keys:
        return _bare(rest, key, keys, SearchTerm(key=bare, values=(), negated=negated))
    read = keys[name]
    if key == _LABEL:
        raise SearchError("A label is named after the dot.", nearest="label.source:…")
    values = tuple(read(value) for value in _VALUE.findall(keyed[2]))
    if not values:
        raise SearchError(f"{key}: wants a value.")
    return SearchTerm(key=key, values=values, negated=negated)


def _bare(text: str, key: str, keys: Keys, term: SearchTerm) -> SearchTerm:
    """A word without a key of ours: the beginning of a name, which may hold a colon."""
    near = get_close_matches(key, keys, n=1) if key else []
    if near or text.endswith(":"):
        wanted = get_close_matches(text.rstrip(":"), keys, n=1)
        raise SearchError(
            f"There is no key {text.partition(':')[0]}.",
            nearest=f"{(near or wanted or [term.key])[0]}:",
        )
    word = _unquoted(text).removesuffix("*")
    _require_name(word)
    return replace(term, values=(Word(text=word, prefix=True),))


def name(text: str) -> Word:
    """Read a name, or the beginning of one before `*`."""
    quoted = text.startswith('"')
    word = _unquoted(text)
    prefix = word.endswith("*") and not quoted
    word = word.removesuffix("*") if prefix else word
    _require_name(word)
    return Word(text=word, prefix=prefix)


def label(text: str) -> Word:
    """Read a label's value: a name or its beginning; numbers may be negative."""
    return Word(text=text) if _NEGATIVE.fullmatch(text) else name(text)


def status(text: str) -> Word:
    """Read one of the words a thread's status is called by."""
    visible = [word for word in Thread.Status.values if word not in _UNSEEN]
    return _one_of("status", _unquoted(text), visible)


def event_type(text: str) -> Word:
    """Read a type of event, or the beginning of some before `*`."""
    word = name(text)
    return word if word.prefix else _one_of("type", word.text, sorted(TYPES))


def noun(text: str) -> Word:
    """Read what events are about: the part of their types before the dot."""
    return _one_of("noun", _unquoted(text), NOUNS)


def subject(text: str) -> Word:
    """Read a subject's UUID, or the eight digits that lists show."""
    plain = _unquoted(text).replace("-", "").lower()
    if not re.fullmatch("[0-9a-f]{8}|[0-9a-f]{32}", plain):
        raise SearchError("A subject is a UUID or its last eight digits.")
    return Word(text=plain)


def action(text: str) -> Word:
    """Read an action of the audit log, or the beginning of some before `*`."""
    word = name(text)
    return word if word.prefix else _one_of("action", word.text, sorted(ACTIONS))


def purpose(text: str) -> Word:
    """Read why an operator looked at content."""
    return _one_of("purpose", _unquoted(text), PURPOSES)


def flag(text: str) -> Word:
    """Read what a list says of a thread beyond its columns."""
    return _one_of("flag", _unquoted(text), catalogue.FLAGS)


def tier(text: str) -> Word:
    """Read where a page is."""
    return _one_of("tier", _unquoted(text), TIERS)


def page_type(text: str) -> Word:
    return _one_of("type", _unquoted(text), PAGE_TYPES)


def modality(text: str) -> Word:
    return _one_of("modality", _unquoted(text), MODALITIES)


def pinned(text: str) -> Word:
    """Read whether a command has pinned a page."""
    return _one_of("pinned", _unquoted(text), ("yes", "no"))


def count(text: str) -> Span:
    """Read a number or a span of numbers."""
    return _span(text, _THOUSANDS, example="slots:>1k")


def age(text: str) -> Span:
    """Read a time since, or a span of such times."""
    return _span(text, _TIMES, example="active:<1h")


def ahead(text: str) -> Span:
    """Read a time from now: within it if it is plain, else a span of such times."""
    span = _span(text, _TIMES, example="due:7d")
    return replace(span, low=None) if span.low == span.high else span


def left(text: str) -> Span | Word:
    """Read how long something still lasts, or that it always does."""
    return Word(text=NEVER) if _unquoted(text) == NEVER else ahead(text)


def when(text: str) -> Span | Period:
    """Read a time since, or a time; or a span of either."""
    plain = _unquoted(text)
    return _period(plain) if _DAY.search(plain) else _span(plain, _TIMES, example=_AGE)


def erased(text: str) -> Word:
    """Read whether the content of an event was erased."""
    word = _unquoted(text)
    if word not in ("true", "false"):
        raise SearchError("Erased is true or false.", nearest="erased:true")
    return Word(text=word)


def _period(text: str) -> Period:
    low, dots, high = text.partition("..")
    compared, period = _stretch(low)
    if dots:
        beyond, last = _stretch(high)
        if compared or beyond:
            raise SearchError("A span has plain times.", nearest=_SPAN_OF_TIME)
        return Period(begin=period.begin, end=last.end)
    return {
        "": period,
        "<": Period(end=period.begin),
        "<=": Period(end=period.end),
        ">": Period(begin=period.end),
        ">=": Period(begin=period.begin),
    }[compared]


def _stretch(text: str) -> tuple[str, Period]:
    """Read what it is compared by, and from when to when: the day, or less if given."""
    shape = _TIME.fullmatch(text)
    try:
        if shape is None:
            raise ValueError
        begin = datetime.fromisoformat(shape[2]).replace(tzinfo=UTC)
        # The first fractions of a second that are said have the length 21.
        width = _WIDTHS.get(len(shape[2])) or 10.0 ** (20 - len(shape[2]))
        end = begin + timedelta(seconds=width)
    except (ValueError, OverflowError):
        raise SearchError("There is no such time.", nearest=_SPAN_OF_TIME) from None
    return shape[1] or "", Period(begin=begin, end=end)


def _span(text: str, units: Mapping[str, int], *, example: str) -> Span:
    low, dots, high = text.partition("..")
    if dots:
        bounds = [_number(end, units, example) for end in (low, high)]
        if any(compared for compared, _ in bounds):
            raise SearchError("A span has plain numbers.", nearest=example)
        return Span(low=bounds[0][1], high=bounds[1][1])
    compared, value = _number(text, units, example)
    if not compared:
        return Span(low=value, high=value)
    if compared.startswith("<"):
        return Span(high=value, high_open=compared == "<")
    return Span(low=value, low_open=compared == ">")


def _one_of(key: str, word: str, words: Sequence[str]) -> Word:
    if word not in words:
        near = get_close_matches(word, words, n=1) or words[:1]
        raise SearchError(f"There is no such {key}.", nearest=f"{key}:{near[0]}")
    return Word(text=word)


def _number(text: str, units: Mapping[str, int], example: str) -> tuple[str, float]:
    shape = _NUMBER.fullmatch(text)
    if shape is None or (shape[3] and shape[3] not in units):
        raise SearchError("That is no number this key takes.", nearest=example)
    value = float(shape[2]) * units.get(shape[3], 1)
    if units is _TIMES and value > _MAX_AGE:
        raise SearchError("That is longer than a hundred years.", nearest=example)
    return shape[1] or "", value


def _unquoted(text: str) -> str:
    return text.replace('"', "")


def _require_name(word: str) -> None:
    if not names.valid(word):
        raise SearchError("Names hold letters, digits and . _ : @ - only.")


_AGE, _SPAN_OF_TIME = "at:<1h", "at:2026-01-30..2026-01-31"
#: Seconds that a time stands for, by how much of `YYYY-MM-DDTHH:MM:SS` is said.
_WIDTHS = {10: 86_400, 13: 3_600, 16: 60, 19: 1}
_UNSEEN = (Thread.Status.IMPORTING, Thread.Status.ERASED)

#: Keys over the list of threads.
THREADS: Keys = {
    "name": name,
    "subject": subject,
    "status": status,
    "agent_type": name,
    "agent_instance": name,
    "session": name,
    _LABEL: label,
    "slots": count,
    "events": count,
    "turns": count,
    "tokens": count,
    "faults": count,
    "active": age,
    "at": when,
    "due": ahead,
    "flag": flag,
}
#: Keys over the audit log; a bare word is the beginning of an action.
AUDIT: Keys = {
    "action": action,
    "actor": name,
    "target": name,
    "purpose": purpose,
    "outcome": name,
    "at": when,
}
#: Keys over the events of a thread; a bare word is the beginning of a type.
EVENTS: Keys = {
    "type": event_type,
    "noun": noun,
    "seq": partial(_span, units=_THOUSANDS, example="seq:5..20"),
    "turn": partial(_span, units=_THOUSANDS, example="turn:>3"),
    "page": name,
    "actor": name,
    "at": when,
    "size": partial(_span, units=_THOUSANDS, example="size:>64k"),
    "erased": erased,
}
#: Keys over the page table of a thread; a bare word is the beginning of an id.
PAGES: Keys = {
    "page": name,
    "tier": tier,
    "level": partial(_span, units=_THOUSANDS, example="level:>0"),
    "type": page_type,
    "modality": modality,
    "pinned": pinned,
    "tokens": partial(_span, units=_THOUSANDS, example="tokens:>1k"),
}
#: Keys over the keys of a thread's working memory.
MEMORY_KEYS: Keys = {
    "name": name,
    "ttl": left,
    "size": partial(_span, units=_THOUSANDS, example="size:>1k"),
}
