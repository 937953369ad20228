from __future__ import annotations

from inspector.threads.threads import Asked
from memoryhub.queries.threads import catalogue
from memoryhub.queries.threads.facets import Choice, Facet, Facets
from tests.gallery.pattern import Pattern
from tests.gallery.scenery import (
    BASE,
    CLOSED,
    FRESH,
    FULL,
    HOST,
    NOW,
    OPEN,
    OWNER,
    RETIRED,
    VIEWER,
    of_thread,
)

SEARCHED = Asked(text="status:open")
UNASKED = Asked(text="")
FACETS = (
    Facet(
        key="status",
        choices=(Choice(value="open", count=9_120), Choice(value="closed", count=880)),
        more=0,
    ),
    Facet(
        key="session",
        choices=tuple(Choice(value=f"day-{n}", count=80 - n) for n in range(8)),
        more=4_112,
    ),
)
NARROWED = Facets(facets=FACETS[:1], counted=2_000, capped=False)
CAPPED = Facets(facets=FACETS, counted=2_000, capped=True)
BARE = Facets(facets=(), counted=0, capped=False)
TABS = {"place": OWNER, "base": BASE}
LIST = {"place": OWNER, "since": NOW.isoformat(), "most": catalogue.FRESH}

PATTERNS = (
    Pattern(
        template="inspector/threads/_head.html",
        states={
            "open, followed": of_thread(),
            "nothing in it": of_thread(FRESH),
            "nearly full, many labels, a long name": of_thread(FULL),
            "closed": of_thread(CLOSED),
            "retired": of_thread(RETIRED),
        },
    ),
    Pattern(
        template="inspector/threads/_tabs.html",
        states={
            "open": {**TABS, "page": "timeline", **of_thread()},
            "as of an event": {**TABS, "page": "slots", **of_thread(at=40, live=False)},
            "closed": {**TABS, "page": "events", **of_thread(CLOSED)},
            "retired": {**TABS, "page": "tail", **of_thread(RETIRED)},
            "for a viewer": {**TABS, "page": "forks", **of_thread(place=VIEWER)},
        },
    ),
    Pattern(
        template="inspector/threads/_rows.html",
        states={
            "threads in every state": {
                "listed": (OPEN, FULL, FRESH, CLOSED, RETIRED),
                "place": OWNER,
            },
        },
    ),
    Pattern(
        template="inspector/threads/_row.html",
        states={
            "as a page has it": of_thread(),
            "pushed": of_thread(pushed=True),
            "nearly full": of_thread(FULL),
        },
        frame="threads",
    ),
    Pattern(
        template="inspector/threads/_scope.html",
        states={
            "all levels": of_thread(),
            "none": of_thread(FRESH),
        },
        frame="scope",
    ),
    Pattern(
        template="inspector/threads/_labels.html",
        states={
            "of every kind": of_thread(),
            "many": of_thread(FULL),
            "none": of_thread(FRESH),
        },
        frame="labels",
    ),
    Pattern(
        template="inspector/threads/_facets.html",
        states={
            "one": {"spread": NARROWED, "place": OWNER, "asked": UNASKED},
            "many, under a search": {
                "spread": CAPPED,
                "place": OWNER,
                "asked": SEARCHED,
            },
            "nothing to narrow by": {"spread": BARE, "place": OWNER, "asked": SEARCHED},
        },
    ),
    Pattern(
        template="inspector/threads/_fresh.html",
        states={
            "nothing new": {**LIST, "fresh": 0, "asked": UNASKED},
            "some": {**LIST, "fresh": 12, "asked": SEARCHED},
            "more than are counted": {
                **LIST,
                "fresh": catalogue.FRESH,
                "asked": SEARCHED,
            },
        },
    ),
    Pattern(
        template="inspector/threads/_empty.html",
        states={
            "nothing matches": {"filtered": "status:x", "place": OWNER, "host": HOST},
            "none yet, for an owner": {"filtered": "", "place": OWNER, "host": HOST},
            "none yet, for a viewer": {"filtered": "", "place": VIEWER, "host": HOST},
        },
    ),
    Pattern(template="inspector/threads/_grammar.html", states={"always": {}}),
)
