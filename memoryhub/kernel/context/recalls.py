"""Recall: the texts that a turn brings along unasked, as the model reads them.

Pure. The texts stand as the result of one of our searches: with a tool's authority,
never with their speaker's. See decision 59.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from memoryhub.kernel.context import marks
from memoryhub.kernel.context.contexts import OutdatedMark, Texts, TurnRecall
from memoryhub.kernel.context.lines import render_shown_text
from memoryhub.kernel.context.opened import OpenedPage
from memoryhub.kernel.state.pages import FULL, Location

#: Sources of a text. Search and elsewhere: found by the words of the newest message, in
#: the thread or in another thread of its subject. Without those words: the newest
#: summary, a claim in use, or the page usually read before the tools that were called
#: last. Beside a message that is found, here or in another thread: the question or the
#: answer of its exchange.
SEARCH, ELSEWHERE = "search", "elsewhere"
EXCHANGE, ELSEWHERE_EXCHANGE = "exchange", "elsewhere_exchange"
SUMMARY, CLAIM, PREREQUISITE = "summary", "claim", "prerequisite"
PREFETCHED = (SUMMARY, CLAIM, PREREQUISITE)
EXCHANGED = (EXCHANGE, ELSEWHERE_EXCHANGE)
SOURCES = (SEARCH, ELSEWHERE, *PREFETCHED, *EXCHANGED)
#: Sources of other threads' texts, which have no page in the thread.
OTHER_THREADS = (ELSEWHERE, ELSEWHERE_EXCHANGE)
#: Query of the recall's search call.
QUERY = "what the next message is about"


class Related(NamedTuple):
    """A text that may be brought along: its location, and how it was found."""

    place: Location
    #: A word of `SOURCES`.
    source: str
    #: Marks of parts that no longer hold.
    marks: tuple[OutdatedMark, ...] = ()
    #: Lower levels that may stand for the text, the most faithful first.
    lower: tuple[Location, ...] = ()
    #: Text of the same exchange that was found, and without which the text stays away.
    beside: Location | None = None


#: Phrases, by language, that refer to an earlier conversation.
_PHRASES = {
    "en": (
        *("as we said", "as we discussed", "as i said", "as i told you", "you told me"),
        *("remember when", "do you remember", "that decision about", "go back to"),
        *("we talked about", "we agreed", "we decided", "last time", "earlier you"),
    ),
    "de": (
        *("wie gesagt", "wie besprochen", "wie ich sagte", "erinnerst du dich"),
        *("weißt du noch", "letztes mal", "wir hatten beschlossen", "zurück zu"),
    ),
    "fr": ("comme on a dit", "comme je disais", "tu te souviens", "la dernière fois"),
    "es": ("como dijimos", "como te dije", "te acuerdas", "la última vez"),
}
_ANY = "|".join(re.escape(each) for group in _PHRASES.values() for each in group)
_SPOKEN = re.compile(rf"\b(?:{_ANY})\b")


def has_reminder_phrase(question: str) -> bool:
    """Return whether a message refers to an earlier conversation, by its phrases."""
    return _SPOKEN.search(" ".join(question.casefold().split())) is not None


def render_recall(
    recall: TurnRecall,
    found: Sequence[OpenedPage],
    texts: Texts,
    *,
    levels: Sequence[int],
) -> str:
    """Render the result of the call: a header, then each text, oldest first.

    `levels` are those of the texts. Raise KeyError if `texts` lacks an assertion that a
    mark refers to.
    """
    entries = [
        render_entry(
            opened,
            source,
            marks.render_marks(recall.get_marks(n), texts),
            level=levels[n],
        )
        for n, (opened, source) in enumerate(zip(found, recall.sources, strict=True))
    ]
    one = "1 earlier text that is" if len(found) == 1 else f"{len(found)} earlier texts"
    header = f"{one} whole, for what the next message is about"
    if any(levels):
        header += "; an id before ~ and a number is that of a shortened text"
    return "\n\n".join([header, *entries])


def render_entry(
    opened: OpenedPage, source: str, marked: str = "", *, level: int = FULL
) -> str:
    """Render a text below a line with its page, speaker, time and marks."""
    name = "an earlier thread" if source in OTHER_THREADS else opened.page_id
    name += f" ~{level}" if level else ""
    who = opened.role or opened.type
    sender = opened.sender if opened.sender != who else ""
    when = f"{opened.at:%Y-%m-%d %H:%M}" if opened.at else ""
    about = " · ".join(filter(None, (name, who, sender, when, marked)))
    return f"{about}\n{render_shown_text(opened, level=level)}"
