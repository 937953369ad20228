from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from memoryhub.queries.export.imports import Rewards, Source
from tests.gallery.pattern import Pattern
from tests.gallery.scenery import LONG_NAME, NOW, OWNER

SPREAD = Rewards(
    count=480, mean=0.6354, least=0.0, most=1.0, bars=(140, 2, 0, 9, 0, 0, 31, 8, 290)
)
ALIKE = Rewards(count=1, mean=1.0, least=1.0, most=1.0, bars=())
SOURCE = Source(
    name="runs-of-monday",
    runs=480,
    slots=12_030,
    turns=5_100,
    rewards=SPREAD,
    first_at=NOW - timedelta(days=3),
    last_at=NOW - timedelta(hours=1),
)
BARE = replace(SOURCE, name=LONG_NAME, runs=1, slots=0, turns=0, rewards=None)

PATTERNS = (
    Pattern(
        template="inspector/threads/imports/_row.html",
        states={
            "with rewards": {"line": SOURCE, "place": OWNER},
            "one run without, a long name": {"line": BARE, "place": OWNER},
        },
        frame="sources",
    ),
    Pattern(
        template="inspector/threads/imports/_rewards.html",
        states={
            "spread": {"rewards": SPREAD},
            "all the same": {"rewards": ALIKE},
            "none": {"rewards": None},
        },
    ),
)
