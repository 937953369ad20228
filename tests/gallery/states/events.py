from __future__ import annotations

from dataclasses import replace

from inspector.web.asof import AsOf
from inspector.web.search import Asked, SearchError
from memoryhub.queries.threads.events import EventLine
from tests.gallery.pattern import Pattern
from tests.gallery.scenery import (
    APPENDED,
    BASE,
    CALLED,
    CREATED,
    FRESH,
    GONE,
    HOSTILE,
    SHUT,
    SOME,
    TURN,
    Context,
    of_thread,
    told,
)

LIVE = AsOf(seq=1_204, head=1_204, live=True)
PAUSED = AsOf(seq=40, head=1_204, live=False)
WRONG = Asked(
    text="nuon:slot", error=SearchError("There is no key nuon.", nearest="noun:")
)
STRANGE = replace(APPENDED, payload={"content": HOSTILE.content})
LONG = replace(APPENDED, payload={"content": "word " * 400})


def line(event: EventLine, *, at: int | None = None, opened: bool = False) -> Context:
    return {
        "told": told(event, opened=opened),
        "line": event,
        "base": BASE,
        "keep": "",
        "at": at,
    }


PATTERNS = (
    Pattern(
        template="inspector/threads/events/_line.html",
        states={
            "a message": line(APPENDED),
            "the one at hand": line(CALLED, at=4),
            "later than the one at hand": line(TURN, at=1),
            "opened": line(CALLED, opened=True),
            "by an operator": line(SHUT),
            "of no scope": line(replace(CREATED, body={})),
            "cut": line(LONG),
            "characters that are not seen": line(STRANGE),
            "erased": line(GONE),
        },
        frame="list",
    ),
    Pattern(
        template="inspector/threads/events/_tail.html",
        states={
            "followed": of_thread(shown=SOME, first=1),
            "paused": of_thread(shown=SOME, first=1, live=False),
            "pushed": of_thread(shown=SOME[:2], first=1, pushed=True),
            "no event yet": of_thread(FRESH, shown=(), first=0),
        },
    ),
    Pattern(
        template="inspector/threads/events/_filters.html",
        states={
            "nothing asked": of_thread(asked=Asked(text=""), moved=LIVE),
            "a search, as of an event": of_thread(
                asked=Asked(text="noun:slot"), moved=PAUSED, live=False
            ),
            "a wrong search": of_thread(asked=WRONG, moved=LIVE),
        },
    ),
    Pattern(template="inspector/threads/events/_grammar.html", states={"always": {}}),
)
