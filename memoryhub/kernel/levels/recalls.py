"""Recall: the texts that a turn brings along unasked, as the model reads them.

Pure. They stand as what a search of ours has found: with a tool's authority, never with
that of whoever said them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from memoryhub.kernel.levels import marks
from memoryhub.kernel.levels.contexts import Mark, Recall, Texts
from memoryhub.kernel.levels.lines import shown_text
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.state.pages import FULL, Location

#: How a text was found: by the words of the newest message, in the thread or in another
#: one of its subject; or without them, as the newest summary, a claim that is used, or
#: what is usually read before the tools that were called last.
SEARCH, ELSEWHERE = "search", "elsewhere"
SUMMARY, CLAIM, PREREQUISITE = "summary", "claim", "prerequisite"
PREFETCHED = (SUMMARY, CLAIM, PREREQUISITE)
SOURCES = (SEARCH, ELSEWHERE, *PREFETCHED)
#: What the call says that it looks for.
QUERY = "what the next message is about"


class Related(NamedTuple):
    """A text that may be brought along: where it lies, and how it was found."""

    place: Location
    #: A word of `SOURCES`.
    source: str
    #: What of it no longer holds.
    marks: tuple[Mark, ...] = ()


#: By language, what somebody says who speaks of what was said before.
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


def speaks_of_before(question: str) -> bool:
    """Return whether a message speaks of what was said before, by its phrases."""
    return _SPOKEN.search(" ".join(question.casefold().split())) is not None


def text(recall: Recall, found: Sequence[Opened], texts: Texts) -> str:
    """Return the result of the call: a header, then each text whole, oldest first.

    Raises KeyError where what a mark is told by is not in `texts`.
    """
    entries = [
        entry(opened, source, marks.text(recall.marked(n), texts))
        for n, (opened, source) in enumerate(zip(found, recall.sources, strict=True))
    ]
    one = "1 earlier text that is" if len(found) == 1 else f"{len(found)} earlier texts"
    header = f"{one} whole, for what the next message is about"
    return "\n\n".join([header, *entries])


def entry(opened: Opened, source: str, marked: str = "") -> str:
    """Return a text with a line about it: its page, who said it, when, its marks."""
    name = "an earlier thread" if source == ELSEWHERE else opened.page_id
    who = opened.role or opened.type
    sender = opened.sender if opened.sender != who else ""
    when = f"{opened.at:%Y-%m-%d %H:%M}" if opened.at else ""
    about = " · ".join(filter(None, (name, who, sender, when, marked)))
    return f"{about}\n{shown_text(opened, level=FULL)}"
