"""Marks: words that part of a text no longer holds, for models and agents. Pure.

A text stays as written; its marks stand beside the text. See decision 62.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from memoryhub.kernel.context.contexts import OutdatedMark, Texts
from memoryhub.kernel.state.pages import FULL, Location

#: Entity of most claims; marks leave this name out.
USER: Final = "user"
#: Most marks of one text, and most characters of a value in a mark.
MOST, MOST_VALUE = 3, 200
_WITHDRAWN: Final = "[withdrawn]"


class MarkWords(NamedTuple):
    """A mark in words."""

    words: str
    #: The assertion that replaced the claim, or ended it; None: withdrawn.
    by: int | None


def render_marks(found: Iterable[OutdatedMark], texts: Texts) -> str:
    """Render the marks of a text, worded by `word_marks`, as they stand beside it."""
    return join_marks(word_marks(found, texts))


def word_marks(found: Iterable[OutdatedMark], texts: Texts) -> tuple[MarkWords, ...]:
    """Return the marks of a text in words, without duplicates, at most `MOST`.

    Raise KeyError if `texts` lacks an assertion that a mark refers to.
    """
    every = dict[str, MarkWords]()
    for mark in found:
        by = mark.since if mark.holds is None else mark.holds
        each = MarkWords(_word_mark(mark, texts), by)
        every.setdefault(each.words, each)
    return (*every.values(),)[:MOST]


def join_marks(found: Iterable[MarkWords]) -> str:
    """Join marks as they stand beside their text."""
    return " ".join(each.words for each in found)


def _word_mark(mark: OutdatedMark, texts: Texts) -> str:
    if mark.since is None:
        return _WITHDRAWN
    since = texts[Location(mark.home, mark.since, FULL)].content
    time = since["valid_from" if mark.begins else "valid_until"]
    at = _render_day(datetime.fromisoformat(time))
    if mark.holds is None:
        return f"[no longer so: since {at}]"
    now = texts[Location(mark.home, mark.holds, FULL)].content
    return f"[no longer so: since {at} {render_claim(now)}]"


def render_sentence(
    claim: str, begin: datetime, end: datetime | None, confidence: float | None
) -> str:
    """Render a fact with its interval and confidence, as a line that ends a claim."""
    until = "" if end is None else f" until {_render_day(end)}"
    sure = "" if confidence is None else f", confidence {confidence:.2g}"
    return f"{_render_one_line(claim)}, since {_render_day(begin)}{until}{sure}"


def render_claim(content: Mapping[str, Any]) -> str:
    """Render the claim of an assertion as one line."""
    entity = _render_one_line(content["entity"])
    named = "" if entity.casefold() == USER else f"{entity} "
    value = _render_one_line(content["value"])
    cut = f"{value[:MOST_VALUE]}…" if len(value) > MOST_VALUE else value
    return f"{named}{_render_one_line(content['predicate'])} {cut}"


def _render_one_line(text: str) -> str:
    return " ".join(text.split())


def _render_day(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d}"
