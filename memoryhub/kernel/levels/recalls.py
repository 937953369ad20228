"""Recall: the texts that a turn brings along unasked, as the model reads them.

Pure. They stand as what a search of ours has found: with a tool's authority, never with
that of whoever said them.
"""

from __future__ import annotations

from collections.abc import Sequence

from memoryhub.kernel.levels.lines import shown_text
from memoryhub.kernel.levels.opened import Opened
from memoryhub.kernel.state.pages import FULL

#: How a text was found: by the words of the newest message, in the thread or in another
#: one of its subject.
SEARCH, ELSEWHERE = "search", "elsewhere"
SOURCES = (SEARCH, ELSEWHERE)
#: What the call says that it looks for.
QUERY = "what the next message is about"


def text(found: Sequence[Opened], sources: Sequence[str]) -> str:
    """Return the result of the call: a header, then each text whole, oldest first."""
    entries = [entry(*each) for each in zip(found, sources, strict=True)]
    one = "1 earlier text that is" if len(found) == 1 else f"{len(found)} earlier texts"
    header = f"{one} whole, for what the next message is about"
    return "\n\n".join([header, *entries])


def entry(opened: Opened, source: str) -> str:
    """Return a text with a line about it: its page, who said it, and when."""
    name = "an earlier thread" if source == ELSEWHERE else opened.page_id
    who = opened.role or opened.type
    sender = opened.sender if opened.sender != who else ""
    when = f"{opened.at:%Y-%m-%d %H:%M}" if opened.at else ""
    about = " · ".join(filter(None, (name, who, sender, when)))
    return f"{about}\n{shown_text(opened, level=FULL)}"
