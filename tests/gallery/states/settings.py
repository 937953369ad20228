from __future__ import annotations

from datetime import timedelta

from inspector.drawing.lifetimes import Lifetimes
from memoryhub.queries.forget.expiry import Doomed
from memoryhub.queries.threads.retention import DueLine, Horizon
from tests.gallery.pattern import Pattern
from tests.gallery.scenery import NOW, OWNER

LINES = tuple(
    DueLine(name=f"ticket-{n}", due_at=NOW + timedelta(days=2 * n - 1))
    for n in range(11)
)
NOTHING = Horizon(days=0, count=0, first=(), further=0, capped=False)
SOME = (
    Horizon(days=0, count=1, first=LINES[:1], further=0, capped=False),
    Horizon(days=7, count=812, first=LINES[1:6], further=806, capped=False),
    Horizon(days=30, count=10_000, first=LINES[6:], further=9_183, capped=True),
)

PATTERNS = (
    Pattern(
        template="inspector/threads/settings/_days.html",
        states={
            "for ever": {"days": None},
            "a day": {"days": 1},
            "a year": {"days": 365},
        },
    ),
    Pattern(
        template="inspector/threads/settings/_horizons.html",
        states={
            "as saved": {"horizons": SOME, "kept": "", "place": OWNER},
            "as previewed": {
                "horizons": SOME[:2],
                "kept": "retention_idle_days=7",
                "place": OWNER,
            },
            "nothing due": {"horizons": (NOTHING,), "kept": "", "place": OWNER},
        },
    ),
    Pattern(
        template="inspector/threads/settings/_lifetimes.html",
        states={
            "as saved": {"lasting": Lifetimes(ttl="", grace="86400"), "place": OWNER},
            "erases": {
                "lasting": Lifetimes(
                    ttl="60", grace="0", doomed=Doomed(count=812, capped=False)
                ),
                "place": OWNER,
            },
            "wrong": {
                "lasting": Lifetimes(ttl="0", grace="", problem="No such number."),
                "place": OWNER,
            },
        },
    ),
)
