"""Marks: what of a text no longer holds, as models and agents read it. Pure.

A text stays as it was said; what has become of it stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from memoryhub.kernel.levels.contexts import Mark, Texts
from memoryhub.kernel.state.pages import FULL, Location

#: Of whom most claims are: not said again in each mark.
USER: Final = "user"
#: Marks of one text, and characters of a value in one.
MOST, MOST_VALUE = 3, 200
_WITHDRAWN: Final = "[withdrawn]"


class MarkWords(NamedTuple):
    """A mark in words."""

    words: str
    #: The assertion by which something else holds, else it is over; None: withdrawn.
    by: int | None


def text(found: Iterable[Mark], texts: Texts) -> str:
    """Return the marks of a text as they stand beside it, as `worded` does."""
    return joined(worded(found, texts))


def worded(found: Iterable[Mark], texts: Texts) -> tuple[MarkWords, ...]:
    """Return the marks of a text in words; each once.

    Raises KeyError where an assertion that they are told by is not in `texts`.
    """
    every = dict[str, MarkWords]()
    for mark in found:
        by = mark.since if mark.holds is None else mark.holds
        each = MarkWords(_text(mark, texts), by)
        every.setdefault(each.words, each)
    return (*every.values(),)[:MOST]


def joined(found: Iterable[MarkWords]) -> str:
    """Return marks as they stand beside their text."""
    return " ".join(each.words for each in found)


def _text(mark: Mark, texts: Texts) -> str:
    if mark.since is None:
        return _WITHDRAWN
    since = texts[Location(mark.home, mark.since, FULL)].content
    time = since["valid_from" if mark.begins else "valid_until"]
    at = _day(datetime.fromisoformat(time))
    if mark.holds is None:
        return f"[no longer so: since {at}]"
    now = texts[Location(mark.home, mark.holds, FULL)].content
    return f"[no longer so: since {at} {claimed(now)}]"


def sentence(
    claim: str, begin: datetime, end: datetime | None, confidence: float | None
) -> str:
    """Return a fact with its interval and confidence, as a line that ends a claim."""
    until = "" if end is None else f" until {_day(end)}"
    sure = "" if confidence is None else f", confidence {confidence:.2g}"
    return f"{_line(claim)}, since {_day(begin)}{until}{sure}"


def claimed(content: Mapping[str, Any]) -> str:
    """Return what an assertion claims as one line."""
    entity = _line(content["entity"])
    named = "" if entity.casefold() == USER else f"{entity} "
    value = _line(content["value"])
    cut = f"{value[:MOST_VALUE]}…" if len(value) > MOST_VALUE else value
    return f"{named}{_line(content['predicate'])} {cut}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _day(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d}"
